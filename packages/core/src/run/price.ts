import type { Usage } from '@relay/protocol';
import type { LiveRun } from './live-run.ts';

const million = 1_000_000;

/** With what it cost, if the model has a price. */
export function priced(run: LiveRun, model: string, usage: Usage): Usage {
  if (usage.costUsd !== undefined) return usage;
  const price = run.engine.models(run.identity.tenantId).price?.(model);
  if (price === undefined) return usage;
  const { inputTokens, outputTokens } = usage;
  const { inputPerMillion, outputPerMillion } = price;
  const costUsd = (inputTokens * inputPerMillion + outputTokens * outputPerMillion) / million;
  return { ...usage, costUsd };
}
