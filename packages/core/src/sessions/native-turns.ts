/**
 * Starts the turns of native sessions. A session that is idle and has messages gets one run with all of
 * them, on whichever node comes first: the run is stored together with the session's change, which is a
 * compare-and-set. A session that may have a next turn is due (attendant.ts).
 */
import { defined, type Limits, namespaceOf, RelayError } from '@relay/protocol';
import {
  changeSession,
  endLostTurn,
  type SessionStep,
} from '../commands/sessions/change-session.ts';
import { type RunControl, type RunSpec, SessionChanged, startRun } from '../commands/start-run.ts';
import type { InboxEntry, SessionRecord } from '../ports/index.ts';
import { findKeyInForce } from '../permission/keys.ts';
import { agentNamed } from '../run/agents/registry.ts';
import { isStoreFault } from '../run/errors.ts';
import { channelFor, contentOf } from './acceptance.ts';
import { stepsOf } from './consequences.ts';
import { messagesOf } from './context.ts';
import { entering, isSafe } from './modes.ts';
import { nativeSafeStates } from './native.ts';
import { decideSession } from './session-machine.ts';
import { type ForkSource, progressOf, type SessionState } from './state.ts';

/** The rest of a longer queue is the turn after it. */
const maxMessagesPerTurn = 1_000;
const defaultMaxIterations = 50;
/** How often a blocked session looks for its credential; a new one wakes it at once on its node. */
const credentialCheckMs = 10_000;

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
    const { tenantId, id: sessionId, state } = session;
    if (session.activeRunId !== null) {
      const { activeRunId } = await endLostTurn(engine, { tenantId, sessionId });
      return activeRunId === session.activeRunId ? this.#rest(session, null) : false;
    }
    // Without a run it is blocked because of a credential or its key, which may be there now.
    const isBlocked = state.turn === 'blocked';
    const safeStates = isBlocked ? (['blocked'] as const) : nativeSafeStates;
    if (!isSafe({ parts: state, safeStates })) return this.#rest(session, null);
    const now = engine.clock.now();
    const range = { after: 0, limit: maxMessagesPerTurn };
    const inbox = await engine.store.tenant(tenantId).messages.inbox(sessionId, range);
    const turn = entering(inbox, 'idle', now);
    if (turn.length > 0) return this.#start(session, turn);
    if (isBlocked) return this.#change(session, { inputs: [{ type: 'settle' }] });
    const later = inbox.flatMap(({ availableAt }) =>
      availableAt !== null && availableAt > now ? [availableAt] : [],
    );
    return this.#rest(session, later.length === 0 ? null : Math.min(...later));
  }

  /** Nothing is to be done before `dueAt`. */
  async #rest(session: SessionRecord, dueAt: number | null): Promise<boolean> {
    return session.dueAt === dueAt || this.#change(session, { dueAt });
  }

  /** Of the session as it was read. */
  async #change(read: SessionRecord, step: SessionStep): Promise<boolean> {
    const ref = { tenantId: read.tenantId, sessionId: read.id };
    let isCurrent = false;
    await changeSession(this.#control.engine, ref, ({ session }) => {
      isCurrent = session.version === read.version;
      return isCurrent ? step : undefined;
    });
    return isCurrent;
  }

  async #start(session: SessionRecord, turn: readonly InboxEntry[]): Promise<boolean> {
    const { engine } = this.#control;
    const { id: sessionId, tenantId, handle, owner } = session;
    const runId = engine.ids.next();
    const now = engine.clock.now();
    const keyId = await this.#keyOf(session, now);
    // It goes on with a key that resumes it.
    if (keyId === null) return this.#block(session, 'key_ended', null);
    const work = decideSession(session.state, { type: 'work', sessionId });
    if (work.kind !== 'accepted') return this.#rest(session, null);
    const handed = stepsOf(turn, { type: 'deliver' });
    const change = {
      sessionId,
      at: now,
      ifVersion: session.version,
      events: [...handed.events, ...work.events],
      deliveries: handed.deliveries,
      progress: {
        ...progressOf(session.state, { ...work.state, ...usedFork(session.state) }, now),
        activeRunId: runId,
        dueAt: null,
      },
    };
    const by = { type: 'system', id: sessionId, name: `@${handle}`, owner } as const;
    const caller = { tenantId, by, keyId, correlationId: runId, runId };
    try {
      const spec = this.#specOf(session, turn);
      const provider = await engine.models(tenantId).missing?.(spec.model);
      if (provider !== undefined) {
        const reason = `There is no credential for the provider ${provider}`;
        return await this.#block(session, reason, now + credentialCheckMs);
      }
      await startRun(this.#control, spec, { ...caller, session: { changes: [change] } });
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

  /** The messages wait for what the turn needs. */
  #block(session: SessionRecord, reason: string, dueAt: number | null): Promise<boolean> {
    return this.#change(session, { inputs: [{ type: 'block', reason }], dueAt });
  }

  /** A turn that cannot start, such as without budget: its messages fail, and can be delivered again. */
  #refuse(
    session: SessionRecord,
    turn: readonly InboxEntry[],
    { code, message: error }: RelayError,
  ): Promise<boolean> {
    const failed = stepsOf(turn, { type: 'fail', reason: code, retryable: true });
    return this.#change(session, {
      inputs: [{ type: 'settle' }],
      events: [...failed.events, { type: 'error', error, code }],
      deliveries: failed.deliveries,
      // There may be more messages than those.
      dueAt: this.#control.engine.clock.now(),
    });
  }

  #specOf(session: SessionRecord, turn: readonly InboxEntry[]): RunSpec {
    const { tenantId, handle, conversationId, labels, id: sessionId, state } = session;
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
      forkedFrom: forkSourceOf(state),
    };
  }
}

/** For the first turn of a fork; the turns after it read the source through the first one. */
function forkSourceOf({ forkedFrom }: SessionState): ForkSource | undefined {
  if (forkedFrom === undefined || forkedFrom.isUsed === true) return undefined;
  const { runId, seq } = forkedFrom;
  return { runId, seq };
}

function usedFork({ forkedFrom }: SessionState): Pick<SessionState, 'forkedFrom'> {
  return forkedFrom === undefined ? {} : { forkedFrom: { ...forkedFrom, isUsed: true } };
}
