/**
 * Messages to a run that is already working. They are for the root agent, and enter between two of its
 * turns, before its next model call:
 *
 *   immediate       aborts the running model call, whose turn is discarded, and enters at once. It never
 *                   stops a tool: while calls are open, it waits for their results.
 *   next-message    enters before the next model call.
 *   next-tool-call  enters right after the results of tool calls.
 *
 * Until then they stay in the inbox. Those for the same boundary enter in their order, in one model
 * call. A run that ends first leaves them there for their sender.
 *
 * The messages of a session are in its inbox; the run's has a command for each, which tells the run to
 * look there. So a message that was edited is taken as it is now, and one that was withdrawn is not. Which
 * of them enter is decided by the same rule as for the next turn (modes.ts).
 *
 * A pause stays in the inbox too, until a `resume` removes it: meanwhile no model is called, no tool is
 * started and no approval requested, and a run that has nothing else to do is suspended.
 */
import { defined } from '@relay/protocol';
import type { MessageCommand, QueuedRunCommand } from '../../ports/index.ts';
import { channelFor, contentOf, isMessageMode } from '../../sessions/acceptance.ts';
import { type Boundary, entering, entersAt } from '../../sessions/modes.ts';
import type { LiveRun } from '../live-run.ts';
import type { SessionTurn } from '../session.ts';
import { type AgentState, openCalls } from '../state/agent.ts';
import { decide } from '../state/machine.ts';
import { pendingApprovals, rootAgent } from '../state/state.ts';

type QueuedMessage = QueuedRunCommand<MessageCommand>;

/** Aborts the root agent's model call for an immediate message. A last answer at a limit is not aborted. */
export function interruptForMessages(run: LiveRun, commands: readonly QueuedRunCommand[]): void {
  const messages = commands.filter(isMessage);
  run.hasMessages = messages.length > 0;
  if (!messages.some(({ command }) => command.mode === 'immediate')) return;
  deferMessages(run, messages);
  const root = rootAgent(run.state);
  if (root?.limit === null) run.interruptTurn(root.id);
}

/** Only a model call is interrupted: while calls are open, the sender can see what a message waits for. */
function deferMessages(run: LiveRun, messages: readonly QueuedMessage[]): void {
  const root = rootAgent(run.state);
  if (run.turn === undefined || root === undefined || openCalls(root).length === 0) return;
  const isApprovalOpen = pendingApprovals(run.state).length > 0 || run.turn.awaitsApproval;
  const reason = isApprovalOpen ? 'approval open' : 'tool running';
  const immediate = messages.filter(({ command }) => command.mode === 'immediate');
  const deferred = run.turn.newlyDeferred(
    immediate.flatMap(({ command: { deliveryId } }) =>
      deliveryId === undefined ? [] : [{ deliveryId, reason }],
    ),
  );
  if (deferred.length > 0) run.journal.append([], { deferred });
}

/** Adds the messages whose boundary is the root agent's next model call. */
export async function takeMessages(run: LiveRun, agent: AgentState): Promise<void> {
  if (!run.hasMessages || agent.parentId !== null) return;
  const commands = (await run.readInbox()).filter(isMessage);
  // A run that stops leaves them to the next node, or to their sender.
  if (run.stop !== undefined) return;
  const boundary = agent.turn === null ? 'model-call' : 'tool-results';
  const { taken, over } =
    run.turn === undefined || commands.length === 0
      ? { taken: ownMessages(commands, boundary), over: [] }
      : await sessionMessages(run, run.turn, commands, boundary);
  run.hasMessages = taken.length + over.length < commands.length;
  if (over.length > 0) run.take(over, []);
  for (const { id, message } of taken) {
    const decision = decide(run.state, { type: 'message', message });
    if (!decision.ok) throw new TypeError(decision.reason);
    run.take([id], decision.events);
  }
}

interface TakenMessage {
  /** Of its command. */
  readonly id: string;
  readonly message: Omit<MessageCommand, 'kind'>;
}

/** Of a run without a session: the commands have the messages. */
function ownMessages(commands: readonly QueuedMessage[], boundary: Boundary): TakenMessage[] {
  return commands
    .filter(({ command }) => entersAt(command.mode, boundary))
    .map(({ id, command }) => {
      const { kind: _, ...message } = command;
      return { id, message };
    });
}

/** Of a session: its inbox has the messages. A command for one that is not there any more is over. */
async function sessionMessages(
  run: LiveRun,
  turn: SessionTurn,
  commands: readonly QueuedMessage[],
  boundary: Boundary,
): Promise<{ taken: TakenMessage[]; over: string[] }> {
  // Results are stored first: a message that is withdrawn now refuses the commit that takes it.
  await run.journal.settled();
  const inbox = await turn.inbox();
  const waiting = new Set(inbox.map(({ id }) => id));
  const over = commands.filter(({ id }) => !waiting.has(id)).map(({ id }) => id);
  const taken = entering(inbox, boundary, run.engine.clock.now()).flatMap(
    ({ id, mode, messageId, handle, message }) => {
      if (!isMessageMode(mode)) return [];
      const channel = channelFor(message, handle);
      const { from } = message;
      const content = contentOf(message);
      const fields = { messageId, deliveryId: id, mode, from, content };
      return [{ id, message: { ...fields, ...defined({ channel }) } }];
    },
  );
  return { taken, over };
}

/** The last of all pauses and resumptions holds. */
export function applyPauses(run: LiveRun, commands: readonly QueuedRunCommand[]): void {
  const lifecycle = commands.filter(
    ({ command }) => command.kind === 'pause' || command.kind === 'resume',
  );
  const last = lifecycle.findLastIndex(({ command }) => command.kind === 'resume');
  run.isPaused = lifecycle.length > last + 1;
  if (last < 0) return;
  const over = lifecycle.slice(0, last + 1).map(({ id }) => id);
  run.take(over, []);
}

function isMessage(queued: QueuedRunCommand): queued is QueuedMessage {
  return queued.command.kind === 'message';
}
