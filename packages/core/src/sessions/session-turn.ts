/**
 * The session whose turn a run is, as the run's journal knows it. It reads the session when it is first
 * needed and after a conflict; in between it follows from what was stored. A session that is gone, or
 * whose turn is another run by now, changes no more.
 */
import { defined } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type {
  DeliveryChange,
  InboxEntry,
  RunRef,
  SessionChange,
  SessionRecord,
  SessionWrite,
  TenantStore,
} from '../ports/index.ts';
import type { DeliveryState } from './delivery-machine.ts';
import { changedSession, type DeferredMessage, sessionChangeOf, type TurnStep } from './turn.ts';

/** An inbox has no more, unless its limit was raised; then the rest enters at the next boundary. */
const maxMessages = 1_000;

export class SessionTurn {
  readonly sessionId: string;
  readonly #engine: Engine;
  readonly #run: RunRef;
  readonly #store: TenantStore;
  /** Null: it is gone. */
  #session: SessionRecord | null | undefined;
  /** As they were stored when there was a conflict. */
  readonly #deliveries = new Map<string, DeliveryState>();
  /** Of the messages that the run has read. */
  readonly #revisions = new Map<string, number>();
  readonly #deferred = new Set<string>();

  constructor(engine: Engine, run: RunRef, sessionId: string) {
    this.#engine = engine;
    this.#run = run;
    this.#store = engine.store.tenant(run.tenantId);
    this.sessionId = sessionId;
  }

  /** What a step of the run changes; undefined: nothing. */
  async writeFor(step: TurnStep): Promise<SessionWrite | undefined> {
    if (this.#session === undefined) await this.#read();
    if (this.#session === null || this.#session === undefined) return undefined;
    const change = sessionChangeOf(this.#session, step, (id) => this.#deliveries.get(id));
    if (change === undefined) return undefined;
    const deliveries = change.deliveries?.map((each) => this.#withRevision(each));
    return { changes: [{ ...change, ...defined({ deliveries }) }] };
  }

  /** What waits for the run or for the next turn. */
  async inbox(): Promise<InboxEntry[]> {
    const range = { after: 0, limit: maxMessages };
    const entries = await this.#store.messages.inbox(this.sessionId, range);
    for (const { id, revision } of entries) this.#revisions.set(id, revision);
    return entries;
  }

  /** Those that were not deferred before. */
  newlyDeferred(messages: readonly DeferredMessage[]): DeferredMessage[] {
    return messages.filter(({ deliveryId, reason }) => {
      if (deliveryId === undefined) return false;
      const name = `${deliveryId} ${reason}`;
      const isNew = !this.#deferred.has(name);
      this.#deferred.add(name);
      return isNew;
    });
  }

  stored({ changes }: SessionWrite): void {
    const own = changes.filter(({ sessionId }) => sessionId === this.sessionId);
    for (const change of own) this.#apply(change);
    this.#deliveries.clear();
    for (const { sessionId, progress, newDeliveries = [] } of changes) {
      const isDue = newDeliveries.length > 0 || typeof progress?.dueAt === 'number';
      if (isDue) this.#engine.sessionDue?.({ tenantId: this.#run.tenantId, sessionId });
    }
  }

  /** False if the step can no longer be stored: a message that it adds was withdrawn or edited. */
  async readAgain({ events, before, deferred }: TurnStep): Promise<boolean> {
    await this.#read();
    const added = events.flatMap((event) =>
      event.type === 'message.added' && event.deliveryId !== undefined ? [event.deliveryId] : [],
    );
    const others = [...before.unread, ...deferred].flatMap(({ deliveryId = [] }) => deliveryId);
    let isSame = true;
    for (const id of [...added, ...others]) {
      const delivery = await this.#store.messages.readDelivery(id);
      if (delivery !== undefined) this.#deliveries.set(id, { ...delivery, isObservable: true });
      if (!added.includes(id) || this.#session === null) continue;
      const isPending = delivery?.status === 'accepted' || delivery?.status === 'deferred';
      isSame &&= isPending && delivery.revision === this.#revisions.get(id);
    }
    return isSame;
  }

  #withRevision(change: DeliveryChange): DeliveryChange {
    if (change.to !== 'delivered') return change;
    return { ...change, isAttempt: true, ...defined({ revision: this.#revisions.get(change.id) }) };
  }

  async #read(): Promise<void> {
    const session = await this.#store.sessions.read(this.sessionId);
    const isOwn = session?.activeRunId === this.#run.runId && session.releasedAt === null;
    this.#session = isOwn ? session : null;
  }

  #apply(change: SessionChange): void {
    if (this.#session === null || this.#session === undefined) return;
    this.#session = changedSession(this.#session, change);
  }
}
