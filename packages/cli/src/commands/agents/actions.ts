import { randomUUID } from 'node:crypto';
import type { Action, ActionInput, Invocation, RelayClient, SessionSummary } from '@relay/sdk';
import { type CliCommand, type Context, pageSize, take } from '../../command.ts';
import { askUntil, timeoutOption } from '../../deadline.ts';
import { CliError, type ExitCode, exitCodes } from '../../errors.ts';
import { count, json } from '../../options.ts';
import { formatTime } from '../../output/table.ts';
import { relay } from '../../environment.ts';

export function registerActions(program: CliCommand): void {
  const actions = program
    .command('actions')
    .description('list and invoke the functions that sessions and services expose')
    .examples(['relay actions list', 'relay actions invoke count --input \'{"by": 2}\'']);
  actions
    .command('list')
    .description('list actions by name')
    .option('--limit <n>', 'maximum number of results', count, 100)
    .examples(['relay actions list'])
    .handle(listActions);
  actions
    .command('show <action>')
    .description('show an action with its schemas')
    .examples(['relay actions show count'])
    .handle(showAction);
  actions
    .command('invoke <action>')
    .description('invoke an action and print its output as JSON')
    .option('--input <json>', 'its input (default: {})', json)
    .addOption(timeoutOption('the invocation'))
    .examples(
      [
        'relay actions invoke count --input \'{"by": 2}\'',
        'relay actions invoke deploy --timeout 10m',
      ],
      'Exits with 1 if it fails, with 4 if you may not invoke it, and with 7 if it has not ended ' +
        'within 30 s, such as one that waits for an approval. With --timeout it waits as long as ' +
        'that says, and then exits with 124.',
    )
    .handle(invokeAction);
  actions
    .command('status <invocation>')
    .description('print the output of an invocation, or what it waits for')
    .examples(['relay actions status INVOCATION_ID'])
    .handle(showInvocation);
}

async function listActions(context: Context<{ limit: number }>): Promise<void> {
  const { limit } = context.options;
  const client = await context.client();
  const found = await take(client.actions.list({ limit: pageSize(limit) }), limit);
  const handlers = new Map<Action, string>();
  for (const action of found) handlers.set(action, await handlerOf(client, action));
  context.print.list(
    found,
    [
      { title: 'action', value: ({ name }) => name },
      { title: 'by', value: (action) => handlers.get(action) },
      { title: 'for', value: callersOf, minor: true },
      { title: 'description', value: ({ description }) => description },
    ],
    'No actions.',
  );
}

/** Undefined for an action of a URL or of the server. */
async function sessionOf(
  { sessions }: RelayClient,
  { handler }: Action,
): Promise<SessionSummary | undefined> {
  return 'sessionId' in handler ? sessions.get(handler.sessionId) : undefined;
}

async function handlerOf(client: RelayClient, action: Action): Promise<string> {
  const { handler } = action;
  const session = await sessionOf(client, action);
  if (session !== undefined) return `@${session.identity.handle}`;
  return 'url' in handler ? new URL(handler.url).origin : 'the server';
}

function callersOf({ availableTo }: Action): string {
  if (availableTo === undefined) return 'everyone';
  return availableTo.flatMap((selector) => Object.values(selector)).join(' ');
}

async function findAction({ actions }: RelayClient, name: string): Promise<Action | undefined> {
  for await (const action of actions.list({ limit: 200 })) {
    if (action.name === name) return action;
  }
  return undefined;
}

async function showAction(context: Context, [name = '']: readonly string[]): Promise<void> {
  const client = await context.client();
  const action = await findAction(client, name);
  if (action === undefined) {
    throw new CliError('not_found', `No action has the name ${name}`, {
      exit: exitCodes.notFound,
      hint: `"${relay} actions list" shows all`,
    });
  }
  context.print.record(action, {
    action: action.name,
    description: action.description,
    by: await handlerOf(client, action),
    for: callersOf(action),
    idempotent: action.idempotent ? 'yes' : 'no',
    timeout: action.timeoutMs === undefined ? undefined : `${action.timeoutMs} ms`,
    created: formatTime(action.createdAt),
    input: JSON.stringify(action.inputSchema, null, 2),
    output:
      action.outputSchema === undefined ? undefined : JSON.stringify(action.outputSchema, null, 2),
  });
}

/** Then it says what it waits for. */
const quietMs = 2_000;
const defaultSeconds = 28;

interface InvokeOptions {
  readonly input?: { readonly value: unknown };
  readonly timeout?: number;
}

async function invokeAction(
  context: Context<InvokeOptions>,
  [name = '']: readonly string[],
): Promise<void> {
  const client = await context.client();
  const { timeout } = context.options;
  const input = (context.options.input?.value ?? {}) as ActionInput;
  const idempotencyKey = randomUUID();
  // The same invocation, by its key.
  const invoke = (ms: number) => client.actions.invoke(name, input, { idempotencyKey, waitMs: ms });
  let invocation = await invoke(quietMs);
  const hasEnded = ({ endedAt }: Invocation) => endedAt !== undefined;
  if (!hasEnded(invocation)) {
    const state = await stateOf(client, invocation);
    context.print.note(`${state}; waiting up to ${timeout ?? 30} s …`);
    const seconds = timeout === undefined ? defaultSeconds : timeout - quietMs / 1_000;
    invocation = await askUntil(seconds, invoke, hasEnded);
  }
  await printInvocation(
    context,
    client,
    invocation,
    timeout === undefined ? exitCodes.runFailed : exitCodes.timeout,
  );
}

async function showInvocation(context: Context, [given]: readonly string[]): Promise<void> {
  const client = await context.client();
  const id = await context.id('invocation', given);
  await printInvocation(context, client, await client.invocations.get(id));
}

/** Its output. Throws its error, or that it has not ended. */
async function printInvocation(
  context: Context,
  client: RelayClient,
  invocation: Invocation,
  exit: ExitCode = exitCodes.runFailed,
): Promise<void> {
  const { id, status, output, error, approvalId } = invocation;
  if (context.print.json) context.print.value(invocation);
  if (status === 'completed') {
    if (!context.print.json) context.print.value(output);
    return;
  }
  if (error !== undefined) throw new CliError(error.code, error.message);
  const later = `see later with "${relay} actions status ${id}"`;
  throw new CliError('not_ended', await stateOf(client, invocation), {
    exit,
    hint:
      status === 'waiting' && approvalId !== undefined
        ? `"${relay} approvals show ${approvalId}" shows what is asked; ${later}`
        : later,
  });
}

/** What an invocation that has not ended waits for. */
async function stateOf(
  client: RelayClient,
  { id, action: name, status, approvalId }: Invocation,
): Promise<string> {
  if (status === 'waiting' && approvalId !== undefined) {
    return `The invocation ${id} waits for the approval ${approvalId}`;
  }
  const action = await findAction(client, name);
  const runner = action === undefined ? undefined : await sessionOf(client, action);
  const where =
    runner === undefined ? '' : ` by @${runner.identity.handle}, which is ${runner.status}`;
  return `The invocation ${id} is ${status}${where}`;
}
