/** The session whose turn a run is: what the run's events change in it is stored in their commit. */
import type { SessionWriter } from '../journal.ts';
import type { TenantStore } from '../ports/index.ts';
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
      withoutEnded(store, step),
    ]);
    const change = session === undefined ? undefined : sessionChangeOf(session, open);
    return change === undefined ? undefined : { changes: [change] };
  };
}

/** A delivery that has failed meanwhile, or that another run has shown to the model, stays as it is. */
async function withoutEnded(store: TenantStore, step: TurnStep): Promise<TurnStep> {
  const { taken, read } = deliveriesIn(step.events);
  const ids = [...new Set([...taken, ...read])];
  if (ids.length === 0) return step;
  const stored = await Promise.all(ids.map((id) => store.messages.readDelivery(id)));
  const isOpen = (deliveryId: string): boolean => {
    const status = stored.find((delivery) => delivery?.id === deliveryId)?.status;
    const isWaiting = status === 'accepted' || status === 'deferred';
    return taken.has(deliveryId) ? isWaiting : status === 'delivered';
  };
  const events = step.events.filter((event) => {
    if (event.type === 'delivery.delivered') return isOpen(event.deliveryId);
    return event.type !== 'message.received' || isOpen(event.deliveryId ?? '');
  });
  return { ...step, events };
}
