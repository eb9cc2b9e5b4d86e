import { type Message, type RunError, textOf } from '@relay/protocol';
import type { Guardrail, GuardrailVerdict } from '../../ports/index.ts';
import type { Activity } from '../activity.ts';
import type { AgentState } from '../state/agent.ts';
import { errorText, isStoreFault } from '../errors.ts';
import type { LiveRun } from '../live-run.ts';

/** Checks the user messages that an agent works on. */
export function checkInput(
  run: LiveRun,
  agent: AgentState,
  activity: Activity,
  messages: readonly Message[],
): Promise<RunError | undefined> {
  const texts = messages
    .filter(({ role }) => role === 'user')
    .map(({ content }) => textOf(content));
  return check(run, agent, activity, 'input', texts.join('\n\n'));
}

/** The recalled memories that no input guardrail of the agent refuses. */
export async function checkRecalled<Recalled extends { readonly text: string }>(
  run: LiveRun,
  agent: AgentState,
  activity: Activity,
  recalled: readonly Recalled[],
): Promise<Recalled[]> {
  const refusals = await Promise.all(
    recalled.map(({ text }) => check(run, agent, activity, 'input', text)),
  );
  return recalled.filter((_, index) => refusals[index] === undefined);
}

export function hasOutputGuardrails(run: LiveRun, agent: AgentState): boolean {
  return guardrailsOf(run, agent, 'output').length > 0;
}

export function checkOutput(
  run: LiveRun,
  agent: AgentState,
  activity: Activity,
  text: string,
): Promise<RunError | undefined> {
  return check(run, agent, activity, 'output', text);
}

function guardrailsOf(
  run: LiveRun,
  agent: AgentState,
  side: 'input' | 'output',
): readonly Guardrail[] {
  const definition = run.engine.agents(run.identity.tenantId).find(agent.name);
  return definition?.guardrails?.[side] ?? [];
}

/** The error of the first guardrail that refuses the text. */
async function check(
  run: LiveRun,
  agent: AgentState,
  activity: Activity,
  side: 'input' | 'output',
  text: string,
): Promise<RunError | undefined> {
  for (const guardrail of guardrailsOf(run, agent, side)) {
    const verdict = await verdictOf(run, agent, activity, guardrail, text);
    if (verdict.ok) continue;
    const { name } = guardrail;
    const { reason } = verdict;
    const message = `The guardrail ${name} refused the ${side}: ${reason}`;
    return {
      code: 'guardrail_tripped',
      message,
      retryable: false,
      guardrail: { name, side, reason },
    };
  }
  return undefined;
}

/** A guardrail that throws or returns no verdict counts as a refusal. */
async function verdictOf(
  run: LiveRun,
  agent: AgentState,
  activity: Activity,
  guardrail: Guardrail,
  text: string,
): Promise<GuardrailVerdict> {
  try {
    const pending = guardrail.check(text, {
      runId: run.identity.id,
      agentId: agent.id,
      agent: agent.name,
      signal: activity.signal,
    });
    const verdict: unknown = await activity.unlessStopped(Promise.resolve(pending));
    return isVerdict(verdict) ? verdict : { ok: false, reason: 'no verdict was returned' };
  } catch (error) {
    if (isStoreFault(error)) throw error;
    return { ok: false, reason: `the check failed: ${errorText(error)}` };
  }
}

function isVerdict(value: unknown): value is GuardrailVerdict {
  if (typeof value !== 'object' || value === null || !('ok' in value)) return false;
  return value.ok === true || ('reason' in value && typeof value.reason === 'string');
}
