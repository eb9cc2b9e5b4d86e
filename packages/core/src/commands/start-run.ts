/**
 * What can be asked of runs from outside: start one, cancel one; `answers.ts` has how one is answered.
 * Each is stored before it is acknowledged, then the supervisor is told; the loop itself takes it into
 * the journal.
 */
import {
  type Decider,
  defined,
  type EventOf,
  isEnded,
  type JsonSchema,
  RelayError,
  type RunEvent,
  type StoredEvent,
} from '@relay/protocol';
import { audited, auditOfStart } from '../governance/audit.ts';
import type { Engine } from '../engine.ts';
import type { CreationOutcome, RunIdentity, RunRef, TenantStore } from '../ports/index.ts';
import { LiveRun } from '../run/live-run.ts';
import { decide } from '../run/state/machine.ts';
import { answerFields } from '../run/agents/profile.ts';
import { project } from '../run/state/projection.ts';
import { evolve, evolveAll, initialState } from '../run/state/state.ts';
import type { Supervisor } from '../supervisor.ts';

type Created = EventOf<'run.created'>;

/** Set when the run is created, by the caller or from the store. */
type SetAtStart = 'type' | 'history' | 'correlationId' | 'traceparent';

type ReadonlyList<T> = T extends readonly (infer Item)[] ? readonly Item[] : T;

/** What a run shall do: `run.created` without the fields that are set when the run is created. */
export type RunSpec = {
  readonly [
    Key in keyof Created as Exclude<Key, SetAtStart | 'conversationId' | 'labels' | 'outputSchema'>
  ]: ReadonlyList<Created[Key]>;
} & {
  /** Left out: a new conversation. */
  readonly conversationId?: string | undefined;
  /** `whole`: the messages are the whole prompt, whatever the conversation held before. */
  readonly prompt: 'whole' | 'continues';
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** The JSON Schema that the last answer has to fit. */
  readonly outputSchema?: JsonSchema | undefined;
};

/** Who starts a run, and by which request. */
export interface RunCaller {
  readonly tenantId: string;
  /** The actor in the audit trail. */
  readonly by: Decider;
  /** The API key of the request, if it had one. */
  readonly keyId?: string | undefined;
  readonly correlationId: string;
  /** The caller's span, as W3C Trace Context writes it. */
  readonly traceparent?: string | undefined;
  /** A second start with the same key returns the run of the first. */
  readonly idempotency?: Idempotency | undefined;
  /** The chat connection that the run ends with. */
  readonly connectionId?: string | undefined;
  /** Chosen by a caller that listens before the run exists; left out: a new id. */
  readonly runId?: string | undefined;
  /** The first agent's id; left out: a new id. */
  readonly agentId?: string | undefined;
}

export interface Idempotency {
  readonly key: string;
  readonly fingerprint: string;
}

export interface Control {
  readonly engine: Engine;
  readonly supervisor: Supervisor;
}

export interface StartedRun extends RunIdentity {
  /** It was there already: the same was asked for before. */
  readonly replayed: boolean;
}

const idempotencyMs = 24 * 60 * 60 * 1000;

/**
 * Stores the run, then has it driven. When this resolves, the run cannot be lost any more. Every
 * surface starts its runs here.
 */
export async function startRun(
  control: Control,
  spec: RunSpec,
  caller: RunCaller,
): Promise<StartedRun> {
  const { engine, supervisor } = control;
  const { clock, ids, settings } = engine;
  const { tenantId, connectionId, idempotency } = caller;
  if (supervisor.isPaused(tenantId)) {
    throw new RelayError('tenant_paused', 'The tenant is paused: no run can be started');
  }
  checkCostLimit(engine, tenantId, spec);
  const store = engine.store.tenant(tenantId);
  const created = createdEvent(spec, caller, await placeInConversation(engine, store, spec));
  const id = caller.runId ?? ids.next();
  const identity = identityOf(created, caller, { id, createdAt: clock.now() });
  const hasRoom = supervisor.reserve();
  const agentId = caller.agentId ?? ids.next();
  const opening = openingOf({ identity, spec: created, agentId, starts: hasRoom });
  const until = identity.createdAt + settings.leaseTtlMs;
  let made: CreationOutcome | undefined;
  try {
    made = await store.createRun({
      identity,
      lease: hasRoom ? { owner: settings.node, until } : null,
      events: opening.events,
      progress: opening.progress,
      audit: audited(engine, tenantId, [auditOfStart(identity, caller.by)]),
      ...defined({
        connection:
          connectionId === undefined ? undefined : { id: connectionId, node: settings.node },
        idempotency:
          idempotency === undefined
            ? undefined
            : { ...idempotency, expiresAt: identity.createdAt + idempotencyMs },
      }),
    });
  } finally {
    if (hasRoom && made?.kind !== 'created') supervisor.cancelReservation();
  }
  if (made.kind === 'exists') return replayed(store, made, idempotency);
  engine.publisher.publish(id, opening.placed, tenantId);
  if (hasRoom) {
    const { state } = opening;
    supervisor.adopt(
      new LiveRun({ engine, identity, spec: created, epoch: 1, state, isNew: true }),
    );
  } else {
    supervisor.wake({ tenantId, runId: id });
  }
  return { ...identity, replayed: false };
}

/** The run that was started by this very request before, if there is one. */
export async function findStarted(
  { engine }: Control,
  tenantId: string,
  idempotency: Idempotency,
): Promise<StartedRun | undefined> {
  const store = engine.store.tenant(tenantId);
  const found = await store.findIdempotencyKey(idempotency.key, engine.clock.now());
  return found === undefined ? undefined : replayed(store, found, idempotency);
}

/** The run that an idempotency key stands for, if it is the same that is asked for now. */
async function replayed(
  store: TenantStore,
  found: { readonly runId: string; readonly fingerprint: string },
  idempotency: Idempotency | undefined,
): Promise<StartedRun> {
  if (found.fingerprint !== idempotency?.fingerprint) {
    throw new RelayError(
      'idempotency_mismatch',
      'This idempotency key was used for another request; take a new one',
    );
  }
  const run = await store.readRunHead(found.runId);
  if (run === undefined) throw new RelayError('journal_corrupt', `There is no run ${found.runId}`);
  return { ...run, replayed: true };
}

/** A bound that nobody could count would be none. */
function checkCostLimit(engine: Engine, tenantId: string, { model, limits }: RunSpec): void {
  if (limits?.costUsd === undefined) return;
  if (engine.models(tenantId).price?.(model) !== undefined) return;
  throw new RelayError(
    'invalid_request',
    `The cost is limited and the model ${model} has no price`,
    {
      details: [{ path: 'limits.costUsd', message: `The model ${model} has no price` }],
    },
  );
}

/** The first events of a run. If it starts at once, that is stored with its creation. */
function openingOf(run: {
  identity: RunIdentity;
  spec: EventOf<'run.created'>;
  agentId: string;
  starts: boolean;
}) {
  const { identity, spec, agentId, starts } = run;
  const at = new Date(identity.createdAt).toISOString();
  const queued = evolve(initialState, { ...spec, seq: 1, at });
  const { agent, model } = identity;
  const start = starts ? decide(queued, { type: 'start', agentId, agent, model }) : undefined;
  const events: RunEvent[] = [spec, ...(start?.ok === true ? start.events : [])];
  const placed: StoredEvent[] = events.map((event, n) => ({ ...event, seq: 1 + n, at }));
  const state = evolveAll(queued, placed.slice(1));
  const { progress } = starts ? project(placed, state, identity) : { progress: {} };
  return { events, placed, state, progress };
}

type Place = Pick<Created, 'conversationId' | 'history'>;

/** How many ended runs of its conversation come before the messages of this one. */
async function placeInConversation(
  { ids }: Engine,
  store: TenantStore,
  { conversationId, prompt, forkedFrom }: RunSpec,
): Promise<Place> {
  if (conversationId !== undefined && prompt === 'continues') {
    return { conversationId, history: await store.countEndedRuns(conversationId) };
  }
  const history = forkedFrom === undefined ? null : 0;
  return { conversationId: conversationId ?? ids.next(), history };
}

function createdEvent(
  asked: RunSpec,
  { correlationId, traceparent }: RunCaller,
  place: Place,
): Created {
  const { prompt: _, outputSchema, functions = [], limits = {}, handoffs = [], ...spec } = asked;
  return defined({
    type: 'run.created',
    ...spec,
    ...place,
    messages: [...spec.messages],
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
  { tenantId, keyId }: RunCaller,
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
  };
}

/** Asks a run to stop. One that is over already stays as it ended; false if there is none. */
export async function cancelRun(
  control: Control,
  ref: RunRef,
  why: { reason: string; by: Decider },
): Promise<boolean> {
  const { engine, supervisor } = control;
  const store = engine.store.tenant(ref.tenantId);
  const queued = { id: engine.ids.next(), command: { kind: 'cancel', ...why } as const };
  const what = { runId: ref.runId };
  const at = engine.clock.now();
  const entry = { at, who: why.by, action: 'run.canceled', what, why: why.reason } as const;
  if (await store.postRunCommand(ref.runId, queued, audited(engine, ref.tenantId, [entry]))) {
    supervisor.wake(ref, 'urgent');
    return true;
  }
  const run = await store.readRun(ref.runId);
  return run !== undefined && isEnded(run.status);
}
