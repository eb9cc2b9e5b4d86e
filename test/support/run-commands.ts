/** Commands for a run that no session has: messages to it while it works, and pauses. */
import {
  type MessageCommand,
  type QueuedRunCommand,
  type RunControl,
  type RunRef,
  wakesSuspendedRun,
} from '@relay/core';

/**
 * Stores a message in the inbox of a run, which takes it at the boundary that its mode names. A run that
 * ends without taking it leaves it there. False if the run has ended or does not exist.
 */
export function postMessage(
  control: RunControl,
  ref: RunRef,
  message: Omit<MessageCommand, 'kind'>,
): Promise<boolean> {
  // The same message again replaces itself, until the run has taken it.
  const id = message.deliveryId ?? message.messageId;
  return post(control, ref, { id, command: { kind: 'message', ...message } });
}

/** Suspends a run before its next model call, until it is unpaused. False as above. */
export function pauseRun(control: RunControl, ref: RunRef): Promise<boolean> {
  return post(control, ref, { id: control.engine.ids.next(), command: { kind: 'pause' } });
}

export function unpauseRun(control: RunControl, ref: RunRef): Promise<boolean> {
  return post(control, ref, { id: control.engine.ids.next(), command: { kind: 'resume' } });
}

async function post(
  { engine, supervisor }: RunControl,
  ref: RunRef,
  queued: QueuedRunCommand,
): Promise<boolean> {
  const isStored = await engine.store.tenant(ref.tenantId).postRunCommand(ref.runId, queued);
  if (!isStored) return false;
  if (wakesSuspendedRun(queued.command)) supervisor.wake(ref);
  else supervisor.notify(ref);
  return true;
}
