import type { Usage } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import type { Price } from '../../../src/ports/index.ts';
import type { LiveRun } from '../../../src/run/live-run.ts';
import { priced } from '../../../src/run/agents/limits.ts';

const usage: Usage = { inputTokens: 2_000_000, outputTokens: 500_000 };

function runOf(prices?: Record<string, Price>): LiveRun {
  const price = prices === undefined ? {} : { price: (name: string) => prices[name] };
  const run = {
    identity: { tenantId: 'ours' },
    engine: {
      models: (tenantId: string) => (tenantId === 'ours' ? { list: () => [], ...price } : {}),
    },
  };
  return run as unknown as LiveRun;
}

describe('what a model call has cost', () => {
  const run = runOf({
    big: { inputPerMillion: 3, outputPerMillion: 15 },
    free: { inputPerMillion: 0, outputPerMillion: 0 },
  });

  it('is the price of what went in and of what came out', () => {
    expect(priced(run, 'big', usage)).toStrictEqual({ ...usage, costUsd: 13.5 });
    expect(priced(run, 'big', { inputTokens: 0, outputTokens: 0 }).costUsd).toBe(0);
  });

  it('is less for input from a cache and more for what was written there, if prices say so', () => {
    const used = { ...usage, cachedInputTokens: 1_000_000, cacheWriteTokens: 500_000 };
    const cached = { inputPerMillion: 4, outputPerMillion: 2, cachedInputPerMillion: 1 };
    const run = runOf({ cached, both: { ...cached, cacheWritePerMillion: 6 } });
    expect(priced(run, 'cached', used).costUsd).toBeCloseTo(1 + 2 + 2 + 1);
    expect(priced(run, 'both', used).costUsd).toBeCloseTo(1 + 3 + 2 + 1);
    expect(priced(run, 'both', { ...used, inputTokens: 0 }).costUsd).toBeCloseTo(1 + 3 + 1);
  });

  it('can be zero', () => {
    expect(priced(run, 'free', usage).costUsd).toBe(0);
  });

  it('is unknown for a model without a price', () => {
    expect(priced(run, 'other', usage)).toStrictEqual(usage);
    expect(priced(runOf(), 'big', usage)).toStrictEqual(usage);
  });

  it('is that of the provider, if it reports one', () => {
    const told = { ...usage, costUsd: 0.01 };
    expect(priced(run, 'big', told)).toStrictEqual(told);
    expect(priced(run, 'other', told)).toStrictEqual(told);
  });
});
