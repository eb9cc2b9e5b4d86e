/** Tokens, cost and time in words. */
import type { Run } from '@relay/sdk';
import type { ConversationUsage } from './client.ts';

interface Tokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** It used tokens of an unknown cost. */
export function isUnpriced({ usage, costUsd }: Pick<Run, 'usage' | 'costUsd'>): boolean {
  return costUsd === undefined && usage.input_tokens + usage.output_tokens > 0;
}

/** Of a conversation. */
export function usageText(usage: ConversationUsage): string {
  const { runs, costUsd, unpricedRuns } = usage;
  if (runs === 0) return 'No tokens yet.';
  const parts = [runs === 1 ? '1 run' : `${runs} runs`, tokensText(usage)];
  if (costUsd !== undefined) parts.push(shortCost(costUsd));
  if (costUsd === undefined) parts.push('cost unknown');
  else if (unpricedRuns > 0) parts.push(`cost of ${unpricedRuns} unknown`);
  return parts.join(' · ');
}

/** Of one answer: what is known of it. */
export function answerText(
  tokens: Tokens,
  costUsd: number | undefined,
  ms: number | undefined,
): string {
  const cost = costUsd === undefined ? [] : [shortCost(costUsd)];
  const time = ms === undefined ? [] : [ms < 100 ? '<0.1 s' : `${(ms / 1_000).toFixed(1)} s`];
  return [tokensText(tokens), ...cost, ...time].join(' · ');
}

function tokensText({ inputTokens, outputTokens }: Tokens): string {
  const number = (value: number) => value.toLocaleString('en-US');
  return `${number(inputTokens)} tokens in, ${number(outputTokens)} out`;
}

/** Whole cents, or for less than a cent what is significant. */
function shortCost(dollars: number): string {
  return dollars >= 0.01 || dollars === 0
    ? `$${dollars.toFixed(2)}`
    : `$${Number(dollars.toFixed(6))}`;
}
