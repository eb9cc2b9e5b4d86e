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
 * A pause stays in the inbox too, until a `resume` removes it: meanwhile no model is called, and a run
 * that has nothing else to do is suspended.
 */
import type { MessageCommand, QueuedRunCommand } from '../../ports/index.ts';
import type { LiveRun } from '../live-run.ts';
import { isWaiting } from '../session.ts';
import type { AgentState } from '../state/agent.ts';
import { decide } from '../state/machine.ts';
import { rootAgent } from '../state/state.ts';

type QueuedMessage = QueuedRunCommand<MessageCommand>;

/** Aborts the root agent's model call for an immediate message. A last answer at a limit is not aborted. */
export function interruptForMessages(run: LiveRun, commands: readonly QueuedRunCommand[]): void {
  const messages = commands.filter(isMessage);
  run.hasMessages = messages.length > 0;
  if (!messages.some(({ command }) => command.mode === 'immediate')) return;
  const root = rootAgent(run.state);
  if (root?.limit === null) run.interruptTurn(root.id);
}

/** Adds the messages whose boundary is the root agent's next model call. */
export async function takeMessages(run: LiveRun, agent: AgentState): Promise<void> {
  if (!run.hasMessages || agent.parentId !== null) return;
  const messages = (await run.readInbox()).filter(isMessage);
  // A run that stops leaves them to the next node, or to their sender.
  if (run.stop !== undefined) return;
  const isAfterTools = agent.turn !== null;
  const due = messages.filter(({ command }) => isAfterTools || command.mode !== 'next-tool-call');
  run.hasMessages = due.length < messages.length;
  // Results are stored first: a message that is withdrawn now refuses the commit that takes it.
  if (due.length > 0 && run.spec.sessionId !== undefined) await run.journal.settled();
  for (const { id, command } of due) {
    if (await isWithdrawn(run, command)) {
      run.take([id], []);
      continue;
    }
    const { kind: _, ...message } = command;
    const decision = decide(run.state, { type: 'message', message });
    if (!decision.ok) throw new TypeError(decision.reason);
    run.take([id], decision.events);
  }
}

/** Its delivery to the session of the run has ended, so that no model may read it. */
async function isWithdrawn(run: LiveRun, { deliveryId }: MessageCommand): Promise<boolean> {
  if (deliveryId === undefined || run.spec.sessionId === undefined) return false;
  return !isWaiting(await run.store.messages.readDelivery(deliveryId));
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
