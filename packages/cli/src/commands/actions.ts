import type { Action, ActionInput } from '@relay/sdk';
import { type CliCommand, type Context, pageSize, take } from '../command.ts';
import { CliError, exitCodes } from '../errors.ts';
import { count, json } from '../options.ts';
import { formatTime } from '../output/table.ts';

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
    .examples(
      ['relay actions invoke count --input \'{"by": 2}\''],
      'Exits with 1 if it fails, with 4 if you may not invoke it, and with 7 if it has not ended ' +
        'within 30 s, such as one that waits for an approval.',
    )
    .handle(invokeAction);
}

async function listActions(context: Context<{ limit: number }>): Promise<void> {
  const { limit } = context.options;
  const { actions } = await context.client();
  context.print.list(
    await take(actions.list({ limit: pageSize(limit) }), limit),
    [
      { title: 'action', value: ({ name }) => name },
      { title: 'by', value: handlerOf },
      { title: 'for', value: callersOf, minor: true },
      { title: 'description', value: ({ description }) => description },
    ],
    'No actions.',
  );
}

function handlerOf({ handler }: Action): string {
  if ('sessionId' in handler) return `session ${handler.sessionId}`;
  return 'url' in handler ? new URL(handler.url).origin : 'the server';
}

function callersOf({ availableTo }: Action): string {
  if (availableTo === undefined) return 'everyone';
  return availableTo.flatMap((selector) => Object.values(selector)).join(' ');
}

async function showAction(context: Context, [name = '']: readonly string[]): Promise<void> {
  const { actions } = await context.client();
  for await (const action of actions.list({ limit: 200 })) {
    if (action.name !== name) continue;
    context.print.record(action, {
      action: action.name,
      description: action.description,
      by: handlerOf(action),
      for: callersOf(action),
      idempotent: action.idempotent ? 'yes' : 'no',
      timeout: action.timeoutMs === undefined ? undefined : `${action.timeoutMs} ms`,
      created: formatTime(action.createdAt),
      input: JSON.stringify(action.inputSchema, null, 2),
      output:
        action.outputSchema === undefined
          ? undefined
          : JSON.stringify(action.outputSchema, null, 2),
    });
    return;
  }
  throw new CliError('not_found', `No action has the name ${name}`, {
    exit: exitCodes.notFound,
    hint: '"relay actions list" shows all',
  });
}

async function invokeAction(
  context: Context<{ input?: { value: unknown } }>,
  [name = '']: readonly string[],
): Promise<void> {
  const { actions } = await context.client();
  const { input } = context.options;
  const invocation = await actions.invoke(name, (input?.value ?? {}) as ActionInput);
  const { id, status, output, error, approvalId } = invocation;
  if (context.print.json) context.print.value(invocation);
  if (status === 'completed') {
    if (!context.print.json) context.print.value(output);
    return;
  }
  if (error !== undefined) throw new CliError(error.code, error.message);
  throw new CliError('not_ended', `The invocation ${id} is ${status}`, {
    exit: exitCodes.runFailed,
    hint:
      approvalId === undefined
        ? undefined
        : `"relay approvals show ${approvalId}" shows what it waits for`,
  });
}
