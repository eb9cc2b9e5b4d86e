/**
 * What can be asked of runs from outside: start one, cancel one; `answers.ts` has how one is answered.
 * Each is stored before it is acknowledged, then the supervisor is told; the loop itself takes it into
 * the journal.
 */
import {
  type Decider,
  type EventOf,
  type FunctionTool,
  isEnded,
  type JsonSchema,
  type Limits,
  type Message,
  type Permissions,
  type ReasoningEffort,
  RelayError,
  type RunEvent,
  type StoredEvent,
  type Surface,
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

export interface RunRequest {
  /** Chosen by the caller, who may listen for it before it exists; left out, a new one. */
  readonly runId?: string;
  readonly tenantId: string;
  readonly surface: Surface;
  readonly agent: string;
  readonly model: string;
  readonly system?: string;
  readonly messages: readonly Message[];
  readonly tools: readonly string[];
  /** Those of `tools` that are the caller's own functions. */
  readonly functions?: readonly FunctionTool[];
  readonly permissions: Permissions;
  readonly maxIterations: number;
  readonly limits?: Limits;
  /** The JSON Schema that the last answer has to fit. */
  readonly outputSchema?: JsonSchema;
  readonly reasoning?: ReasoningEffort;
  /** Names of agents that the first one may hand off to. */
  readonly handoffs?: readonly string[];
  /** The first agent's id; left out, a new one. */
  readonly agentId?: string;
  readonly correlationId: string;
  /** Left out: a new conversation. */
  readonly conversationId?: string;
  /** `whole`: the messages are the whole prompt, whatever the conversation held before. */
  readonly prompt: 'whole' | 'continues';
  readonly context?: EventOf<'run.created'>['context'];
  readonly labels?: Readonly<Record<string, string>>;
  readonly parentRunId?: string;
  readonly workflowId?: string;
  /** Where in another run's journal this one begins. */
  readonly forkedFrom?: EventOf<'run.created'>['forkedFrom'];
  /** The span of the caller that asks for it, as W3C writes it. */
  readonly traceparent?: string;
  /** The API key that asks for it. */
  readonly keyId?: string;
  /** Who asks for it, for the audit trail; left out: Relay itself. */
  readonly by?: Decider;
  /** Asked again with the same key, the run that is there already is meant. */
  readonly idempotency?: { readonly key: string; readonly fingerprint: string };
  /** Left out: the run neither reads nor leaves memories. */
  readonly memory?: { readonly namespace: string };
  /** False: none of its agents gets the tools that work in the tenant's folder. */
  readonly workspace?: false;
  /** The chat connection that the run lives with. */
  readonly connectionId?: string;
}

export interface Control {
  readonly engine: Engine;
  readonly supervisor: Supervisor;
}

export interface StartedRun extends RunIdentity {
  /** It was there already: the same was asked for before. */
  readonly replayed: boolean;
}

const ourselves: Decider = { type: 'system', id: 'relay', name: 'relay' };

const idempotencyMs = 24 * 60 * 60 * 1000;

/** Stores the run, then lets it be driven. When this resolves, the run cannot be lost any more. */
export async function startRun(control: Control, request: RunRequest): Promise<StartedRun> {
  const { engine, supervisor } = control;
  const { clock, ids, settings } = engine;
  if (supervisor.isPaused(request.tenantId)) {
    throw new RelayError('tenant_paused', 'The tenant is paused: no run can be started');
  }
  checkCostLimit(engine, request);
  const store = engine.store.tenant(request.tenantId);
  const conversationId = request.conversationId ?? ids.next();
  const continues = request.prompt === 'continues' && request.conversationId !== undefined;
  const anew = request.forkedFrom === undefined ? null : 0;
  const history = continues ? await store.countEndedRuns(conversationId) : anew;
  const id = request.runId ?? ids.next();
  const identity = identityOf(request, { id, conversationId, createdAt: clock.now() });
  const spec = specOf(request, { conversationId, history });
  const hasRoom = supervisor.reserve();
  const agentId = request.agentId ?? ids.next();
  const opening = openingOf({ identity, spec, agentId, starts: hasRoom });
  const until = identity.createdAt + settings.leaseTtlMs;
  const { connectionId, idempotency } = request;
  let made: CreationOutcome | undefined;
  try {
    made = await store.createRun({
      identity,
      lease: hasRoom ? { owner: settings.node, until } : null,
      events: opening.events,
      progress: opening.progress,
      audit: audited(engine, identity.tenantId, [auditOfStart(identity, request.by ?? ourselves)]),
      ...(connectionId === undefined
        ? {}
        : { connection: { id: connectionId, node: settings.node } }),
      ...(idempotency === undefined
        ? {}
        : { idempotency: { ...idempotency, expiresAt: identity.createdAt + idempotencyMs } }),
    });
  } finally {
    if (hasRoom && made?.kind !== 'created') supervisor.cancelReservation();
  }
  if (made.kind === 'exists') return replayed(store, made, idempotency);
  engine.publisher.publish(identity.id, opening.placed, identity.tenantId);
  if (hasRoom) {
    const { state } = opening;
    supervisor.adopt(new LiveRun({ engine, identity, spec, epoch: 1, state, isNew: true }));
  } else {
    supervisor.wake({ tenantId: identity.tenantId, runId: identity.id });
  }
  return { ...identity, replayed: false };
}

type Idempotency = NonNullable<RunRequest['idempotency']>;

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
function checkCostLimit(engine: Engine, { tenantId, model, limits }: RunRequest): void {
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

function identityOf(
  request: RunRequest,
  made: { id: string; conversationId: string; createdAt: number },
): RunIdentity {
  return {
    ...made,
    tenantId: request.tenantId,
    correlationId: request.correlationId,
    surface: request.surface,
    agent: request.agent,
    model: request.model,
    labels: request.labels ?? {},
    parentRunId: request.parentRunId ?? null,
    workflowId: request.workflowId ?? null,
    keyId: request.keyId ?? null,
  };
}

function specOf(
  request: RunRequest,
  made: { conversationId: string; history: number | null },
): EventOf<'run.created'> {
  const { system, functions = [], limits, handoffs, context, memory } = request;
  const { parentRunId, workflowId, forkedFrom, traceparent, workspace } = request;
  return {
    type: 'run.created',
    ...made,
    surface: request.surface,
    agent: request.agent,
    model: request.model,
    correlationId: request.correlationId,
    messages: [...request.messages],
    tools: [...request.tools],
    permissions: request.permissions,
    maxIterations: request.maxIterations,
    labels: { ...request.labels },
    ...(system === undefined ? {} : { system }),
    ...(functions.length === 0 ? {} : { functions: [...functions] }),
    ...(limits === undefined || Object.keys(limits).length === 0 ? {} : { limits }),
    ...(handoffs === undefined || handoffs.length === 0 ? {} : { handoffs: [...handoffs] }),
    ...answerFields(request),
    ...(context === undefined ? {} : { context }),
    ...(parentRunId === undefined ? {} : { parentRunId }),
    ...(workflowId === undefined ? {} : { workflowId }),
    ...(memory === undefined ? {} : { memory }),
    ...(workspace === undefined ? {} : { workspace }),
    ...(forkedFrom === undefined ? {} : { forkedFrom }),
    ...(traceparent === undefined ? {} : { traceparent }),
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
