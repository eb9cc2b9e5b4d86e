import { type Message, type RunError, textOf } from '@relay/protocol';
import type { Guardrail, GuardrailVerdict } from '../../ports/index.ts';
import type { Activity } from '../activity.ts';
import type { AgentState } from '../state/agent.ts';
import { textOfError } from '../error-text.ts';
import type { LiveRun } from '../live-run.ts';

interface Look {
  readonly run: LiveRun;
  readonly agent: AgentState;
  readonly activity: Activity;
}

/** What an agent is to work on: all that was said to it in this run. */
export function checkInput(
  look: Look,
  messages: readonly Message[],
): Promise<RunError | undefined> {
  const said = messages.filter(({ role }) => role === 'user');
  return check(look, 'input', said.map(({ content }) => textOf(content)).join('\n\n'));
}

/** Of texts that were recalled, those that no guardrail on the agent's input refuses. */
export async function checkRecalled<Recalled extends { readonly text: string }>(
  look: Look,
  recalled: readonly Recalled[],
): Promise<Recalled[]> {
  const refusals = await Promise.all(recalled.map(({ text }) => check(look, 'input', text)));
  return recalled.filter((_, index) => refusals[index] === undefined);
}

export function guardsOutput(run: LiveRun, agent: AgentState): boolean {
  const definition = run.engine.agents(run.identity.tenantId).find(agent.name);
  return (definition?.guardrails?.output ?? []).length > 0;
}

export function checkOutput(look: Look, text: string): Promise<RunError | undefined> {
  return check(look, 'output', text);
}

/** The first guardrail that refuses ends it. */
async function check(
  look: Look,
  side: 'input' | 'output',
  text: string,
): Promise<RunError | undefined> {
  const { run, agent } = look;
  const definition = run.engine.agents(run.identity.tenantId).find(agent.name);
  for (const guardrail of definition?.guardrails?.[side] ?? []) {
    const verdict = await verdictOf(look, guardrail, text);
    if (verdict.ok) continue;
    const message = `The guardrail ${guardrail.name} refused the ${side}: ${verdict.reason}`;
    return { code: 'guardrail_tripped', message, retryable: false };
  }
  return undefined;
}

/** A guardrail that fails, or says neither yes nor no, guards nothing: it counts as a refusal. */
async function verdictOf(
  { run, agent, activity }: Look,
  guardrail: Guardrail,
  text: string,
): Promise<GuardrailVerdict> {
  try {
    const looking = guardrail.check(text, {
      runId: run.identity.id,
      agentId: agent.id,
      agent: agent.name,
      signal: activity.signal,
    });
    const verdict: unknown = await activity.unlessStopped(Promise.resolve(looking));
    return isVerdict(verdict) ? verdict : { ok: false, reason: 'It gave no verdict' };
  } catch (error) {
    return { ok: false, reason: `It failed: ${textOfError(error)}` };
  }
}

function isVerdict(value: unknown): value is GuardrailVerdict {
  return (
    typeof value === 'object' && value !== null && 'ok' in value && typeof value.ok === 'boolean'
  );
}
