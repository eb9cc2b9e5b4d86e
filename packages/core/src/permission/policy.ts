/** Policies, and a preview of what a new version of one would have changed. */
import {
  defined,
  type EventOf,
  type PolicyRules,
  RelayError,
  type RuleRef,
  type Stored,
  type StoredEvent,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { readJournal } from '../journal.ts';
import type { Listed, Page, PolicyRecord, TenantStore, Tool } from '../ports/index.ts';
import { clientTool } from '../run/waiting/client-calls.ts';
import { type Approver, findApprover } from './approvers.ts';
import { decideInTurn, declaredBy, type Grant, type RuleSet } from './decide.ts';

/** A tenant's standing rules, for all of its agents or for one. */
export interface Policy extends PolicyRules {
  /** Its agent and version, such as `*@3` or `assistant@2`. */
  readonly id: string;
  /** Of an agent that delegated to the calling one: its approvers must be met too. */
  readonly delegated?: true;
}

type NamedRules = Pick<PolicyRecord, 'agent' | 'rules'> & { readonly version: number | 'draft' };

/**
 * The policies that are in force for the calls of an agent, the last of `path`. The agents before it
 * delegated to it: what their policies deny, ask about or name approvers for, they cannot get done by a
 * sub-agent. What these allow is allowed to them alone.
 */
export function policiesOf(records: readonly NamedRules[], ...path: readonly string[]): Policy[] {
  const agent = path.at(-1) ?? '';
  const all = records.find((record) => record.agent === null);
  const own = (name: string) => records.find((record) => record.agent === name);
  const inForce = [all, own(agent)].flatMap((record) =>
    record === undefined ? [] : [{ id: idOf(record), ...rulesFor(agent, record.rules) }],
  );
  const delegating = [...new Set(path)].filter((name) => name !== agent);
  return [...inForce, ...delegating.flatMap((name) => delegatedBy(name, all, own(name)))];
}

function delegatedBy(
  agent: string,
  all: NamedRules | undefined,
  own: NamedRules | undefined,
): Policy[] {
  const record = own ?? all;
  if (record === undefined) return [];
  const { deny, ask } = own?.rules ?? { deny: [], ask: [] };
  const approvers = [all, own].flatMap((each) =>
    each === undefined ? [] : rulesFor(agent, each.rules).approvers,
  );
  return [{ id: idOf(record), allow: [], deny, ask, approvers, delegated: true }];
}

function idOf({ agent, version }: NamedRules): string {
  return `${agent ?? '*'}@${version}`;
}

function rulesFor(agent: string, rules: PolicyRules): PolicyRules {
  const approvers = rules.approvers.filter((rule) => (rule.agent ?? agent) === agent);
  return { ...rules, approvers };
}

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
  /** Whether all calls since then were checked. */
  readonly complete: boolean;
  readonly changed: readonly ChangedCall[];
}

const maxRuns = 500;
const maxCalls = 5_000;
const maxEventsPerRun = 5_000;
/** Of all runs together. */
const maxEvents = 200_000;
const pageSize = 100;

/**
 * Decides the calls of the tenant's recent runs again, with the current policy and with the draft instead of
 * it. Both with the tools as they are now: what has changed besides the policy is no difference.
 */
export async function previewPolicy(
  engine: Engine,
  store: TenantStore,
  draft: PolicyDraft,
): Promise<PolicyPreview> {
  const policies = new ComparedPolicies(store, draft);
  const changed: ChangedCall[] = [];
  let [runs, calls, read, complete] = [0, 0, 0, true];
  const { since } = draft;
  const recentRuns = listedItems((page) => store.listRuns({ since }, page));
  for await (const run of recentRuns) {
    if (runs === maxRuns || calls >= maxCalls || read >= maxEvents) {
      complete = false;
      break;
    }
    runs += 1;
    const events = await eventsOf(store, run.id);
    read += events.length;
    if (events.length === 0 || events.length === maxEventsPerRun) complete = false;
    for (const call of callsIn(events)) {
      calls += 1;
      const tool = toolOf(engine, store.tenantId, call);
      const { current, proposed } = await policies.forAgent(call.path);
      const others = {
        requester: await policies.requesterOf(run.keyId, engine.clock.now()),
        grants: await grantsOf(store, tool, call),
      };
      const { decision: was } = await decideAgain(tool, call, { policies: current, ...others });
      const next = await decideAgain(tool, call, { policies: proposed, ...others });
      if (next.decision === was) continue;
      const { by: _, spec: __, path: ___, ...shown } = call;
      const { decision: now, rule } = next;
      changed.push({ runId: run.id, ...shown, was, now, ...defined({ rule }) });
    }
  }
  return { runs, calls, complete, changed };
}

/** The items of a list, newest first, read page by page. */
export async function* listedItems<Item>(
  list: (page: Page) => Promise<Listed<Item>>,
): AsyncGenerator<Item, void> {
  let page: Page = { limit: pageSize };
  for (;;) {
    const { items, next } = await list(page);
    yield* items;
    if (next === null) return;
    page = { limit: pageSize, before: next };
  }
}

/** A damaged journal counts as empty, so that one such run does not fail the preview. */
async function eventsOf(store: TenantStore, runId: string): Promise<StoredEvent[]> {
  try {
    const events: StoredEvent[] = [];
    for await (const page of readJournal(store, runId, { after: 0, to: maxEventsPerRun })) {
      events.push(...page);
    }
    return events;
  } catch (error) {
    if (error instanceof RelayError && error.code === 'journal_corrupt') return [];
    throw error;
  }
}

interface PolicyPair {
  readonly current: Policy[];
  /** With the draft instead of its predecessor. */
  readonly proposed: Policy[];
}

class ComparedPolicies {
  readonly #store: TenantStore;
  readonly #draft: PolicyDraft;
  readonly #cache = new Map<string, Promise<PolicyPair>>();
  readonly #requesters = new Map<string | null, Promise<Approver>>();

  constructor(store: TenantStore, draft: PolicyDraft) {
    this.#store = store;
    this.#draft = draft;
  }

  forAgent(path: readonly string[]): Promise<PolicyPair> {
    const key = JSON.stringify(path);
    const policies = this.#cache.get(key) ?? this.#read(path);
    this.#cache.set(key, policies);
    return policies;
  }

  requesterOf(keyId: string | null, now: number): Promise<Approver> {
    const requester = this.#requesters.get(keyId) ?? findApprover(this.#store, keyId, now);
    this.#requesters.set(keyId, requester);
    return requester;
  }

  async #read(path: readonly string[]): Promise<PolicyPair> {
    const { agent, rules } = this.#draft;
    const inForce = await this.#store.policies.inForce(...path);
    const others = inForce.filter((policy) => policy.agent !== agent);
    return {
      current: policiesOf(inForce, ...path),
      proposed: policiesOf([...others, { agent, rules, version: 'draft' }], ...path),
    };
  }
}

interface DecidedCall extends Omit<ChangedCall, 'runId' | 'was' | 'now' | 'rule'> {
  /** The names of the agents from the root agent down to the calling one. */
  readonly path: readonly string[];
  readonly by?: RuleRef;
  readonly spec: EventOf<'run.created'>;
}

type Decided = Stored<EventOf<'tool.started' | 'tool.denied' | 'approval.requested'>>;

/** The calls whose first decision is in the journal. */
function callsIn(events: readonly StoredEvent[]): DecidedCall[] {
  const [spec] = events;
  if (spec?.type !== 'run.created') return [];
  const names = new Map<string, string>();
  const parents = new Map<string, string | undefined>();
  const pathOf = (id: string | undefined): string[] =>
    id === undefined ? [] : [...pathOf(parents.get(id)), names.get(id) ?? spec.agent];
  const calledEvents = new Map<string, EventOf<'tool.called'>>();
  const calls: DecidedCall[] = [];
  for (const event of events) {
    if (event.type === 'agent.started' || event.type === 'agent.switched') {
      names.set(event.agentId, event.name);
      if (event.type === 'agent.started') parents.set(event.agentId, event.parentId ?? undefined);
    } else if (event.type === 'tool.called') {
      calledEvents.set(`${event.agentId} ${event.toolCallId}`, event);
    } else if (isDecided(event)) {
      const key = `${event.agentId} ${event.toolCallId}`;
      const call = calledEvents.get(key);
      calledEvents.delete(key);
      if (call === undefined || !isDecidedByRule(event)) continue;
      const { toolCallId, name: tool, input } = call;
      const params = event.type === 'tool.started' ? event.input : input;
      const path = pathOf(event.agentId);
      const agent = path.at(-1) ?? spec.agent;
      calls.push({
        agent,
        path,
        toolCallId,
        tool,
        params,
        at: event.at,
        spec,
        ...defined({ by: event.rule }),
      });
    }
  }
  return calls;
}

function isDecided(event: StoredEvent): event is Decided {
  return (
    event.type === 'tool.started' ||
    event.type === 'tool.denied' ||
    event.type === 'approval.requested'
  );
}

/** A call that starts without a rule was decided before, by a person. */
function isDecidedByRule(event: Decided): boolean {
  if (event.type === 'approval.requested') return event.kind === 'permission';
  return event.type === 'tool.denied' || event.rule !== undefined;
}

function decideAgain(
  tool: Tool | undefined,
  call: DecidedCall,
  rules: Required<Pick<RuleSet, 'policies' | 'requester' | 'grants'>>,
) {
  const args = typeof call.params === 'object' && call.params !== null ? call.params : {};
  const declared = declaredBy(tool);
  // The tool may have demanded a person for this call alone, by what its paths led to then.
  const needsApproval = declared.needsApproval || call.by?.list === 'needsApproval';
  return decideInTurn(
    { toolCallId: call.toolCallId, name: call.tool, arguments: args as Record<string, unknown> },
    {
      permissions: call.spec.permissions,
      usedOnce: [],
      builtinAllow: tool?.allowedByDefault ?? false,
      ...rules,
      ...declared,
      needsApproval,
    },
  );
}

function toolOf(engine: Engine, tenantId: string, { spec, tool }: DecidedCall): Tool | undefined {
  const own = spec.functions?.find(({ name }) => name === tool);
  return own === undefined ? engine.tools(tenantId).find(tool) : clientTool(own);
}

/** A grant that allowed the call then still counts, even if it was revoked since. */
async function grantsOf(
  store: TenantStore,
  definition: Tool | undefined,
  { by, tool, params }: DecidedCall,
): Promise<Grant[]> {
  if (by?.source !== 'grant' || typeof params !== 'object' || params === null) return [];
  const { id = '' } = by;
  const { approvers } = (await store.readGrant(id)) ?? {};
  const { definitionDigest } = definition ?? {};
  const exact = params as Record<string, unknown>;
  return [{ id, tool, exact, ...defined({ approvers, definitionDigest }) }];
}
