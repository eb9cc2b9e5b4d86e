/**
 * The gate: every call of a completed turn is checked, then decided, before anything runs.
 *
 * Denied calls are settled. Of the others, arguments that do not fit go back to the model as a tool
 * error; allowed calls are handed to dispatch, and all that nobody has decided yet are raised
 * together, each to be answered on its own.
 */
import type { RunEvent } from '@relay/protocol';
import { canonicalJson } from '../permission/canonical.ts';
import { decide, type Grant, type Verdict } from '../permission/decide.ts';
import type { Tool } from '../ports.ts';
import { type Arguments, readArguments } from './arguments.ts';
import type { CallState } from './call.ts';
import { start, type Start } from './dispatch.ts';
import type { LiveRun } from './live-run.ts';
import { agentFields } from './machine.ts';
import type { AgentState } from './state.ts';

/** Decides all calls that wait at the gate, and starts those that may run. */
export async function gate(run: LiveRun, agent: AgentState): Promise<void> {
  const waiting = agent.turn?.calls.filter((call) => call.phase === 'called') ?? [];
  const grants = await run.store.readGrants({
    runId: run.identity.id,
    conversationId: run.identity.conversationId,
  });
  const usedOnce = [...run.state.usedOnce];
  const starts: Start[] = [];
  for (const raw of waiting) {
    const checked = check(run, raw);
    const call = checked.ok ? { ...raw, input: checked.input } : raw;
    const verdict = verdictOn(run, { call, grants, usedOnce });
    if (verdict.decision === 'deny') {
      run.journal.stage([denied(agent, call, verdict)]);
    } else if (!checked.ok) {
      run.journal.stage([failed(agent, call, checked)]);
    } else if (verdict.decision === 'ask') {
      run.journal.stage([raised(run, agent, { call, kind: 'permission' })]);
    } else {
      if (verdict.rule.list === 'allowOnce') usedOnce.push(verdict.rule.index);
      starts.push({ call, tool: checked.tool, rule: verdict.rule });
    }
  }
  await start(run, agent, starts);
}

type Checked =
  | { readonly ok: true; readonly tool: Tool; readonly input: Arguments }
  | { readonly ok: false; readonly code: string; readonly error: string };

/** Whether the call names a tool of this run and fits its schema. */
function check(run: LiveRun, call: CallState): Checked {
  const tool = run.findTool(call.name);
  if (tool === undefined) {
    return { ok: false, code: 'unknown_tool', error: `There is no tool named ${call.name}` };
  }
  if (typeof call.input !== 'object' || call.input === null) {
    const error = 'The arguments are not a JSON object';
    return { ok: false, code: 'tool_input_invalid', error };
  }
  const reading = readArguments(tool, call.input);
  if (reading.ok) return { ok: true, tool, input: reading.input };
  const error = `Invalid arguments: ${reading.problem}`;
  return { ok: false, code: 'tool_input_invalid', error };
}

interface Question {
  readonly call: CallState;
  readonly grants: readonly Grant[];
  readonly usedOnce: readonly number[];
}

/** What the rules say. Arguments that are no object have no parameters that a rule could match. */
function verdictOn(run: LiveRun, { call, grants, usedOnce }: Question): Verdict {
  const hasParameters = typeof call.input === 'object' && call.input !== null;
  return decide(
    {
      toolCallId: call.toolCallId,
      name: call.name,
      arguments: hasParameters ? (call.input as Record<string, unknown>) : {},
    },
    {
      permissions: run.spec.permissions,
      usedOnce,
      grants,
      builtinAllow: run.findTool(call.name)?.allowedByDefault ?? false,
    },
  );
}

/** What a decision is bound to: the tool and exactly these arguments. */
export function digestOf(run: LiveRun, call: Pick<CallState, 'name' | 'input'>): string {
  return run.engine.digest(canonicalJson({ tool: call.name, input: call.input }));
}

export function raised(
  run: LiveRun,
  agent: AgentState,
  relay: { call: CallState; kind: 'permission' | 'outcome' },
): RunEvent {
  const { clock, ids, settings } = run.engine;
  const { call, kind } = relay;
  return {
    type: 'relay.raised',
    ...agentFields(agent),
    relayId: ids.next(),
    toolCallId: call.toolCallId,
    kind,
    tool: call.name,
    params: call.input as Extract<RunEvent, { type: 'relay.raised' }>['params'],
    digest: digestOf(run, call),
    agentPath: [agent.name],
    expiresAt: new Date(clock.now() + settings.relayTtlMs).toISOString(),
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
