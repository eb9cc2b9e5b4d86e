import type { RelayClient, Session, SessionsQuery, SessionSummary } from '@relay/sdk';
import { agentStatuses } from '@relay/protocol/wire';
import { Option } from 'commander';
import { type CliCommand, type Context, take, takeCounted } from '../../command.ts';
import { CliError, failureOf, usageError } from '../../errors.ts';
import { findSession } from '../../handles.ts';
import { confirmDeletion } from '../../input.ts';
import { collect, count } from '../../options.ts';
import { escapeLine } from '../../output/escape.ts';
import type { Fields } from '../../output/print.ts';
import { formatCost, formatTime } from '../../output/table.ts';
import { findAgent } from './agents.ts';
import { printSent, sendOptions, type SendOptions } from './messages.ts';
import { relay } from '../../environment.ts';

export function registerSessions(program: CliCommand): void {
  const sessions = program
    .command('sessions')
    .description('talk to running agents, programs and people')
    .examples([
      'relay sessions list',
      'relay sessions start builder --model demo',
      'relay sessions send builder "say 3"',
      'relay sessions join --handle ada',
    ]);
  sessions
    .command('list')
    .description('list sessions, newest first')
    .addOption(new Option('--status <status>', 'only with this status').choices(agentStatuses))
    .option('--harness <name>', 'only of this harness, such as native')
    .option('--label <name:value>', 'only with this label')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay sessions list --status active', 'relay sessions list --json | jq .id'])
    .handle(listSessions);
  sessions
    .command('show [session]')
    .description('show one session, by its handle or id')
    .option('--events', 'also print its events, oldest first')
    .examples(['relay sessions show builder', 'relay sessions show builder --events --json'])
    .handle(showSession);
  sessions
    .command('start <name>')
    .description('start a session of an agent, with this handle; with --handle, of this harness')
    .option('--handle <handle>', 'its handle; the name is that of a harness, such as claude')
    .option('--harness <name>', 'harness that runs it (default: native)')
    .option('--agent <agent>', 'agent of the server')
    .option('--model <model>', 'model to use')
    .option('--workspace <folder>', "folder inside the tenant's workspace")
    .option('--label <name:value>', 'label; can be repeated', collect)
    .option('--from-snapshot <id>', 'continue from a snapshot')
    .examples([
      'relay sessions start builder --model demo',
      'relay sessions start qa --agent tester',
      'relay sessions start claude --handle reviewer --workspace app',
    ])
    .handle(startSession);
  sessions
    .command('join')
    .description('chat with agents, programs and people, as a person')
    .requiredOption('--handle <handle>', 'your handle')
    .option('--name <name>', 'your name (default: the handle)')
    .option('--to <address>', 'whom to write to first: @handle or #channel')
    .option('--takeover', 'take the handle from another key (requires the scope admin)')
    .examples(
      ['relay sessions join --handle ada', 'relay sessions join --handle ada --to @builder'],
      'Write "@handle text" or "#channel text", or only text to whom you wrote or who wrote to you ' +
        'last. /who lists sessions, /help shows this, /quit leaves; so do Ctrl-C and Ctrl-D. Messages ' +
        'that come while you are away wait for you. In a pipe, each line is a message, and each ' +
        'message that comes is a line.',
    )
    .handle(joinSessions);
  sendOptions(
    sessions.command('send <session> <text...>').description('send a message to one session'),
  )
    .examples([
      'relay sessions send builder "run the tests"',
      'relay sessions send builder stop --mode immediate',
    ])
    .handle(sendToSession);
  sessions
    .command('tail [session]')
    .description('follow the events of a session')
    .option('--after <seq>', 'only events after this sequence number; 0 for all', countOrZero)
    .examples(
      ['relay sessions tail builder', 'relay sessions tail builder --after 0 --json'],
      'Without --after, it begins with the last 10 events. It ends when the session is released.',
    )
    .handle(tailSession);
  sessions
    .command('attach [session]')
    .description('use the terminal of a session in this one')
    .examples(
      ['relay sessions start shell --handle build', 'relay sessions attach build'],
      'Ctrl-] detaches; the program goes on. The terminal of the session gets the size of this one. ' +
        'It requires a key with the scopes runs and approve.',
    )
    .handle(attachTerminal);
  sessions
    .command('type <session> <text...>')
    .description('type into the terminal of a session, and press Enter')
    .option('--no-enter', 'do not press Enter')
    .examples([
      'relay sessions type build "npm test"',
      'relay sessions type build --no-enter y',
      'relay sessions cancel build',
    ])
    .handle(typeIntoSession);
  sessions
    .command('pause [sessions...]')
    .description('pause sessions after their running model call or tool')
    .examples(['relay sessions pause builder'])
    .handle(commanding('pause'));
  sessions
    .command('resume [sessions...]')
    .description('resume sessions that are paused')
    .examples(['relay sessions resume builder'])
    .handle(commanding('resume'));
  sessions
    .command('cancel [sessions...]')
    .description('stop the current turn of sessions; the sessions stay')
    .examples(['relay sessions cancel builder'])
    .handle(commanding('cancel'));
  sessions
    .command('release [sessions...]')
    .description('end sessions; messages that they did not consume fail')
    .examples(['relay sessions release builder'])
    .handle(commanding('release'));
  sessions
    .command('flush [sessions...]')
    .description('deliver the messages of the mode manual')
    .examples(['relay sessions flush builder'])
    .handle(commanding('flush'));
  sessions
    .command('fork [session]')
    .description('start a session that continues from what another has done')
    .requiredOption('--handle <handle>', 'handle of the new session')
    .option('--seq <seq>', 'position between two turns (default: the last)', count)
    .examples([
      'relay sessions fork builder --handle builder-2',
      'relay sessions fork builder --handle builder-2 --seq 12',
    ])
    .handle(forkSession);
  sessions
    .command('snapshot [session]')
    .description('keep the state of a session, to start others from it')
    .examples([
      'relay sessions snapshot builder',
      'relay sessions start qa --from-snapshot SNAPSHOT_ID',
    ])
    .handle(snapshotSession);
  sessions
    .command('queue [session]')
    .description('list the messages that wait for a session, or that failed')
    .option('--failed', 'those that failed instead')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay sessions queue builder', 'relay sessions queue builder --failed'])
    .handle(showQueue);
  sessions
    .command('drop [sessions...]')
    .description('delete sessions with their events and deliveries')
    .option('--yes', 'do not ask')
    .examples(['relay sessions drop builder --yes'])
    .handle(dropSessions);
}

function countOrZero(text: string): number {
  return text === '0' ? 0 : count(text);
}

interface ListOptions extends Pick<SessionsQuery, 'status' | 'harness' | 'label'> {
  readonly limit: number;
}

async function listSessions(context: Context<ListOptions>): Promise<void> {
  const { status, harness, label, limit } = context.options;
  const { sessions } = await context.client();
  const query = { status, harness, label, ...context.page(limit) };
  context.print.list(
    await takeCounted(sessions.list(query), limit),
    [
      { title: 'handle', value: ({ identity }) => identity.handle },
      { title: 'status', value: ({ status }) => status, status: true },
      { title: 'kind', value: ({ identity }) => identity.kind, minor: true },
      { title: 'harness', value: ({ harness }) => harness, minor: true },
      { title: 'queue', value: queueOf },
      { title: 'active', value: ({ lastActiveAt }) => lastActiveAt, time: true },
      { title: 'session', value: ({ id }) => id, id: true },
    ],
    'No matching sessions.',
  );
}

/** A session token shows only a summary of other sessions. */
function isWhole(session: Session | SessionSummary): session is Session {
  return 'queue' in session;
}

function queueOf(session: Session): string | undefined {
  if (!isWhole(session)) return undefined;
  const { queue, stuck } = session;
  return stuck ? `${queue.length} stuck` : String(queue.length);
}

async function showSession(context: Context<{ events?: boolean }>, [named]: readonly string[]) {
  const client = await context.client();
  const session = await findSession(context, named);
  if (isWhole(session)) printSession(context, session);
  else printSummary(context, session);
  if (context.options.events !== true) return;
  const { eventLine } = await import('../../output/session-events.ts');
  for await (const event of client.sessions.events(session.id)) {
    if (context.print.json) context.print.value(event);
    else context.print.raw(`${eventLine(event, context.print.paint)}\n`);
  }
}

function printSummary({ print }: Context, session: SessionSummary): void {
  const { id, identity, status } = session;
  print.record(session, { session: id, ...identity, status });
}

function printSession({ print }: Context, session: Session): void {
  const { identity, capabilities, usage, queue } = session;
  const { messaging, delivery, events, actions = {}, lifecycle } = capabilities;
  const fields: Fields = {
    session: session.id,
    handle: identity.handle,
    name: identity.name,
    kind: identity.kind,
    harness: session.harness,
    status: session.status,
    agent: session.agent,
    model: session.model,
    workspace: session.workspace,
    'active run': session.activeRunId,
    conversation: session.conversationId,
    parent: session.parentSessionId,
    labels: Object.entries(session.labels)
      .map(([name, value]) => `${name}:${value}`)
      .join(' '),
    queue:
      queue.length === 0 ? 'empty' : `${queueOf(session)}, oldest ${formatTime(queue.oldestAt)}`,
    tokens: usage.tokens,
    cost: formatCost(usage.costUsd),
    owner: session.owner,
    created: formatTime(session.createdAt),
    active: formatTime(session.lastActiveAt),
    released: formatTime(session.releasedAt),
    events: session.lastSeq,
    modes: delivery.modes.join(' '),
    can: [
      ...namesOf({ ...lifecycle, ...actions, send: messaging.send, queue: delivery.queue }),
    ].join(' '),
    emits: events.emits.join(' '),
  };
  print.record(session, fields);
}

function namesOf(flags: Readonly<Record<string, boolean | undefined>>): string[] {
  return Object.entries(flags).flatMap(([name, isSet]) => (isSet === true ? name : []));
}

interface StartOptions {
  readonly handle?: string;
  readonly harness?: string;
  readonly agent?: string;
  readonly model?: string;
  readonly workspace?: string;
  readonly label?: readonly string[];
  readonly fromSnapshot?: string;
}

async function startSession(context: Context<StartOptions>, [name = '']: readonly string[]) {
  const { handle, agent, model, workspace, label = [], fromSnapshot } = context.options;
  if (handle !== undefined && context.options.harness !== undefined) {
    throw usageError(
      `--handle says that ${name} is the harness, and --harness that it is ${context.options.harness}`,
      `${relay} sessions start ${context.options.harness} --handle ${handle}`,
    );
  }
  if (workspace !== undefined && (handle ?? context.options.harness) === undefined) {
    throw usageError(
      '--workspace requires --handle, and the name of a harness',
      `${relay} sessions start claude --handle ${name} --workspace ${workspace}`,
    );
  }
  const harness = handle === undefined ? (context.options.harness ?? 'native') : name;
  const client = await context.client();
  if (agent !== undefined) await findAgent(client, agent);
  const labels = Object.fromEntries(
    label.map((each) => {
      const [name = '', ...value] = each.split(':');
      return [name, value.join(':')];
    }),
  );
  const created = await client.sessions.create({
    harness,
    handle: (handle ?? name).replace(/^@/, ''),
    agent,
    model,
    workspace,
    labels,
    fromSnapshot: await context.optionalId('snapshot', fromSnapshot),
  });
  const session = created.status === 'starting' ? await startedSession(client, created) : created;
  context.print.result(session, startedLine(session));
}

/** When its agent has started. Throws the reason if it has failed or ended. */
async function startedSession(client: RelayClient, { id, identity }: Session): Promise<Session> {
  let why = '';
  for await (const event of client.sessions.stream(id, { after: 0 })) {
    if (event.type === 'error') why = event.error;
    if (event.type !== 'status.changed' || event.status === 'starting') continue;
    if (event.status === 'failed' || event.status === 'releasing' || event.status === 'released') {
      throw new CliError(
        'session_failed',
        `@${identity.handle}: ${event.reason ?? (why || event.status)}`,
        {
          hint: `see ${relay} sessions show ${identity.handle} --events`,
        },
      );
    }
    break;
  }
  return client.sessions.get(id);
}

function startedLine({ identity: { handle }, status }: Session): string {
  return `@${handle} is ${status}. Write to it: ${relay} sessions send ${handle} "…"`;
}

interface JoinOptions {
  readonly handle: string;
  readonly name?: string;
  readonly to?: string;
  readonly takeover?: boolean;
}

async function joinSessions(context: Context<JoinOptions>): Promise<void> {
  const { SessionChat } = await import('../../chat/session-chat.ts');
  const { handle, name, to, takeover } = context.options;
  await new SessionChat(context, await context.client()).run({
    handle: handle.replace(/^@/, ''),
    name,
    to,
    takeover,
  });
}

async function sendToSession(
  context: Context<SendOptions>,
  [named = '', ...words]: readonly string[],
): Promise<void> {
  const client = await context.client();
  const { identity } = await findSession(context, named);
  await printSent(context, client, { to: `@${identity.handle}`, text: words.join(' ') });
}

const shownBefore = 10;

async function tailSession(context: Context<{ after?: number }>, [named]: readonly string[]) {
  const client = await context.client();
  const session = await findSession(context, named);
  const { eventLine } = await import('../../output/session-events.ts');
  const { after = Math.max(0, session.lastSeq - shownBefore) } = context.options;
  for await (const event of client.sessions.stream(session, { after })) {
    if (context.print.json) context.print.value(event);
    else context.print.raw(`${eventLine(event, context.print.paint)}\n`);
  }
}

async function attachTerminal(context: Context, [named]: readonly string[]): Promise<void> {
  const client = await context.client();
  const session = await findSession(context, named);
  const { AttachedTerminal } = await import('../../chat/attached-terminal.ts');
  const reason = await new AttachedTerminal(context, client, session).run();
  context.environment.stderr.write(`${escapeLine(reason)}\n`);
}

async function typeIntoSession(
  context: Context<{ enter: boolean }>,
  [named = '', ...words]: readonly string[],
): Promise<void> {
  const client = await context.client();
  const { id, identity } = await findSession(context, named);
  const text = words.join(' ');
  await client.sessions.input(id, { text: context.options.enter ? `${text}\r` : text });
  context.print.result({ id, typed: text.length }, `Typed it into @${identity.handle}.`);
}

/** Without a name, one is chosen from a list. */
function orPicked(named: readonly string[]): readonly (string | undefined)[] {
  return named.length === 0 ? [undefined] : named;
}

type Command = 'pause' | 'resume' | 'cancel' | 'release' | 'flush';

function commanding(command: Command) {
  return async (context: Context, named: readonly string[]): Promise<void> => {
    const client = await context.client();
    for (const each of orPicked(named)) {
      const before = await findSession(context, each);
      const session = await client.sessions[command](before.id).catch((error: unknown) => {
        throw failureOfSession(before, error);
      });
      context.print.result(session, effectOf(command, before.status, session));
    }
  };
}

/** Says which of several sessions it is about. */
function failureOfSession({ identity, status }: SessionSummary, error: unknown): CliError {
  const { error: text, code, exit, hint } = failureOf(error);
  const again = `start it again: "${relay} sessions start ${identity.handle}"`;
  return new CliError(code, `@${identity.handle}: ${text}`, {
    exit,
    hint: status === 'released' ? again : hint,
  });
}

/** What the command did, or why it did nothing. */
function effectOf(
  command: Command,
  before: SessionSummary['status'],
  { identity, status }: SessionSummary,
): string {
  const who = `@${identity.handle}`;
  switch (command) {
    case 'pause':
      if (before === 'paused') return `${who} was paused already.`;
      if (status === 'paused') return `Paused ${who}.`;
      return `Asked ${who} to pause after what it does now; it is ${status}.`;
    case 'resume':
      if (before !== 'paused') return `${who} was not paused; it is ${status}.`;
      return status === 'paused'
        ? `Asked ${who} to resume.`
        : `Resumed ${who}, which is ${status}.`;
    case 'cancel':
      if (before === 'idle') return `${who} is idle: it has reported no turn to cancel.`;
      return `Asked ${who} to cancel its turn; it is ${status}.`;
    case 'release':
      if (before === 'released') return `${who} was released already.`;
      return status === 'released' ? `Released ${who}.` : `Asked ${who} to end; it is ${status}.`;
    case 'flush':
      return `Flushed the queue of ${who}.`;
  }
}

interface ForkOptions {
  readonly handle: string;
  readonly seq?: number;
}

async function forkSession(context: Context<ForkOptions>, [named]: readonly string[]) {
  const client = await context.client();
  const { id } = await findSession(context, named);
  const { handle, seq } = context.options;
  const session = await client.sessions.fork(id, { handle: handle.replace(/^@/, ''), seq });
  context.print.result(session, startedLine(session));
}

async function snapshotSession(context: Context, [named]: readonly string[]) {
  const client = await context.client();
  const { id: sessionId } = await findSession(context, named);
  const snapshot = await client.sessions.snapshot(sessionId);
  const { id, seq } = snapshot;
  context.print.result(
    snapshot,
    `Snapshot ${id}, at ${seq}. Start from it: ${relay} sessions start HANDLE --from-snapshot ${id}`,
  );
}

interface QueueOptions {
  readonly failed?: boolean;
  readonly limit: number;
}

async function showQueue(context: Context<QueueOptions>, [named]: readonly string[]) {
  const { failed = false, limit } = context.options;
  const client = await context.client();
  const { id: sessionId } = await findSession(context, named);
  const statuses = failed
    ? (['failed'] as const)
    : (['accepted', 'deferred', 'delivered'] as const);
  const found = [];
  for (const status of statuses) {
    const query = { sessionId, status, ...context.page(limit) };
    found.push(...(await take(client.deliveries.list(query), limit)));
  }
  // In the order in which they came.
  const shown = found.toSorted((a, b) => a.acceptedAt.localeCompare(b.acceptedAt)).slice(0, limit);
  const messages = await Promise.all(shown.map(({ messageId }) => client.messages.get(messageId)));
  context.print.list(
    shown.map((delivery, at) => ({ ...delivery, message: messages[at] })),
    [
      { title: 'delivery', value: ({ id }) => id, id: true },
      { title: 'status', value: ({ status }) => status, status: true },
      { title: 'mode', value: ({ mode }) => mode, minor: true },
      { title: 'accepted', value: ({ acceptedAt }) => acceptedAt, time: true, minor: true },
      { title: 'reason', value: ({ reason, error }) => error?.code ?? reason },
      { title: 'from', value: ({ message }) => message?.from.name },
      { title: 'text', value: ({ message }) => message?.text },
    ],
    failed ? 'No message failed.' : 'No message waits.',
  );
}

async function dropSessions(context: Context<{ yes?: boolean }>, named: readonly string[]) {
  const client = await context.client();
  for (const each of orPicked(named)) {
    const { id, identity } = await findSession(context, each);
    await confirmDeletion(context, `@${identity.handle} with its events and deliveries`);
    await client.sessions.drop(id);
    context.print.result({ id, status: 'deleted' }, `Deleted @${identity.handle}.`);
  }
}
