/**
 * Sends a message to a run that is going on. The run takes it at the boundary that its mode names, as
 * `message.added` in its journal. A run that ends first leaves it in its inbox.
 */
import { type MessageMode, RelayError, type Sender } from '@relay/protocol';
import type { RunControl } from './start-run.ts';
import type { InboxLimit, MessageCommand, RunRef, TenantStore } from '../ports/index.ts';

export interface RunMessage {
  readonly text: string;
  readonly mode: MessageMode;
  readonly from: Sender;
}

/** Returns the id of the message. Throws `run_ended`, `session_conflict` or `inbox_full`. */
export async function messageRun(
  { engine, supervisor }: RunControl,
  ref: RunRef,
  { text, mode, from }: RunMessage,
): Promise<string> {
  const store = engine.store.tenant(ref.tenantId);
  await rejectTurn(store, ref.runId);
  await rejectIfFull(store, ref.runId, text, engine.settings.inboxLimit);
  const messageId = engine.ids.next();
  const command: MessageCommand = { kind: 'message', messageId, mode, from, content: text };
  if (!(await store.postRunCommand(ref.runId, { id: messageId, command }))) {
    throw new RelayError(
      'run_ended',
      'The run has ended: continue its conversation with a new run',
    );
  }
  supervisor.notify(ref);
  return messageId;
}

/** The messages that a run has not taken, or did not take before it ended. */
export async function unreadMessages(store: TenantStore, runId: string): Promise<string[]> {
  const inbox = await store.readInbox(runId);
  return inbox.flatMap(({ command }) => (command.kind === 'message' ? [command.messageId] : []));
}

/** A turn reads the inbox of its session, where the message would be missing. */
async function rejectTurn(store: TenantStore, runId: string): Promise<void> {
  const [created] = await store.readEvents(runId, { after: 0, limit: 1 });
  if (created?.type !== 'run.created' || created.sessionId === undefined) return;
  const handle = (await store.sessions.read(created.sessionId))?.handle;
  const to = handle === undefined ? 'its session' : `@${handle}`;
  throw new RelayError(
    'session_conflict',
    `This run is a turn of a session: send the message to ${to}`,
  );
}

/** A run that waits for days must not collect messages without bound. */
async function rejectIfFull(
  store: TenantStore,
  runId: string,
  text: string,
  { messages, bytes }: InboxLimit,
): Promise<void> {
  const waiting = (await store.readInbox(runId)).filter(
    ({ command }) => command.kind === 'message',
  );
  const stored = waiting.reduce((sum, { command }) => sum + JSON.stringify(command).length, 0);
  if (waiting.length < messages && stored + text.length <= bytes) return;
  throw new RelayError(
    'inbox_full',
    `The inbox of the run is full (RELAY_INBOX_LIMIT: ${messages} messages or ${bytes} bytes that are not read); send the message when the run has read some`,
  );
}
