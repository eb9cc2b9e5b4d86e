/**
 * Starts the turns of native sessions. A session that is idle and has messages gets one run with all of
 * them, on whichever node comes first: the run is stored together with the session's change, which is a
 * compare-and-set.
 *
 * A session that may have a next turn is due. The scan finds it, after any crash and on any node; wake-ups
 * only reduce latency.
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
  AgentDefinition,
  DeliveryChange,
  InboxEntry,
  SessionChange,
  SessionProgress,
  SessionRecord,
  SessionRef,
} from '../ports/index.ts';
import { BackgroundLoop } from '../runtime/background-loop.ts';
import { findKeyInForce } from '../permission/keys.ts';
import { isStoreFault } from '../run/errors.ts';
import { channelFor, contentOf } from './acceptance.ts';
import { messagesOf } from './context.ts';
import { decideDelivery, type DeliveryInput } from './delivery-machine.ts';
import { entering, isSafe } from './modes.ts';
import { nativeHarness, nativeSafeStates } from './native.ts';
import { decideSession } from './session-machine.ts';
import { progressOf } from './state.ts';
import { sessionChangeOf } from './turn.ts';

const scanIntervalMs = 1_000;
const scanLimit = 1_000;
/** The rest of a longer queue is the turn after it. */
const maxMessagesPerTurn = 1_000;
const defaultMaxIterations = 50;

export interface DispatcherOptions {
  readonly control: RunControl;
  /** Of each turn. */
  readonly limits?: Limits;
}

export class SessionDispatcher {
  readonly #control: RunControl;
  readonly #limits: Limits;
  readonly #scanning: BackgroundLoop;
  /** The sessions that are attended to now; true: once more, because they were woken since. */
  readonly #active = new Map<string, { again: boolean; done: Promise<void> }>();
  #isStopped = false;

  constructor({ control, limits = {} }: DispatcherOptions) {
    const { clock, log } = control.engine;
    this.#control = control;
    this.#limits = limits;
    this.#scanning = new BackgroundLoop({
      clock,
      intervalMs: scanIntervalMs,
      step: () => this.#scan(),
      onError: (error) => log.warn('The scan for due sessions failed', { error: String(error) }),
    });
  }

  start(): void {
    this.#scanning.start();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#scanning.stop();
    await Promise.all([...this.#active.values()].map(({ done }) => done));
  }

  /** The session may have a next turn. */
  wake(ref: SessionRef): void {
    if (this.#isStopped) return;
    const active = this.#active.get(ref.sessionId);
    if (active !== undefined) {
      active.again = true;
      return;
    }
    const started = { again: false, done: Promise.resolve() };
    this.#active.set(ref.sessionId, started);
    started.done = this.#attend(ref, started);
  }

  async #scan(): Promise<void> {
    const { store, clock } = this.#control.engine;
    for (const ref of await store.sessions.due(clock.now(), scanLimit)) this.wake(ref);
  }

  /** Never rejects: what fails is found again by the scan. */
  async #attend(ref: SessionRef, state: { again: boolean }): Promise<void> {
    try {
      do {
        state.again = false;
        await this.#dispatch(ref);
      } while (state.again && !this.#isStopped);
    } catch (error) {
      const { sessionId } = ref;
      this.#control.engine.log.warn('The turn of a session could not be started', {
        sessionId,
        error: String(error),
      });
    } finally {
      this.#active.delete(ref.sessionId);
    }
  }

  async #dispatch({ tenantId, sessionId }: SessionRef): Promise<void> {
    const { engine, supervisor } = this.#control;
    const store = engine.store.tenant(tenantId);
    for (;;) {
      const session = await store.sessions.read(sessionId);
      if (session?.harness !== nativeHarness || session.releasedAt !== null) return;
      if (supervisor.isPaused(tenantId)) return;
      if (await this.#step(session)) return;
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
    const agent = agentOf(session, engine.agents(tenantId).find(session.agent ?? defaultAgent));
    const model = session.model ?? agent.model;
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
      limits: this.#limits,
      handoffs: agent.handoffs ?? [],
      conversationId,
      labels,
    };
  }
}

const defaultAgent = 'assistant';

/** `assistant` exists even if it is not defined. */
function agentOf({ agent }: SessionRecord, found: AgentDefinition | undefined): AgentDefinition {
  if (found !== undefined) return found;
  const name = agent ?? defaultAgent;
  if (name === defaultAgent) return { name };
  throw new RelayError('unknown_agent', `There is no agent named ${name}`);
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
