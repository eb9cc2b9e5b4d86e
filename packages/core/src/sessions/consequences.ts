/**
 * What a new status means for the deliveries of a session that have not ended; it is stored in the commit
 * of the status. Those of a released or failed session fail. Those that were accepted are deferred while it
 * is paused or offline.
 */
import type { AgentStatus, SessionEvent } from '@relay/protocol';
import type { DeliveryChange, InboxEntry, MessageStore } from '../ports/index.ts';
import { decideDelivery, type DeliveryInput } from './delivery-machine.ts';

export interface DeliverySteps {
  readonly events: readonly SessionEvent[];
  readonly deliveries: readonly DeliveryChange[];
}

const noSteps: DeliverySteps = { events: [], deliveries: [] };

/** `isDone`: the deliveries that the same commit changes already. */
export async function consequencesOf(
  messages: MessageStore,
  sessionId: string,
  status: { readonly before: AgentStatus; readonly after: AgentStatus; readonly now: number },
  isDone: ReadonlySet<string>,
): Promise<DeliverySteps> {
  const { before, after, now } = status;
  if (before === after) return noSteps;
  const isLeft = ({ id }: InboxEntry) => !isDone.has(id);
  switch (after) {
    case 'released':
    case 'failed': {
      const reason = after === 'released' ? 'released' : 'session_failed';
      const open = await openDeliveries(messages, sessionId);
      return stepsOf(open.filter(isLeft), { type: 'release', reason });
    }
    case 'paused':
    case 'offline': {
      const waiting = (await inboxOf(messages, sessionId)).filter(
        // One that was sent may be with the program.
        ({ status, attempts }) => status === 'accepted' && attempts === 0,
      );
      return stepsOf(waiting.filter(isLeft), { type: 'defer', now, reason: after });
    }
    default:
      return noSteps;
  }
}

/** What an input changes in these deliveries. One that is handed over has the text that was read. */
export function stepsOf(entries: readonly InboxEntry[], input: DeliveryInput): DeliverySteps {
  const events: SessionEvent[] = [];
  const deliveries: DeliveryChange[] = [];
  for (const entry of entries) {
    const decision = decideDelivery({ ...entry, isObservable: true }, input);
    if (decision.kind !== 'accepted') continue;
    const { revision } = entry;
    events.push(...decision.events);
    deliveries.push(
      input.type === 'deliver' || input.type === 'send'
        ? { ...decision.change, isAttempt: true, revision }
        : decision.change,
    );
  }
  return { events, deliveries };
}

const entriesPerRead = 250;

async function allEntries(read: MessageStore['inbox'], sessionId: string): Promise<InboxEntry[]> {
  const all: InboxEntry[] = [];
  for (;;) {
    const after = all.at(-1)?.position ?? 0;
    const some = await read(sessionId, { after, limit: entriesPerRead });
    all.push(...some);
    if (some.length < entriesPerRead) return all;
  }
}

/** All that are accepted or deferred. */
export function inboxOf(messages: MessageStore, sessionId: string): Promise<InboxEntry[]> {
  return allEntries((...range) => messages.inbox(...range), sessionId);
}

/** All that were handed over and are not consumed. */
export function unconsumedOf(messages: MessageStore, sessionId: string): Promise<InboxEntry[]> {
  return allEntries((...range) => messages.unconsumed(...range), sessionId);
}

/** All that have not ended. */
export async function openDeliveries(
  messages: MessageStore,
  sessionId: string,
): Promise<InboxEntry[]> {
  const handed = await unconsumedOf(messages, sessionId);
  return [...handed, ...(await inboxOf(messages, sessionId))];
}
