/**
 * The gate: every call of a completed turn is checked, then decided, before any tool runs.
 *
 *   denied by a rule                   settled as denied
 *   unknown tool, invalid arguments    fails: the model reads the error
 *   beyond a limit                     fails
 *   no rule decides it                 waits for an approval, also if a person has denied the same
 *                                      call before: the approval shows that denial. It fails if the
 *                                      tool is not available now
 *   allowed                            started by dispatch
 *
 * The arguments of a call are fixed here: what is decided is what runs (arguments.ts).
 */
import { defined, type LimitName, RelayError, type RuleRef, type RunEvent } from '@relay/protocol';
import type { OnGrantExhausted } from '../journal.ts';
import { pathsOf, type Verdict } from '../permission/decide.ts';
import type { PathResolution, Tool } from '../ports/index.ts';
import {
  digestOfCall,
  resolveToSamePaths,
  parseArguments,
  previewCall,
  resolvePaths,
} from './arguments.ts';
import { CallRules } from './call-rules.ts';
import { type CallStart, startCalls } from './dispatch.ts';
import type { LiveRun } from './live-run.ts';
import { callsLeft, limitText } from './agents/limits.ts';
import { findTool } from './agents/profile.ts';
import { reachedLimit } from './agents/spawn.ts';
import type { AgentState } from './state/agent.ts';
import { callFields, type CallState, toolDenied, toolFailed } from './state/call.ts';
import { approvalRequested } from './waiting/approvals.ts';

/** Decides all calls that wait at the gate, and starts those that are allowed. */
export async function gate(run: LiveRun, agent: AgentState): Promise<void> {
  const called = agent.turn?.calls.filter(({ phase }) => phase === 'called') ?? [];
  const checks = await Promise.all(called.map((call) => check(run, agent, call)));
  const rules = await CallRules.load(run, agent);
  const starts: CallStart[] = [];
  let left = callsLeft(run.state);
  for (const checked of checks) {
    const { call } = checked;
    const verdict = rules.decide(checked);
    const limit = limitOf(run, agent, left);
    if (verdict.decision === 'deny') {
      run.journal.stage([deniedByRule(agent, call, verdict)]);
    } else if (!checked.ok) {
      run.journal.stage([toolFailed(agent, call, checked.code, checked.error)]);
    } else if (limit !== undefined) {
      const failed = toolFailed(agent, call, 'limit_reached', limitText(limit));
      run.journal.stage([...reachedLimit(run, agent, limit), failed]);
    } else if (verdict.decision === 'ask') {
      left -= 1;
      run.journal.stage([permissionRequested(run, agent, checked, verdict.rule)]);
    } else {
      left -= 1;
      rules.use(verdict.rule);
      starts.push({ call, tool: checked.tool, rule: verdict.rule });
    }
    await rules.endTurn();
  }
  const usesCountedGrant = starts.some(({ rule }) => rule?.counted === true);
  await startCalls(
    run,
    agent,
    starts,
    usesCountedGrant ? redecideExhausted(run, agent, starts) : undefined,
  );
}

/**
 * Starts calls that people approved, whatever their siblings wait for. A call whose paths or whose
 * tool's definition have changed is not what was approved: it is denied or needs another approval.
 */
export async function startApproved(run: LiveRun, agent: AgentState): Promise<void> {
  const approved = agent.turn?.calls.filter(({ phase }) => phase === 'decided') ?? [];
  const resolved = await Promise.all(
    approved.map(async (call) => {
      const tool = findTool(run, agent, call.name);
      return { call, tool, resolution: await resolvePaths(tool, call.input) };
    }),
  );
  const starts: CallStart[] = [];
  for (const { call, tool, resolution } of resolved) {
    if (tool === undefined) {
      const error = `There is no longer a tool named ${call.name}`;
      run.journal.stage([toolFailed(agent, call, 'unknown_tool', error)]);
    } else if (!resolution.ok) {
      run.journal.stage([toolFailed(agent, call, 'path_refused', resolution.problem)]);
    } else if (
      resolveToSamePaths(call.resolvedPaths, resolution.resolvedPaths) &&
      call.approval?.definitionDigest === tool.definitionDigest
    ) {
      starts.push(approvedStart(run, call, tool));
    } else {
      const rules = await CallRules.withoutGrants(run, agent);
      const verdict = rules.decide({ call, tool, resolution });
      const preview = await previewCall(tool, call.input, pathsOf(resolution));
      const shown = { ...call, ...shownPaths(resolution), ...defined({ preview }) };
      const rule = verdict.decision === 'ask' ? verdict.rule : undefined;
      run.journal.stage([
        verdict.decision === 'deny'
          ? deniedByRule(agent, call, verdict)
          : call.approval?.kind === 'outcome'
            ? approvalRequested(run, agent, shown, 'outcome', rule)
            : permissionRequested(run, agent, { call: shown, tool }, rule),
      ]);
    }
  }
  await startCalls(run, agent, starts);
}

function permissionRequested(
  run: LiveRun,
  agent: AgentState,
  { call, tool }: { readonly call: CallState; readonly tool: Tool },
  rule: RuleRef | undefined,
): RunEvent {
  const problem = tool.unavailable?.();
  return problem === undefined
    ? approvalRequested(run, agent, call, 'permission', rule)
    : toolFailed(agent, call, 'tool_unavailable', problem);
}

/** An approval is bound to what was shown: nothing else may run (E7). */
function approvedStart(run: LiveRun, call: CallState, tool: Tool): CallStart {
  const { approval } = call;
  if (approval?.approved !== true || digestOfCall(run.engine, call) !== approval.digest) {
    throw new RelayError('journal_corrupt', `Call ${call.toolCallId} is not what was approved`);
  }
  return { call, tool, approvalId: approval.id };
}

type CheckedCall =
  | {
      readonly ok: true;
      readonly call: CallState;
      readonly tool: Tool;
      readonly resolution: PathResolution;
    }
  | {
      readonly ok: false;
      readonly call: CallState;
      readonly tool: Tool | undefined;
      readonly code: string;
      readonly error: string;
    };

/** Whether the call names a tool of this agent, fits its schema, and has paths that the tool allows. */
async function check(run: LiveRun, agent: AgentState, call: CallState): Promise<CheckedCall> {
  const tool = findTool(run, agent, call.name);
  const invalid = (code: string, error: string) =>
    ({ ok: false, call, tool, code, error }) as const;
  if (tool === undefined) return invalid('unknown_tool', `There is no tool named ${call.name}`);
  if (typeof call.input !== 'object' || call.input === null) {
    return invalid('tool_input_invalid', 'The arguments are not a JSON object');
  }
  const parsed = parseArguments(tool, call.input);
  if (!parsed.ok) return invalid('tool_input_invalid', `Invalid arguments: ${parsed.problem}`);
  const read = { ...call, input: parsed.input };
  const resolution = await resolvePaths(tool, read.input);
  if (!resolution.ok) return invalid('path_refused', resolution.problem);
  const preview = run.isHeadless
    ? undefined
    : await previewCall(tool, read.input, pathsOf(resolution));
  const shown = { ...shownPaths(resolution), ...defined({ preview }) };
  return { ok: true, call: { ...read, ...shown }, tool, resolution };
}

function shownPaths(resolution: PathResolution): Pick<CallState, 'resolvedPaths'> {
  return defined({ resolvedPaths: pathsOf(resolution)?.paths });
}

/** After the time limit nothing starts; otherwise the calls are counted. */
function limitOf(run: LiveRun, agent: AgentState, left: number): LimitName | undefined {
  if (run.state.agents[agent.id]?.limit === 'time') return 'time';
  return left <= 0 ? 'toolCalls' : undefined;
}

function deniedByRule(
  agent: AgentState,
  call: CallState,
  { rule, reason }: Extract<Verdict, { decision: 'deny' }>,
): RunEvent {
  return toolDenied(agent, call, defined({ rule, reason }));
}

/**
 * A counted grant was exhausted before the calls that it allows were stored: they are decided again
 * by the current rules. A delegated call that does not start has no sub-agent either; a progress
 * message takes the position of that event, because later events keep theirs.
 */
function redecideExhausted(
  run: LiveRun,
  agent: AgentState,
  starts: readonly CallStart[],
): OnGrantExhausted {
  return async (events, preceding) => {
    const rules = await CallRules.load(run, agent);
    for (const event of preceding) {
      if (event.type === 'tool.started' && event.rule !== undefined) rules.countUse(event.rule);
    }
    const replaced = [...events];
    for (const [index, event] of events.entries()) {
      if (event.type !== 'tool.started' || event.rule?.counted !== true) continue;
      const started = starts.find(({ call }) => call.toolCallId === event.toolCallId);
      if (started === undefined) continue;
      const { call, tool } = started;
      const resolution = await resolvePaths(tool, call.input);
      const verdict = rules.decide({ call, tool, resolution });
      if (verdict.decision === 'allow') {
        rules.use(verdict.rule);
        replaced[index] = { ...event, rule: verdict.rule };
        continue;
      }
      const decided =
        verdict.decision === 'deny'
          ? deniedByRule(agent, call, verdict)
          : permissionRequested(run, agent, started, verdict.rule);
      const next = events[index + 1];
      const isDelegated =
        next?.type === 'agent.started' && next.spawned?.toolCallId === call.toolCallId;
      if (isDelegated) replaced.splice(index, 2, grantExhausted(run, agent, call), decided);
      else replaced[index] = decided;
    }
    return replaced;
  };
}

function grantExhausted(run: LiveRun, agent: AgentState, call: CallState): RunEvent {
  return {
    type: 'tool.progressed',
    ...callFields(agent, call),
    progressId: run.engine.ids.next(),
    content: 'The grant that allowed this call was used up in the meantime',
  };
}
