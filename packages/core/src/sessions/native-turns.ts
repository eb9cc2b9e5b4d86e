/**
 * Starts the turns of native sessions. A session that is idle and has messages gets one run with all of
 * them, on whichever node comes first: the run is stored together with the session's change, which is a
 * compare-and-set. A session that may have a next turn is due (attendant.ts).
 */
import {
  defined,
  isEnded,
  type Limits,
  namespaceOf,
  noUsage,
  RelayError,
  type SessionEvent,
} from '@relay/protocol';
import { type RunControl, type RunSpec, SessionChanged, startRun } from '../commands/start-run.ts';
import type {
  DeliveryChange,
  InboxEntry,
  SessionChange,
  SessionProgress,
  SessionRecord,
} from '../ports/index.ts';
import { findKeyInForce } from '../permission/keys.ts';
import { agentNamed } from '../run/agents/registry.ts';
import { isStoreFault } from '../run/errors.ts';
import { channelFor, contentOf } from './acceptance.ts';
import { messagesOf } from './context.ts';
import { decideDelivery, type DeliveryInput } from './delivery-machine.ts';
import { entering, isSafe } from './modes.ts';
import { nativeSafeStates } from './native.ts';
import { decideSession } from './session-machine.ts';
import { progressOf } from './state.ts';
import { sessionChangeOf } from './turn.ts';

/** The rest of a longer queue is the turn after it. */
const maxMessagesPerTurn = 1_000;
const defaultMaxIterations = 50;

export interface TurnOptions {
  /** Of each turn. */
  readonly limits?: Limits;
  /** Of sessions that name no model and whose agent names none. */
  readonly defaultModel?: string | undefined;
}

export class NativeTurns {
  readonly #control: RunControl;
  readonly #options: TurnOptions;

  constructor(control: RunControl, options: TurnOptions = {}) {
    this.#control = control;
    this.#options = options;
  }

  /** Starts the next turn of a session, if it can have one now. */
  async attend(found: SessionRecord): Promise<void> {
    const { engine, supervisor } = this.#control;
    const { sessions } = engine.store.tenant(found.tenantId);
    let session: SessionRecord | undefined = found;
    while (session !== undefined && session.releasedAt === null) {
      if (supervisor.isPaused(session.tenantId)) return;
      if (await this.#step(session)) return;
      session = await sessions.read(session.id);
    }
  }

  /** False if the session has changed meanwhile. */
  async #step(session: SessionRecord): Promise<boolean> {
    const { engine } = this.#control;
    const store = engine.store.tenant(session.tenantId);
    if (session.activeRunId !== null) {
      const run = await store.readRunHead(session.activeRunId);
      if (run !== undefined && !isEnded(run.status)) return this.#rest(session, null);
      return this.#abandonTurn(session);
    }
    const parts = session.state;
    if (!isSafe({ parts, safeStates: nativeSafeStates })) return this.#rest(session, null);
    const now = engine.clock.now();
    const range = { after: 0, limit: maxMessagesPerTurn };
    const inbox = await store.messages.inbox(session.id, range);
    const turn = entering(inbox, 'idle', now);
    if (turn.length > 0) return this.#start(session, turn);
    const later = inbox.flatMap(({ availableAt }) =>
      availableAt !== null && availableAt > now ? [availableAt] : [],
    );
    return this.#rest(session, later.length === 0 ? null : Math.min(...later));
  }

  /** Nothing is to be done before `dueAt`. */
  async #rest(session: SessionRecord, dueAt: number | null): Promise<boolean> {
    if (session.dueAt === dueAt) return true;
    return this.#change(session, { dueAt });
  }

  async #change(
    session: SessionRecord,
    progress: Partial<SessionProgress>,
    more: Handed = { events: [], deliveries: [] },
  ): Promise<boolean> {
    const { id: sessionId, version: ifVersion } = session;
    const at = this.#control.engine.clock.now();
    return this.#store(session, { sessionId, at, ifVersion, progress, ...more });
  }

  async #store({ tenantId }: SessionRecord, change: SessionChange): Promise<boolean> {
    const { sessions } = this.#control.engine.store.tenant(tenantId);
    return (await sessions.change({ changes: [change] })).kind === 'committed';
  }

  async #start(session: SessionRecord, turn: readonly InboxEntry[]): Promise<boolean> {
    const { engine } = this.#control;
    const { id: sessionId, tenantId, handle, owner } = session;
    const runId = engine.ids.next();
    const now = engine.clock.now();
    const keyId = await this.#keyOf(session, now);
    if (keyId === null) return this.#block(session, now);
    const work = decideSession(session.state, { type: 'work', sessionId });
    if (work.kind !== 'accepted') return this.#rest(session, null);
    const handed = changesOf(turn, { type: 'deliver' });
    const change = {
      sessionId,
      at: now,
      ifVersion: session.version,
      events: [...handed.events, ...work.events],
      deliveries: handed.deliveries,
      progress: {
        ...progressOf(session.state, work.state, now),
        activeRunId: runId,
        dueAt: null,
      },
    };
    const by = { type: 'system', id: sessionId, name: `@${handle}`, owner } as const;
    const caller = { tenantId, by, keyId, correlationId: runId, runId };
    try {
      await startRun(this.#control, this.#specOf(session, turn), {
        ...caller,
        session: { changes: [change] },
      });
      return true;
    } catch (error) {
      if (error instanceof SessionChanged) return false;
      if (!(error instanceof RelayError) || isStoreFault(error)) throw error;
      if (error.code === 'tenant_paused') return true;
      return this.#refuse(session, turn, error);
    }
  }

  /** The key that the turn is counted for. Null: it has ended. Undefined: the session never had one. */
  async #keyOf(
    { tenantId, keyId }: SessionRecord,
    now: number,
  ): Promise<string | null | undefined> {
    if (keyId === null) return undefined;
    const key = await findKeyInForce(this.#control.engine.store.tenant(tenantId), keyId, now);
    return key?.id ?? null;
  }

  /** The messages wait: a session whose key has ended goes on with another one that resumes it. */
  async #block(session: SessionRecord, now: number): Promise<boolean> {
    const { id: sessionId, state } = session;
    const reason = 'key_ended';
    const blocked = decideSession(state, { type: 'block', sessionId, reason });
    if (blocked.kind !== 'accepted') return this.#rest(session, null);
    const progress = { ...progressOf(state, blocked.state, now), dueAt: null };
    return this.#change(session, progress, { events: blocked.events, deliveries: [] });
  }

  /** A turn that cannot start, such as without budget: its messages fail, and can be delivered again. */
  async #refuse(
    session: SessionRecord,
    turn: readonly InboxEntry[],
    { code, message: error }: RelayError,
  ): Promise<boolean> {
    const failed = changesOf(turn, { type: 'fail', reason: code, retryable: true });
    const events = [...failed.events, { type: 'error', error, code } as const];
    // There may be more messages than those.
    const dueAt = this.#control.engine.clock.now();
    return this.#change(session, { dueAt }, { events, deliveries: failed.deliveries });
  }

  /** The run was failed without its session, because its journal is damaged, or it was deleted. */
  async #abandonTurn(session: SessionRecord): Promise<boolean> {
    const { engine } = this.#control;
    const { messages } = engine.store.tenant(session.tenantId);
    const range = { after: 0, limit: maxMessagesPerTurn };
    const handed = await messages.unconsumed(session.id, range);
    const isReleased = session.state.lifecycle === 'releasing';
    const waiting = isReleased ? await messages.inbox(session.id, range) : [];
    const failed = changesOf(handed, { type: 'fail', reason: 'turn failed', retryable: true });
    const unsent = changesOf(waiting, { type: 'release', reason: 'released' });
    const events = [...failed.events, ...unsent.events];
    const change = sessionChangeOf(session, {
      runId: session.activeRunId ?? '',
      at: engine.clock.now(),
      events,
      usage: noUsage,
      input: 'settle',
      error: { code: 'internal', message: 'The run of the turn was lost', retryable: false },
    });
    if (change === undefined) return true;
    return this.#store(session, change);
  }

  #specOf(session: SessionRecord, turn: readonly InboxEntry[]): RunSpec {
    const { tenantId, handle, conversationId, labels, id: sessionId } = session;
    const { engine } = this.#control;
    const agent = agentNamed(engine.agents(tenantId), session.agent ?? undefined);
    const model = session.model ?? agent.model ?? this.#options.defaultModel;
    if (model === undefined || engine.models(tenantId).resolve(model) === undefined) {
      throw new RelayError('unknown_model', `No provider offers the model ${model ?? ''}`);
    }
    const messages = turn.flatMap(({ id: deliveryId, message }) => {
      const { id: messageId, from } = message;
      const channel = channelFor(message, handle);
      const content = contentOf(message);
      return messagesOf({ messageId, deliveryId, from, content, ...defined({ channel }) });
    });
    return {
      surface: 'runs',
      agent: agent.name,
      model,
      system: agent.instructions,
      messages,
      sessionId,
      received: turn.map(({ id: deliveryId, messageId }) => ({ messageId, deliveryId })),
      prompt: 'append',
      tools:
        agent.tools ??
        engine
          .tools(tenantId)
          .list()
          .map(({ name }) => name),
      outputSchema: agent.outputSchema,
      reasoning: agent.reasoning,
      memory: agent.memory === undefined ? undefined : { namespace: namespaceOf(agent.memory) },
      permissions: session.permissions ?? {},
      maxIterations: agent.maxIterations ?? defaultMaxIterations,
      limits: this.#options.limits ?? {},
      handoffs: agent.handoffs ?? [],
      conversationId,
      labels,
    };
  }
}

interface Handed {
  readonly events: readonly SessionEvent[];
  readonly deliveries: readonly DeliveryChange[];
}

/** What an input changes in these deliveries. One that is handed over has the text that was read. */
function changesOf(entries: readonly InboxEntry[], input: DeliveryInput): Handed {
  const decisions = entries.map((entry) => {
    const decision = decideDelivery({ ...entry, isObservable: true }, input);
    if (decision.kind !== 'accepted') return { events: [], deliveries: [] };
    const { events, change } = decision;
    const { revision } = entry;
    const deliveries = [
      input.type === 'deliver' ? { ...change, isAttempt: true, revision } : change,
    ];
    return { events, deliveries };
  });
  return {
    events: decisions.flatMap(({ events }) => events),
    deliveries: decisions.flatMap(({ deliveries }) => deliveries),
  };
}
