/** The session whose turn a run is: what the run's events change in it is stored in their commit. */
import type { SessionWriter } from '../journal.ts';
import type { MessageDelivery, TenantStore } from '../ports/index.ts';
import { deliveriesIn, sessionChangeOf, turnStepOf, type TurnStep } from '../sessions/turn.ts';

export function sessionWriter(
  store: TenantStore,
  { runId, sessionId }: { readonly runId: string; readonly sessionId: string },
): SessionWriter {
  return async (events, before) => {
    const step = turnStepOf(runId, events, before);
    if (step === undefined) return undefined;
    const [session, open] = await Promise.all([
      store.sessions.read(sessionId),
      openDeliveries(store, step),
    ]);
    const { taken } = deliveriesIn(step.events);
    if ([...taken].some((id) => !open.has(id))) return 'outdated';
    const change =
      session === undefined ? undefined : sessionChangeOf(session, withoutEnded(step, open));
    return change === undefined ? undefined : { changes: [change] };
  };
}

/** Whether the message of a delivery may still enter a run. */
export function isWaiting(delivery: MessageDelivery | undefined): boolean {
  return delivery?.status === 'accepted' || delivery?.status === 'deferred';
}

/** The deliveries of a step that it can change. */
async function openDeliveries(store: TenantStore, step: TurnStep): Promise<ReadonlySet<string>> {
  const { taken, read } = deliveriesIn(step.events);
  const ids = [...new Set([...taken, ...read])];
  const stored = await Promise.all(ids.map((id) => store.messages.readDelivery(id)));
  return new Set(
    ids.filter((id, index) =>
      taken.has(id) ? isWaiting(stored[index]) : stored[index]?.status === 'delivered',
    ),
  );
}

/** A delivery that has failed since it was handed over, or that another run has shown, stays as it is. */
function withoutEnded(step: TurnStep, open: ReadonlySet<string>): TurnStep {
  const events = step.events.filter(
    (event) => event.type !== 'message.received' || open.has(event.deliveryId ?? ''),
  );
  return { ...step, events };
}
