/**
 * The limits of a run. An agent that reaches one gets a final turn, without tools, to answer with
 * what it has; then it ends with the reason `limit`. Limits of the run hold for all its agents.
 */
import type { LimitName, Limits, Message, Usage } from '@relay/protocol';
import type { LiveRun } from '../live-run.ts';
import { type AgentState, openCalls } from '../state/agent.ts';
import type { RunState } from '../state/state.ts';

const defaultDepth = 5;
const defaultSubAgents = 50;

export function depthLimit(limits: Limits): number {
  return limits.depth ?? defaultDepth;
}

export function subAgentLimit(limits: Limits): number {
  return limits.subAgents ?? defaultSubAgents;
}

/** The limit that an agent has reached before its next turn. */
export function limitBeforeTurn(
  state: RunState,
  agent: AgentState,
  maxIterations: number,
): LimitName | undefined {
  if (agent.iterations >= (agent.spawned?.maxIterations ?? maxIterations)) return 'iterations';
  return exhaustedLimit(state);
}

/** The limit that the run as a whole has reached. */
export function exhaustedLimit({ limits, usage }: RunState): LimitName | undefined {
  const { tokens, costUsd } = limits;
  if (tokens !== undefined && usage.inputTokens + usage.outputTokens >= tokens) return 'tokens';
  if (costUsd !== undefined && costOf(usage) >= costUsd) return 'cost';
  return undefined;
}

/** Usage without a price exceeds every cost limit. */
function costOf({ inputTokens, outputTokens, costUsd }: Usage): number {
  return costUsd ?? (inputTokens + outputTokens === 0 ? 0 : Infinity);
}

/** Why a run whose cost is limited, by itself or by a budget, cannot use a model, and what helps. */
export function missingPrice(model: string, limitedBy: 'limit' | 'budget' = 'limit'): string {
  const limit =
    limitedBy === 'limit'
      ? { has: 'The run has a cost limit', or: 'leave out the limit' }
      : { has: 'A budget in US dollars holds for the run', or: 'set the budget in tokens' };
  return (
    `${limit.has}, but the model ${model} has no price: set one under \`prices\` in ` +
    `relay.config.ts or with \`relay models update\`, or ${limit.or}`
  );
}

/** The usage with its cost, if the model has a price. */
export function priced(run: LiveRun, model: string, usage: Usage): Usage {
  if (usage.costUsd !== undefined) return usage;
  const price = run.engine.models(run.identity.tenantId).price?.(model);
  if (price === undefined) return usage;
  const { inputTokens, outputTokens, cachedInputTokens = 0, cacheWriteTokens = 0 } = usage;
  const { inputPerMillion, outputPerMillion } = price;
  const { cachedInputPerMillion = inputPerMillion, cacheWritePerMillion = inputPerMillion } = price;
  const uncached = Math.max(0, inputTokens - cachedInputTokens - cacheWriteTokens);
  const cost =
    uncached * inputPerMillion +
    cachedInputTokens * cachedInputPerMillion +
    cacheWriteTokens * cacheWritePerMillion +
    outputTokens * outputPerMillion;
  return { ...usage, costUsd: cost / 1_000_000 };
}

/** How many more calls may pass the gate. Calls that wait for an approval count. */
export function callsLeft(state: RunState): number {
  const { toolCalls } = state.limits;
  if (toolCalls === undefined) return Infinity;
  const admitted = Object.values(state.agents)
    .flatMap(openCalls)
    // Started calls are counted by `toolsStarted`.
    .filter((call) => call.idempotencyKey === undefined)
    .filter((call) => call.phase === 'asking' || call.phase === 'decided');
  return toolCalls - state.toolsStarted - admitted.length;
}

/** The end of the run's time limit. */
export function deadlineOf(state: RunState): number | undefined {
  const { timeMs } = state.limits;
  if (timeMs === undefined || state.startedAt === null) return undefined;
  return Date.parse(state.startedAt) + timeMs;
}

export function isTimeLimitReached(state: RunState, now: number): boolean {
  const deadline = deadlineOf(state);
  return deadline !== undefined && now >= deadline;
}

const limitTexts: Record<LimitName, string> = {
  iterations: 'The turn limit was reached',
  tokens: 'The token limit was reached',
  cost: 'The cost limit was reached',
  toolCalls: 'The tool call limit was reached',
  time: 'The time limit was reached',
  depth: 'The sub-agent depth limit was reached',
  subAgents: 'The sub-agent limit was reached',
};

export function limitText(limit: LimitName): string {
  return limitTexts[limit];
}

export function finalTurnInstruction(limit: LimitName): Message {
  return {
    role: 'system',
    content:
      `${limitTexts[limit]} and no tool can be called any more. ` +
      'Answer now with what you have, and say what is missing.',
  };
}
