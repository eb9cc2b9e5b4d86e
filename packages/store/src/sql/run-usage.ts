/** What a run has used, in its row. Most providers say more than two numbers, but not the same. */
import type { Usage } from '@relay/protocol';
import type { Row } from '../drivers/driver.ts';
import { integer, jsonOrNull, realOrNull } from './stored.ts';

type Details = Omit<Usage, 'inputTokens' | 'outputTokens' | 'costUsd'>;

/** `null` where there is nothing to say. */
export function encodeUsageDetails(usage: Usage): string | null {
  const { inputTokens: _, outputTokens: __, costUsd: ___, ...details } = usage;
  return Object.keys(details).length === 0 ? null : JSON.stringify(details);
}

/** There is no cost where a model had no price. */
export function decodeUsage(row: Row): Usage {
  const costUsd = realOrNull(row, 'cost_usd');
  return {
    inputTokens: integer(row, 'input_tokens'),
    outputTokens: integer(row, 'output_tokens'),
    ...(jsonOrNull(row, 'usage_details') as Details | null),
    ...(costUsd === null ? {} : { costUsd }),
  };
}
