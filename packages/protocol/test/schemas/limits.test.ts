import { describe, expect, it } from 'vitest';
import { limitNames, limitsSchema } from '../../src/schemas/limits.ts';

const most = {
  tokens: 1,
  costUsd: 0.000_001,
  toolCalls: 0,
  timeMs: 1,
  depth: 20,
  subAgents: 1000,
};

describe('the limits of a run', () => {
  it('may all be left out, or all be given', () => {
    expect(limitsSchema.parse({})).toStrictEqual({});
    expect(limitsSchema.parse(most)).toStrictEqual(most);
  });

  it('may forbid tools and sub-agents altogether, but not the run itself', () => {
    for (const none of [{ toolCalls: 0 }, { depth: 0 }, { subAgents: 0 }]) {
      expect(limitsSchema.safeParse(none).success, JSON.stringify(none)).toBe(true);
    }
    for (const none of [{ tokens: 0 }, { costUsd: 0 }, { timeMs: 0 }]) {
      expect(limitsSchema.safeParse(none).success, JSON.stringify(none)).toBe(false);
    }
  });

  it.each([
    { tokens: -1 },
    { tokens: 1.5 },
    { tokens: '1000' },
    { tokens: null },
    { costUsd: -1 },
    { costUsd: Number.NaN },
    { costUsd: Infinity },
    { toolCalls: -1 },
    { timeMs: 0.5 },
    { depth: 21 },
    { depth: -1 },
    { subAgents: 1001 },
  ])('are never %j', (limits) => {
    expect(limitsSchema.safeParse(limits).success).toBe(false);
  });

  it.each([{ token: 5 }, { iterations: 3 }, { time: 5 }, { cost: 1 }, { maxIterations: 3 }])(
    'are refused as %j rather than ignored: an unknown bound would be none',
    (limits) => {
      const parsed = limitsSchema.safeParse(limits);
      expect(parsed.error?.issues.map(({ code }) => code)).toEqual(['unrecognized_keys']);
    },
  );

  it('have a name to be told by for each bound, and one for the turns of an agent', () => {
    const nameOf = { costUsd: 'cost', timeMs: 'time' } as Record<string, string>;
    const told = Object.keys(limitsSchema.shape).map((bound) => nameOf[bound] ?? bound);
    expect(new Set(limitNames)).toEqual(new Set(['iterations', ...told]));
    expect(new Set(limitNames).size).toBe(limitNames.length);
  });
});
