import type { Usage } from '@relay/protocol';
import type { LiveRun } from '../live-run.ts';

const million = 1_000_000;

/** With what it cost, if the model has a price. */
export function priced(run: LiveRun, model: string, usage: Usage): Usage {
  if (usage.costUsd !== undefined) return usage;
  const price = run.engine.models(run.identity.tenantId).price?.(model);
  if (price === undefined) return usage;
  const { inputTokens, outputTokens, cachedInputTokens = 0, cacheWriteTokens = 0 } = usage;
  const { inputPerMillion, outputPerMillion } = price;
  const { cachedInputPerMillion = inputPerMillion, cacheWritePerMillion = inputPerMillion } = price;
  const plain = Math.max(0, inputTokens - cachedInputTokens - cacheWriteTokens);
  const input =
    plain * inputPerMillion +
    cachedInputTokens * cachedInputPerMillion +
    cacheWriteTokens * cacheWritePerMillion;
  return { ...usage, costUsd: (input + outputTokens * outputPerMillion) / million };
}
