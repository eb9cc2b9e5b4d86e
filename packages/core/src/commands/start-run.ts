/**
 * Starts and cancels runs. A command is stored before it is acknowledged; then the supervisor is
 * notified, and the loop applies it.
 */
import {
  type Decider,
  defined,
  type EventOf,
  isEnded,
  type JsonSchema,
  personOf,
  RelayError,
  type RunEvent,
  type StoredEvent,
} from '@relay/protocol';
import { auditRecordsOf, auditOfStart } from '../governance/audit.ts';
import type { Engine } from '../engine.ts';
import { createWithinBudgets } from '../governance/budgets.ts';
import {
  idempotencyMs,
  type CreationOutcome,
  type OverBudget,
  type Reserved,
  type RunBudget,
  type RunIdentity,
  type RunRef,
  type SessionWrite,
  type TenantStore,
} from '../ports/index.ts';
import { publishStored } from '../publisher.ts';
import { LiveRun } from '../run/live-run.ts';
import { decide } from '../run/state/machine.ts';
import { missingPrice } from '../run/agents/limits.ts';
import { answerFields } from '../run/agents/profile.ts';
import { project } from '../run/state/projection.ts';
import { evolve, evolveAll, initialState } from '../run/state/state.ts';
import type { Supervisor } from '../supervisor.ts';

type Created = EventOf<'run.created'>;

/** Set when the run is created, by the caller or from the store. */
type SetAtStart = 'type' | 'history' | 'correlationId' | 'traceparent';

type ReadonlyList<T> = T extends readonly (infer Item)[] ? readonly Item[] : T;

/** What a run does: `run.created` without the fields that are set when the run is created. */
export type RunSpec = {
  readonly [
    Key in keyof Created as Exclude<Key, SetAtStart | 'conversationId' | 'labels' | 'outputSchema'>
  ]: ReadonlyList<Created[Key]>;
} & {
  /** Default: a new conversation. */
  readonly conversationId?: string | undefined;
  /** `complete`: the messages are the whole prompt, whatever the conversation contains. */
  readonly prompt: 'complete' | 'append';
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** The JSON Schema of the final answer. */
  readonly outputSchema?: JsonSchema | undefined;
};

/** The caller that starts a run, and its request. */
export interface RunCaller {
  readonly tenantId: string;
  /** The actor in the audit trail. */
  readonly by: Decider;
  /** Administrators continue the conversations of others, without the grants of these. */
  readonly anyConversation?: boolean | undefined;
  /** The API key of the request, if it had one. */
  readonly keyId?: string | undefined;
  readonly correlationId: string;
  /** The caller's span, as W3C Trace Context writes it. */
  readonly traceparent?: string | undefined;
  /** A second start with the same key returns the run of the first. */
  readonly idempotency?: Idempotency | undefined;
  /** The chat connection that the run ends with. */
  readonly connectionId?: string | undefined;
  /** For a caller that subscribes before the run exists; default: a new id. */
  readonly runId?: string | undefined;
  /** The root agent's id; default: a new id. */
  readonly agentId?: string | undefined;
  /** What the start changes in the session whose turn the run is. */
  readonly session?: SessionWrite | undefined;
}

/** The run was not stored, because its session has changed. */
export class SessionChanged extends Error {
  override readonly name = 'SessionChanged';
}

export interface Idempotency {
  readonly key: string;
  readonly fingerprint: string;
}

export interface RunControl {
  readonly engine: Engine;
  readonly supervisor: Supervisor;
}

export interface StartedRun extends RunIdentity {
  /** The run of an earlier request with the same idempotency key. */
  readonly replayed: boolean;
}

/**
 * Stores a run, then drives it. Once this resolves, the run cannot be lost. Every surface starts its
 * runs here.
 */
export async function startRun(
  control: RunControl,
  spec: RunSpec,
  caller: RunCaller,
): Promise<StartedRun> {
  const { engine, supervisor } = control;
  const { clock, ids, settings } = engine;
  const { tenantId, connectionId, idempotency } = caller;
  if (supervisor.isPaused(tenantId)) {
    throw new RelayError('tenant_paused', 'The tenant is paused: no run can be started');
  }
  const budgets = (await engine.budgets?.(tenantId, caller.keyId ?? null)) ?? [];
  checkCostLimit(engine, tenantId, spec, budgets);
  const store = engine.store.tenant(tenantId);
  const created = createdEvent(spec, caller, await positionInConversation(engine, store, spec));
  const id = caller.runId ?? ids.next();
  const identity = identityOf(created, caller, { id, createdAt: clock.now() });
  const hasSlot = supervisor.reserve();
  const agentId = caller.agentId ?? ids.next();
  const opening = initialEvents(identity, created, hasSlot ? agentId : undefined);
  const until = identity.createdAt + settings.leaseTtlMs;
  let outcome: Exclude<CreationOutcome, OverBudget> | undefined;
  let reserved: Reserved | undefined;
  const create = (amount?: Reserved) =>
    store.createRun({
      identity,
      conversation: conversationOf(spec, caller),
      lease: hasSlot ? { owner: settings.node, until } : null,
      events: opening.events,
      progress: opening.progress,
      audit: auditRecordsOf(engine, tenantId, [auditOfStart(identity, caller.by)]),
      ...defined({
        connection:
          connectionId === undefined ? undefined : { id: connectionId, node: settings.node },
        idempotency:
          idempotency === undefined
            ? undefined
            : { ...idempotency, expiresAt: identity.createdAt + idempotencyMs },
        budgets: budgets.length === 0 ? undefined : budgets,
        reserved: amount,
        session: caller.session,
      }),
    });
  try {
    const { limits = {}, messages } = spec;
    const price = engine.models(tenantId).price?.(spec.model);
    const bounds = { tenant: store, budgets, runId: id, limits, messages, price };
    const created = await createWithinBudgets({ ...bounds, now: clock.now() }, create);
    outcome = created.stored;
    reserved = created.reserved;
  } finally {
    if (hasSlot && outcome?.kind !== 'created') supervisor.cancelReservation();
  }
  if (outcome.kind === 'exists') return replayed(store, outcome, idempotency);
  // Like one that does not exist: ids of conversations are chosen by callers.
  if (outcome.kind === 'not-owner') throw new RelayError('not_found', 'No such conversation');
  if (outcome.kind === 'conflict') throw new SessionChanged();
  publishStored(engine, { tenantId, runId: id }, opening.stored);
  if (hasSlot) {
    const { state, events } = opening;
    supervisor.adopt(
      new LiveRun({ engine, identity, spec: created, epoch: 1, state, opening: events, reserved }),
    );
  } else {
    supervisor.wake({ tenantId, runId: id });
  }
  return { ...identity, replayed: false };
}

/** The run that an earlier request with this idempotency key started. */
export async function findStarted(
  { engine }: RunControl,
  tenantId: string,
  idempotency: Idempotency,
): Promise<StartedRun | undefined> {
  const store = engine.store.tenant(tenantId);
  const found = await store.findIdempotencyKey(idempotency.key, engine.clock.now());
  return found === undefined ? undefined : replayed(store, found, idempotency);
}

/** The run of an idempotency key; throws if the key was used for another request. */
async function replayed(
  store: TenantStore,
  found: { readonly runId: string; readonly fingerprint: string },
  idempotency: Idempotency | undefined,
): Promise<StartedRun> {
  if (found.fingerprint !== idempotency?.fingerprint) {
    throw new RelayError(
      'idempotency_mismatch',
      'This idempotency key was used for another request; use a new key',
    );
  }
  const run = await store.readRunHead(found.runId);
  if (run === undefined) throw new RelayError('journal_corrupt', `There is no run ${found.runId}`);
  return { ...run, replayed: true };
}

/** A cost limit requires a model with a price. */
function checkCostLimit(
  engine: Engine,
  tenantId: string,
  { model, limits }: RunSpec,
  budgets: readonly RunBudget[],
): void {
  const isLimited = limits?.costUsd !== undefined;
  if (!isLimited && budgets.every(({ costUsd }) => costUsd === undefined)) return;
  if (engine.models(tenantId).price?.(model) !== undefined) return;
  if (!isLimited) throw new RelayError('invalid_request', missingPrice(model, 'budget'));
  throw new RelayError('invalid_request', missingPrice(model, 'limit'), {
    details: [{ path: 'limits.costUsd', message: `The model ${model} has no price` }],
  });
}

/** The first events of a run. With a root agent it starts at once, in the commit of its creation. */
function initialEvents(identity: RunIdentity, spec: Created, agentId: string | undefined) {
  const at = new Date(identity.createdAt).toISOString();
  const queued = evolve(initialState, { ...spec, seq: 1, at });
  const { agent, model } = identity;
  const start =
    agentId === undefined ? undefined : decide(queued, { type: 'start', agentId, agent, model });
  const events: RunEvent[] = [spec, ...(start?.ok === true ? start.events : [])];
  const stored: StoredEvent[] = events.map((event, index) => ({ ...event, seq: 1 + index, at }));
  const state = evolveAll(queued, stored.slice(1));
  const { progress } = project(stored, state, identity);
  return { events, stored, state, progress };
}

function conversationOf({ conversationId }: RunSpec, { anyConversation = false }: RunCaller) {
  if (conversationId === undefined) return 'new';
  return anyConversation ? 'any' : undefined;
}

type Position = Pick<Created, 'conversationId' | 'history'>;

/** How many ended runs of its conversation come before the messages of this one. */
async function positionInConversation(
  { ids }: Engine,
  store: TenantStore,
  { conversationId, prompt, forkedFrom }: RunSpec,
): Promise<Position> {
  if (conversationId !== undefined && prompt === 'append') {
    return { conversationId, history: await store.countEndedRuns(conversationId) };
  }
  const history = forkedFrom === undefined ? null : 0;
  return { conversationId: conversationId ?? ids.next(), history };
}

function createdEvent(
  runSpec: RunSpec,
  { correlationId, traceparent }: RunCaller,
  position: Position,
): Created {
  const { prompt: _, outputSchema, functions = [], limits = {}, handoffs = [], ...spec } = runSpec;
  const { received = [] } = spec;
  return defined({
    type: 'run.created',
    ...spec,
    ...position,
    messages: [...spec.messages],
    received: received.length === 0 ? undefined : [...received],
    tools: [...spec.tools],
    labels: { ...spec.labels },
    functions: functions.length === 0 ? undefined : [...functions],
    limits: Object.keys(limits).length === 0 ? undefined : limits,
    handoffs: handoffs.length === 0 ? undefined : [...handoffs],
    ...answerFields({ outputSchema, reasoning: spec.reasoning }),
    correlationId,
    traceparent,
  });
}

function identityOf(
  created: Created,
  { tenantId, keyId, by }: RunCaller,
  made: { readonly id: string; readonly createdAt: number },
): RunIdentity {
  const { conversationId, correlationId, surface, agent, model, labels } = created;
  return {
    ...made,
    conversationId,
    tenantId,
    correlationId,
    surface,
    agent,
    model,
    labels,
    parentRunId: created.parentRunId ?? null,
    workflowId: created.workflowId ?? null,
    keyId: keyId ?? null,
    owner: personOf(by),
  };
}

/** Cancels a run. An ended run stays as it is; false if there is no such run. */
export async function cancelRun(
  control: RunControl,
  ref: RunRef,
  why: { reason: string; by: Decider },
): Promise<boolean> {
  const { engine, supervisor } = control;
  const store = engine.store.tenant(ref.tenantId);
  const queued = { id: engine.ids.next(), command: { kind: 'cancel', ...why } as const };
  const what = { runId: ref.runId };
  const at = engine.clock.now();
  const entry = { at, who: why.by, action: 'run.canceled', what, why: why.reason } as const;
  if (
    await store.postRunCommand(ref.runId, queued, auditRecordsOf(engine, ref.tenantId, [entry]))
  ) {
    supervisor.wake(ref, 'immediate');
    return true;
  }
  const run = await store.readRun(ref.runId);
  return run !== undefined && isEnded(run.status);
}
