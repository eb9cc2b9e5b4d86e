/** The session whose turn a run is: what the run's events change in it is stored in their commit. */
import { defined, type SessionEvent } from '@relay/protocol';
import { type MessagePlan, messageSent, sentNotice } from '../commands/send-message.ts';
import type { Engine } from '../engine.ts';
import type { SessionWriter, StoredBatch } from '../journal.ts';
import type {
  DeliveryChange,
  InboxEntry,
  MessageDelivery,
  RunRef,
  SessionWrite,
  TenantStore,
} from '../ports/index.ts';
import { wakeDue } from '../sessions/attendant.ts';
import { joined, repliesOf } from '../sessions/replies.ts';
import {
  deliveriesIn,
  type DeferredMessage,
  sessionChangeOf,
  turnStepOf,
  type TurnStep,
} from '../sessions/turn.ts';

/** An inbox has no more, unless its limit was raised; then the rest enters at the next boundary. */
const maxMessages = 1_000;

export class SessionTurn implements SessionWriter {
  readonly #engine: Engine;
  readonly #run: RunRef;
  readonly sessionId: string;
  readonly #store: TenantStore;
  /** Of the messages that the run has read, by delivery. */
  readonly #revisions = new Map<string, number>();
  readonly #deferred = new Set<string>();
  /** Those of the write that was made last. */
  #replies: readonly MessagePlan[] = [];

  constructor(engine: Engine, run: RunRef, sessionId: string) {
    this.#engine = engine;
    this.#run = run;
    this.sessionId = sessionId;
    this.#store = engine.store.tenant(run.tenantId);
  }

  async write(
    { stored, before, ...batch }: StoredBatch,
    full: ReadonlySet<string>,
  ): Promise<SessionWrite | undefined | 'outdated'> {
    const step = turnStepOf(this.#run.runId, stored, before, batch);
    if (step === undefined) return undefined;
    const [session, current] = await Promise.all([
      this.#store.sessions.read(this.sessionId),
      this.#withoutEnded(step),
    ]);
    const { taken } = deliveriesIn(step.events);
    if (taken.size > deliveriesIn(current.events).taken.size) return 'outdated';
    if (session === undefined) return undefined;
    const isReleased = session.state.lifecycle === 'releasing' && step.input === 'settle';
    const open = isReleased ? await this.#withoutQueue(current) : current;
    const { answer } = step;
    this.#replies =
      answer === undefined ? [] : await repliesOf(this.#engine, session, answer, full);
    const sent = this.#replies.map(({ message }) => messageSent(message));
    const change = sessionChangeOf(session, { ...open, events: [...open.events, ...sent] });
    if (change === undefined) return undefined;
    const deliveries = change.deliveries?.map((each) =>
      taken.has(each.id) ? this.#withRevision(each) : each,
    );
    const replies = joined(this.#replies);
    return {
      ...replies,
      changes: [{ ...change, ...defined({ deliveries }) }, ...replies.changes],
    };
  }

  onStored({ changes }: SessionWrite): void {
    const { tenantId } = this.#run;
    wakeDue(this.#engine, tenantId, changes);
    for (const reply of this.#replies) this.#engine.onMessage?.(tenantId, sentNotice(reply));
    this.#replies = [];
  }

  /** What waits for the run or for the next turn. */
  async inbox(): Promise<InboxEntry[]> {
    const range = { after: 0, limit: maxMessages };
    const entries = await this.#store.messages.inbox(this.sessionId, range);
    for (const { id, revision } of entries) this.#revisions.set(id, revision);
    return entries;
  }

  /** Those that were not deferred before, for this reason. */
  newlyDeferred(messages: readonly DeferredMessage[]): DeferredMessage[] {
    return messages.filter(({ deliveryId, reason }) => {
      const name = `${deliveryId} ${reason}`;
      const isNew = !this.#deferred.has(name);
      this.#deferred.add(name);
      return isNew;
    });
  }

  /** What has come further meanwhile, such as one that failed with its session, stays as it is. */
  async #withoutEnded(step: TurnStep): Promise<TurnStep> {
    const ids = new Set(step.events.flatMap((event) => deliveryOf(event) ?? []));
    if (ids.size === 0) return step;
    const { taken } = deliveriesIn(step.events);
    const read = await Promise.all([...ids].map((id) => this.#store.messages.readDelivery(id)));
    const stored = new Map(read.map((delivery) => [delivery?.id, delivery]));
    const events = step.events.filter((event) => {
      const id = deliveryOf(event);
      return id === undefined || this.#isOpen(event, stored.get(id), taken.has(id));
    });
    return { ...step, events };
  }

  /** The messages that wait for a session fail with its release. */
  async #withoutQueue(step: TurnStep): Promise<TurnStep> {
    const failed = (await this.inbox()).map(({ id: deliveryId, messageId }): SessionEvent => ({
      type: 'delivery.failed',
      deliveryId,
      messageId,
      reason: 'released',
    }));
    return { ...step, events: [...step.events, ...failed] };
  }

  #isOpen(event: SessionEvent, stored: MessageDelivery | undefined, isTaken: boolean): boolean {
    if (stored === undefined) return false;
    const { id, status, reason, revision } = stored;
    const isWaiting = status === 'accepted' || status === 'deferred';
    if (event.type === 'delivery.deferred') return isWaiting && reason !== event.reason;
    if (!isTaken) return status === 'delivered';
    return isWaiting && (this.#revisions.get(id) ?? revision) === revision;
  }

  #withRevision(change: DeliveryChange): DeliveryChange {
    return { ...change, ...defined({ revision: this.#revisions.get(change.id) }) };
  }
}

function deliveryOf(event: SessionEvent): string | undefined {
  switch (event.type) {
    case 'delivery.delivered':
    case 'delivery.deferred':
    case 'delivery.failed':
    case 'message.received':
      return event.deliveryId;
    default:
      return undefined;
  }
}
