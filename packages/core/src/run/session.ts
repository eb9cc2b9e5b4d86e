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
import { consequencesOf, type DeliverySteps } from '../sessions/consequences.ts';
import {
  changedDelivery,
  decideDelivery,
  type DeliveryInput,
} from '../sessions/delivery-machine.ts';
import { wakeDue } from '../sessions/due.ts';
import { joined, repliesOf } from '../sessions/replies.ts';
import { statusOf } from '../sessions/state.ts';
import {
  type DeferredMessage,
  outcomeOf,
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
    const [session, decided] = await Promise.all([
      this.#store.sessions.read(this.sessionId),
      this.#decide(step),
    ]);
    if (decided === 'outdated') return 'outdated';
    if (session === undefined) return undefined;
    const outcome = outcomeOf(session, step);
    if (outcome === undefined) return undefined;
    const status = { before: session.status, after: statusOf(outcome.state), now: step.at };
    const isDone = new Set(decided.deliveries.map(({ id }) => id));
    const { messages } = this.#store;
    const followed = await consequencesOf(messages, session.id, status, isDone);
    const { answer } = step;
    this.#replies =
      answer === undefined ? [] : await repliesOf(this.#engine, session, answer, full);
    const sent = this.#replies.map(({ message }) => messageSent(message));
    const change = sessionChangeOf(session, step, outcome, {
      events: [...decided.events, ...sent, ...followed.events],
      deliveries: [...decided.deliveries, ...followed.deliveries],
    });
    if (change === undefined) return undefined;
    const replies = joined(this.#replies);
    return { ...replies, changes: [change, ...replies.changes] };
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

  /**
   * What the step changes in deliveries as they are stored. One that has come further meanwhile, such as
   * one that failed with its session, stays as it is; one that the run takes must not have changed.
   */
  async #decide({ events }: TurnStep): Promise<DeliverySteps | 'outdated'> {
    const ids = events.flatMap((each) => (each.type === 'delivery' ? [each.deliveryId] : []));
    const { messages } = this.#store;
    const read = await Promise.all([...new Set(ids)].map((id) => messages.readDelivery(id)));
    const current = new Map(
      read
        .filter((each) => each !== undefined)
        .map((each) => [each.id, { ...each, isObservable: true }]),
    );
    const changes = new Map<string, DeliveryChange>();
    const decided: SessionEvent[] = [];
    for (const event of events) {
      if (event.type !== 'delivery') {
        decided.push(event);
        continue;
      }
      const { deliveryId: id, input } = event;
      const delivery = current.get(id);
      const decision =
        delivery !== undefined && this.#isOpen(delivery, input)
          ? decideDelivery(delivery, input)
          : undefined;
      if (delivery === undefined || decision?.kind !== 'accepted') {
        if (input.type === 'deliver') return 'outdated';
        continue;
      }
      const earlier = changes.get(id);
      const isTaken = input.type === 'deliver';
      const isAttempt = earlier?.isAttempt ?? (isTaken ? true : undefined);
      const revision = earlier?.revision ?? (isTaken ? this.#revisions.get(id) : undefined);
      const { from } = earlier ?? decision.change;
      decided.push(...decision.events);
      changes.set(id, { ...decision.change, from, ...defined({ isAttempt, revision }) });
      current.set(id, { ...delivery, ...changedDelivery(delivery, decision.change) });
    }
    return { events: decided, deliveries: [...changes.values()] };
  }

  /** A message that is taken or deferred still waits, and is taken with the text that was read. */
  #isOpen({ id, status, revision }: MessageDelivery, { type }: DeliveryInput): boolean {
    if (type !== 'deliver' && type !== 'defer') return status === 'delivered';
    const isWaiting = status === 'accepted' || status === 'deferred';
    if (type === 'defer') return isWaiting;
    return isWaiting && (this.#revisions.get(id) ?? revision) === revision;
  }
}
