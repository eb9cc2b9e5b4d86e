/** The session whose turn a run is: what the run's events change in it is stored in their commit. */
import { defined, type SessionEvent } from '@relay/protocol';
import { changeSession } from '../commands/sessions/change-session.ts';
import { type MessagePlan, messageSent, sentNotice } from '../commands/sessions/send-message.ts';
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
import { repliesOf, writeOfReplies } from '../sessions/replies.ts';
import { decideSession } from '../sessions/session-machine.ts';
import { statusOf } from '../sessions/state.ts';
import {
  type DeferredMessage,
  outcomeOf,
  sessionChangeOf,
  type TurnInput,
  turnInputOf,
  turnStepOf,
  type TurnStep,
} from '../sessions/turn.ts';
import type { RunState } from './state/state.ts';

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
  /** Invocations that wait for their approval. */
  readonly #awaited = new Set<string>();
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
    const decidedStep = turnStepOf(this.#run.runId, stored, before, batch);
    if (decidedStep === undefined) return undefined;
    const step = { ...decidedStep, input: this.#inputFor(decidedStep.input) };
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
    const replies = writeOfReplies(this.#replies);
    return { ...replies, changes: [change, ...replies.changes] };
  }

  onStored({ changes }: SessionWrite): void {
    const { tenantId } = this.#run;
    wakeDue(this.#engine, tenantId, changes);
    for (const reply of this.#replies) this.#engine.onMessage?.(tenantId, sentNotice(reply));
    this.#replies = [];
  }

  /** Whether an invocation of the turn waits for its approval. */
  get awaitsApproval(): boolean {
    return this.#awaited.size > 0;
  }

  /**
   * The session waits for a person until `decided`. The run has no event of it: its tool call runs. After
   * a crash, the call is made again and finds the same invocation.
   */
  async whileApprovalIsOpen<Result>(
    run: { readonly state: RunState },
    invocationId: string,
    decided: () => Promise<Result>,
  ): Promise<Result> {
    this.#awaited.add(invocationId);
    try {
      await this.#show(run);
      return await decided();
    } finally {
      this.#awaited.delete(invocationId);
      await this.#show(run);
    }
  }

  #inputFor(input: TurnInput): TurnInput {
    return input === 'work' && this.awaitsApproval ? 'wait' : input;
  }

  /** What the run does now. A session that has no such turn any more stays as it is. */
  async #show(run: { readonly state: RunState }): Promise<void> {
    const { tenantId, runId } = this.#run;
    const ref = { tenantId, sessionId: this.sessionId };
    await changeSession(this.#engine, ref, ({ session, state }) => {
      const input = { type: this.#inputFor(turnInputOf(run.state)), sessionId: session.id };
      const isShown = input.type === 'wait' || input.type === 'work';
      if (session.activeRunId !== runId || !isShown) return undefined;
      return decideSession(state, input).kind === 'accepted' ? { inputs: [input] } : undefined;
    });
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
