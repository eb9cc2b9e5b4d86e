/**
 * The gate: every call of a completed turn is checked, then decided, before anything runs.
 *
 * Denied calls are settled. Of the others, arguments that do not fit go back to the model as a tool
 * error; allowed calls are handed to dispatch, and all that nobody has decided yet are raised
 * together, each to be answered on its own. One that a person has denied in this run before, to the
 * command, is denied again. Whatever a limit leaves no room for is refused.
 */
import type { LimitName, Permissions, RuleRef, RunEvent } from '@relay/protocol';
import { digestOfCall } from '../commands/edited-call.ts';
import type { ProgramRules } from '../engine.ts';
import { decide, declaredBy, type Grant, type Verdict } from '../permission/decide.ts';
import { policiesOf, type Policy } from '../permission/policy.ts';
import type { ResolvedPaths, Tool } from '../ports/index.ts';
import { readArguments } from './arguments.ts';
import type { CallState } from './state/call.ts';
import { agentFields, type AgentState } from './state/agent.ts';
import { start, type Start } from './dispatch.ts';
import { ActiveGrants } from './active-grants.ts';
import { callsLeft, limitText } from './agents/limits.ts';
import type { LiveRun } from './live-run.ts';
import { locate } from './locate.ts';
import { findTool, pathOf } from './agents/profile.ts';
import { decidedAgain } from './refused-grants.ts';
import { reachedLimit } from './agents/spawn.ts';
import { warningTime } from './waiting/expiry.ts';

/** Decides all calls that wait at the gate, and starts those that may run. */
export async function gate(run: LiveRun, agent: AgentState): Promise<void> {
  const waiting = agent.turn?.calls.filter((call) => call.phase === 'called') ?? [];
  const readings = await Promise.all(
    waiting.map(async (raw) => ({ raw, checked: await check(run, agent, raw) })),
  );
  const [grants, policies] = await Promise.all([
    ActiveGrants.of(run),
    run.store.policies.inForce(agent.name).then(policiesOf),
  ]);
  const once = new OnceRules(run);
  const starts: Start[] = [];
  let left = callsLeft(run.state);
  for (const { raw, checked } of readings) {
    const call = checked.ok ? checked.call : raw;
    const resolvedPaths = checked.ok ? checked.resolvedPaths : undefined;
    const verdict = verdictOn(run, {
      agent,
      call,
      resolvedPaths,
      grants: grants.list,
      once,
      policies,
    });
    const limit = overLimit(run, agent, left);
    if (verdict.decision === 'deny') {
      run.journal.stage([denied(agent, call, { ...verdict, rule: once.named(verdict.rule) })]);
    } else if (!checked.ok) {
      run.journal.stage([failed(agent, call, checked)]);
    } else if (limit !== undefined) {
      const problem = { code: 'limit_reached', error: limitText(limit) };
      run.journal.stage([...reachedLimit(run, agent, limit), failed(agent, call, problem)]);
    } else if (verdict.decision === 'ask' && refusalOf(run, call) !== undefined) {
      run.journal.stage([deniedAgain(run, agent, call)]);
    } else if (verdict.decision === 'ask') {
      left -= 1;
      run.journal.stage([raised(run, agent, { call, kind: 'permission' })]);
    } else {
      left -= 1;
      once.use(verdict.rule);
      grants.use(verdict.rule);
      starts.push({ call, tool: checked.tool, rule: once.named(verdict.rule) });
    }
  }
  if (starts.some(({ rule }) => rule?.counted === true)) {
    run.journal.stage([], { otherwise: (events) => decideAgain(run, agent, { starts, events }) });
  }
  await start(run, agent, starts);
}

/** A call that was approved and leads elsewhere by now: denied, or asked about once more. */
export async function gateAgain(
  run: LiveRun,
  agent: AgentState,
  { call, resolvedPaths }: Place,
): Promise<void> {
  const once = new OnceRules(run);
  const policies = policiesOf(await run.store.policies.inForce(agent.name));
  const verdict = verdictOn(run, { agent, call, resolvedPaths, grants: [], once, policies });
  const kind = call.approval?.kind === 'outcome' ? 'outcome' : 'permission';
  run.journal.stage([
    verdict.decision === 'deny'
      ? denied(agent, call, { ...verdict, rule: once.named(verdict.rule) })
      : raised(run, agent, { call: { ...call, ...pathsOf(resolvedPaths) }, kind }),
  ]);
}

function pathsOf(resolvedPaths: ResolvedPaths | undefined): Pick<CallState, 'resolvedPaths'> {
  return resolvedPaths === undefined ? {} : { resolvedPaths: resolvedPaths.paths };
}

/** A grant was used up before its calls were stored: they are judged by what holds now. */
async function decideAgain(
  run: LiveRun,
  agent: AgentState,
  { starts, events }: { starts: readonly Start[]; events: readonly RunEvent[] },
): Promise<readonly RunEvent[]> {
  const [grants, policies, places] = await Promise.all([
    ActiveGrants.of(run),
    run.store.policies.inForce(agent.name).then(policiesOf),
    placesOf(starts),
  ]);
  const once = new OnceRules(run);
  return decidedAgain(events, {
    again: (started) => {
      const call = starts.find((each) => each.call.toolCallId === started.toolCallId)?.call;
      if (call === undefined) return started;
      const resolvedPaths = places.get(call.toolCallId);
      const { list } = grants;
      const verdict = verdictOn(run, { agent, call, resolvedPaths, grants: list, once, policies });
      if (verdict.decision === 'ask') return raised(run, agent, { call, kind: 'permission' });
      const rule = once.named(verdict.rule);
      if (verdict.decision === 'deny') return denied(agent, call, { ...verdict, rule });
      once.use(verdict.rule);
      grants.use(verdict.rule);
      return { ...started, rule };
    },
    word: ({ toolCallId, name }) => ({
      type: 'tool.progressed',
      ...agentFields(agent),
      toolCallId,
      name,
      progressId: run.engine.ids.next(),
      content: 'The grant that allowed this call was used up in the meantime',
    }),
  });
}

/** Where the paths of calls lead at this moment. */
async function placesOf(starts: readonly Start[]): Promise<Map<string, ResolvedPaths | undefined>> {
  const found = new Map<string, ResolvedPaths | undefined>();
  for (const { tool, call } of starts) {
    const looking = await locate(tool, call.input);
    found.set(call.toolCallId, looking.ok ? looking.resolvedPaths : undefined);
  }
  return found;
}

/** Of two calls that match one allow-once rule, the first uses it up (E7). */
class OnceRules {
  readonly #run: LiveRun;
  readonly #program: ProgramRules | undefined;
  readonly #used: number[];

  constructor(run: LiveRun) {
    this.#run = run;
    this.#program = run.engine.rules?.(run.ref);
    this.#used = this.#program === undefined ? [...run.state.usedOnce] : [];
  }

  get permissions(): Permissions {
    return this.#program?.current() ?? this.#run.spec.permissions;
  }

  get used(): readonly number[] {
    return this.#used;
  }

  use(rule: RuleRef): void {
    if (rule.list !== 'allowOnce') return;
    if (this.#program === undefined) this.#used.push(rule.index);
    else this.#program.useOnce(rule.index);
  }

  named(rule: RuleRef): RuleRef {
    const own = rule.source === 'request' && this.#program !== undefined;
    return own ? { ...rule, source: 'program' } : rule;
  }
}

/** When the time is over nothing starts any more; otherwise it is the calls that are counted. */
function overLimit(run: LiveRun, agent: AgentState, left: number): LimitName | undefined {
  const current = run.state.agents[agent.id]?.limit;
  if (current === 'time') return current;
  return left <= 0 ? 'toolCalls' : undefined;
}

type Checked =
  | {
      readonly ok: true;
      readonly tool: Tool;
      readonly call: CallState;
      readonly resolvedPaths?: ResolvedPaths;
    }
  | { readonly ok: false; readonly code: string; readonly error: string };

/** Whether the call names a tool of this run, fits its schema, and leads where the tool may go. */
async function check(run: LiveRun, agent: AgentState, call: CallState): Promise<Checked> {
  const tool = findTool(run, agent, call.name);
  if (tool === undefined) {
    return { ok: false, code: 'unknown_tool', error: `There is no tool named ${call.name}` };
  }
  if (typeof call.input !== 'object' || call.input === null) {
    const error = 'The arguments are not a JSON object';
    return { ok: false, code: 'tool_input_invalid', error };
  }
  const reading = readArguments(tool, call.input);
  if (reading.ok) return checkPlace(tool, { ...call, input: reading.input });
  const error = `Invalid arguments: ${reading.problem}`;
  return { ok: false, code: 'tool_input_invalid', error };
}

async function checkPlace(tool: Tool, call: CallState): Promise<Checked> {
  const looking = await locate(tool, call.input);
  if (!looking.ok) return { ok: false, code: 'path_refused', error: looking.problem };
  const { resolvedPaths } = looking;
  if (resolvedPaths === undefined) return { ok: true, tool, call };
  return { ok: true, tool, call: { ...call, ...pathsOf(resolvedPaths) }, resolvedPaths };
}

interface Place {
  readonly call: CallState;
  readonly resolvedPaths: ResolvedPaths | undefined;
}

interface Question {
  readonly agent: AgentState;
  readonly call: CallState;
  readonly resolvedPaths: ResolvedPaths | undefined;
  readonly grants: readonly Grant[];
  readonly once: OnceRules;
  readonly policies: readonly Policy[];
}

/** What the rules say. Arguments that are no object have no parameters that a rule could match. */
function verdictOn(run: LiveRun, question: Question): Verdict {
  const { agent, call, resolvedPaths, grants, once, policies } = question;
  const hasParameters = typeof call.input === 'object' && call.input !== null;
  const tool = findTool(run, agent, call.name);
  return decide(
    {
      toolCallId: call.toolCallId,
      name: call.name,
      arguments: hasParameters ? (call.input as Record<string, unknown>) : {},
    },
    {
      permissions: once.permissions,
      usedOnce: once.used,
      grants,
      policies,
      builtinAllow: tool?.allowedByDefault ?? false,
      ...declaredBy(tool, resolvedPaths),
    },
  );
}

export function digestOf(
  run: LiveRun,
  call: Pick<CallState, 'name' | 'input' | 'resolvedPaths'>,
): string {
  return digestOfCall(run.engine, call);
}

export function raised(
  run: LiveRun,
  agent: AgentState,
  approval: { call: CallState; kind: 'permission' | 'outcome' },
): RunEvent {
  const { clock, ids, settings } = run.engine;
  const { call, kind } = approval;
  const now = clock.now();
  return {
    type: 'approval.requested',
    ...agentFields(agent),
    approvalId: ids.next(),
    toolCallId: call.toolCallId,
    kind,
    tool: call.name,
    params: call.input as Extract<RunEvent, { type: 'approval.requested' }>['params'],
    ...(call.resolvedPaths === undefined ? {} : { resolvedPaths: call.resolvedPaths }),
    digest: digestOf(run, call),
    agentPath: pathOf(run.state, agent),
    expiresAt: new Date(now + settings.approvalTtlMs).toISOString(),
    warnsAt: new Date(warningTime(now, settings.approvalTtlMs)).toISOString(),
  };
}

function failed(
  agent: AgentState,
  call: CallState,
  problem: { code: string; error: string },
): RunEvent {
  return {
    type: 'tool.failed',
    ...agentFields(agent),
    toolCallId: call.toolCallId,
    name: call.name,
    error: problem.error,
    code: problem.code,
  };
}

/** A program that runs agents in itself is asked every time: what it says is its own matter. */
function refusalOf(run: LiveRun, call: CallState) {
  if (run.engine.rules !== undefined) return undefined;
  const { refused } = run.state;
  const digest = digestOf(run, call);
  return Object.hasOwn(refused, digest) ? refused[digest] : undefined;
}

/** Whoever was asked has said no: the model gains nothing by asking again. */
function deniedAgain(run: LiveRun, agent: AgentState, call: CallState): RunEvent {
  const { approvalId, reason } = refusalOf(run, call) ?? {};
  const why = reason === undefined ? '' : `: ${reason}`;
  return {
    type: 'tool.denied',
    ...agentFields(agent),
    toolCallId: call.toolCallId,
    name: call.name,
    status: 'denied',
    reason: `A person has denied exactly this call before${why}`,
    ...(approvalId === undefined ? {} : { approvalId }),
  };
}

function denied(
  agent: AgentState,
  call: CallState,
  verdict: Extract<Verdict, { decision: 'deny' }>,
): RunEvent {
  return {
    type: 'tool.denied',
    ...agentFields(agent),
    toolCallId: call.toolCallId,
    name: call.name,
    status: 'denied',
    rule: verdict.rule,
    ...(verdict.reason === undefined ? {} : { reason: verdict.reason }),
  };
}
