/**
 * What a policy would have changed: the calls of the tenant's recent runs, decided once more with it in
 * the place of the one that was in force.
 */
import {
  type EventOf,
  type PolicyRules,
  RelayError,
  type RuleRef,
  type Stored,
  type StoredEvent,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { decide, type Grant } from './decide.ts';
import { type Policy, policiesOf } from './policy.ts';
import type { RunListing, TenantStore, Tool } from '../ports/index.ts';

export interface PolicyDraft {
  /** `null`: for all agents. */
  readonly agent: string | null;
  readonly rules: PolicyRules;
  readonly since: number;
}

type Decision = 'allow' | 'deny' | 'ask';

export interface ChangedCall {
  readonly runId: string;
  readonly agent: string;
  readonly toolCallId: string;
  readonly tool: string;
  readonly params: unknown;
  readonly at: string;
  readonly was: Decision;
  readonly now: Decision;
  readonly rule?: RuleRef;
}

export interface PolicyPreview {
  readonly runs: number;
  readonly calls: number;
  /** Nothing since then was left out. */
  readonly complete: boolean;
  readonly changed: readonly ChangedCall[];
}

const mostRuns = 500;
const mostCalls = 5_000;
const mostEvents = 5_000;
/** Of all runs together: what is decoded for one answer. */
const mostEventsInAll = 200_000;
const pageSize = 100;

export async function previewPolicy(
  engine: Engine,
  store: TenantStore,
  draft: PolicyDraft,
): Promise<PolicyPreview> {
  const policies = new Policies(store, draft);
  const changed: ChangedCall[] = [];
  let [runs, calls, read, complete] = [0, 0, 0, true];
  for await (const run of recentRuns(store, draft.since)) {
    if (runs === mostRuns || calls >= mostCalls || read >= mostEventsInAll) {
      complete = false;
      break;
    }
    runs += 1;
    const events = await eventsOf(store, run.id);
    read += events.length;
    if (events.length === 0 || events.length === mostEvents) complete = false;
    for (const call of callsIn(events)) {
      calls += 1;
      const tool = toolOf(engine, store.tenantId, call);
      const next = decidedAnew(tool, call, await policies.of(call.agent));
      if (next.now !== call.was) changed.push({ runId: run.id, ...shown(call), ...next });
    }
  }
  return { runs, calls, complete, changed };
}

async function* recentRuns(store: TenantStore, since: number): AsyncGenerator<RunListing, void> {
  let page = await store.listRuns({ since }, { limit: pageSize });
  for (;;) {
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize) return;
    const before = { at: last.createdAt, id: last.id };
    page = await store.listRuns({ since }, { limit: pageSize, before });
  }
}

/** Nothing of a journal that is damaged: one such run must not spoil the whole. */
async function eventsOf(store: TenantStore, runId: string): Promise<StoredEvent[]> {
  try {
    return await store.readEvents(runId, { after: 0, limit: mostEvents });
  } catch (error) {
    if (error instanceof RelayError && error.code === 'journal_corrupt') return [];
    throw error;
  }
}

/** The draft in the place of its predecessor, and beside it what stays as it is. */
class Policies {
  readonly #store: TenantStore;
  readonly #draft: PolicyDraft;
  readonly #known = new Map<string, Promise<Policy[]>>();

  constructor(store: TenantStore, draft: PolicyDraft) {
    this.#store = store;
    this.#draft = draft;
  }

  of(agent: string): Promise<Policy[]> {
    const known = this.#known.get(agent) ?? this.#read(agent);
    this.#known.set(agent, known);
    return known;
  }

  async #read(agent: string): Promise<Policy[]> {
    const { agent: about, rules } = this.#draft;
    const inForce = await this.#store.policies.inForce(agent);
    const others = policiesOf(inForce.filter((policy) => policy.agent !== about));
    const draft = { id: `${about ?? '*'}@draft`, ...rules };
    return about === null || about === agent ? [draft, ...others] : others;
  }
}

interface DecidedCall {
  readonly agent: string;
  readonly toolCallId: string;
  readonly tool: string;
  readonly params: unknown;
  readonly at: string;
  readonly was: Decision;
  readonly by?: RuleRef;
  readonly spec: EventOf<'run.created'>;
}

type Decided = Stored<
  | EventOf<'tool.called'>
  | EventOf<'tool.started'>
  | EventOf<'tool.denied'>
  | EventOf<'approval.requested'>
>;

/** Calls of which the journal says how they were decided the first time. */
function callsIn(events: readonly StoredEvent[]): DecidedCall[] {
  const [spec] = events;
  if (spec?.type !== 'run.created') return [];
  const names = new Map<string, string>();
  const asked = new Map<string, Extract<Decided, { type: 'tool.called' }>>();
  const calls: DecidedCall[] = [];
  for (const event of events) {
    if (event.type === 'agent.started' || event.type === 'agent.switched') {
      names.set(event.agentId, event.name);
    } else if (event.type === 'tool.called') {
      asked.set(`${event.agentId} ${event.toolCallId}`, event);
    } else if (isDecided(event)) {
      const key = `${event.agentId} ${event.toolCallId}`;
      const call = asked.get(key);
      const decided = call === undefined ? undefined : decisionIn(event);
      asked.delete(key);
      if (call === undefined || decided === undefined) continue;
      const { toolCallId, name: tool, input } = call;
      const params = event.type === 'tool.started' ? event.input : input;
      const agent = names.get(event.agentId) ?? spec.agent;
      calls.push({ agent, toolCallId, tool, params, at: event.at, ...decided, spec });
    }
  }
  return calls;
}

function isDecided(event: StoredEvent): event is Exclude<Decided, { type: 'tool.called' }> {
  return (
    event.type === 'tool.started' ||
    event.type === 'tool.denied' ||
    event.type === 'approval.requested'
  );
}

function decisionIn(
  event: Exclude<Decided, { type: 'tool.called' }>,
): { was: Decision; by?: RuleRef } | undefined {
  if (event.type === 'approval.requested') {
    return event.kind === 'permission' ? { was: 'ask' } : undefined;
  }
  // Without a rule it was a person who had said so before.
  if (event.rule === undefined) return event.type === 'tool.denied' ? { was: 'ask' } : undefined;
  return { was: event.type === 'tool.denied' ? 'deny' : 'allow', by: event.rule };
}

function decidedAnew(tool: Tool | undefined, call: DecidedCall, policies: readonly Policy[]) {
  const args = typeof call.params === 'object' && call.params !== null ? call.params : {};
  const verdict = decide(
    { toolCallId: call.toolCallId, name: call.tool, arguments: args as Record<string, unknown> },
    {
      permissions: call.spec.permissions,
      usedOnce: [],
      grants: grantsOf(call, args as Record<string, unknown>),
      builtinAllow: isOwn(call) || (tool?.allowedByDefault ?? false),
      policies,
      ...(tool?.kinds === undefined ? {} : { kinds: tool.kinds }),
    },
  );
  return {
    now: verdict.decision,
    ...(verdict.rule === undefined ? {} : { rule: verdict.rule }),
  };
}

function isOwn({ spec, tool }: DecidedCall): boolean {
  return spec.functions?.some(({ name }) => name === tool) ?? false;
}

function toolOf(engine: Engine, tenantId: string, call: DecidedCall): Tool | undefined {
  return isOwn(call) ? undefined : engine.tools(tenantId).find(call.tool);
}

/** A grant that allowed it then still stands for this call, whatever has become of it. */
function grantsOf({ by, tool }: DecidedCall, exact: Record<string, unknown>): Grant[] {
  return by?.source === 'grant' ? [{ id: by.id ?? '', tool, exact }] : [];
}

function shown({ agent, toolCallId, tool, params, at, was }: DecidedCall) {
  return { agent, toolCallId, tool, params, at, was };
}
