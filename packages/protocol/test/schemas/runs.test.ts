import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addUsage,
  checkpointEnvelopeSchema,
  checkpointKinds,
  endedStatuses,
  isEnded,
  limitNames,
  limitsSchema,
  noUsage,
  runStatuses,
  usageSchema,
  wireUsage,
} from '../../src/schemas/runs.ts';

describe('run status', () => {
  it('has six values', () => {
    expect(runStatuses).toEqual([
      'queued',
      'running',
      'waiting',
      'completed',
      'failed',
      'canceled',
    ]);
  });

  it('is terminal for three of them', () => {
    expect(runStatuses.filter(isEnded)).toEqual([...endedStatuses]);
    expect(endedStatuses).toEqual(['completed', 'failed', 'canceled']);
  });
});

describe('usage', () => {
  const usages = fc.record({ inputTokens: fc.nat(1e9), outputTokens: fc.nat(1e9) });

  it('adds up the token details that were reported, and omits the others', () => {
    const [a, b] = [
      { ...noUsage, cachedInputTokens: 3 },
      { ...noUsage, cachedInputTokens: 4, reasoningTokens: 5 },
    ];
    expect(addUsage(a, b)).toStrictEqual({ ...noUsage, cachedInputTokens: 7, reasoningTokens: 5 });
    expect(addUsage(noUsage, noUsage)).toStrictEqual(noUsage);
  });

  it('is written in snake case on the surface `runs`', () => {
    expect(wireUsage({ inputTokens: 1, outputTokens: 2 })).toStrictEqual({
      input_tokens: 1,
      output_tokens: 2,
    });
    const details = { cachedInputTokens: 3, cacheWriteTokens: 4, reasoningTokens: 5 };
    expect(wireUsage({ inputTokens: 1, outputTokens: 2, ...details })).toStrictEqual({
      input_tokens: 1,
      output_tokens: 2,
      cached_input_tokens: 3,
      cache_write_tokens: 4,
      reasoning_tokens: 5,
    });
  });

  it('adds up in any order, with no usage as the neutral element', () => {
    fc.assert(
      fc.property(usages, usages, usages, (a, b, c) => {
        expect(addUsage(a, b)).toEqual(addUsage(b, a));
        expect(addUsage(addUsage(a, b), c)).toEqual(addUsage(a, addUsage(b, c)));
        expect(addUsage(a, noUsage)).toEqual(a);
        expect(addUsage(a, b).inputTokens).toBe(a.inputTokens + b.inputTokens);
        expect(addUsage(a, b).outputTokens).toBe(a.outputTokens + b.outputTokens);
      }),
    );
  });

  /** Costs in whole dollars, so that no rounding stands between two ways to add them up. */
  const priced = fc.record(
    { inputTokens: fc.nat(1000), outputTokens: fc.nat(1000), costUsd: fc.nat(1000) },
    { requiredKeys: ['inputTokens', 'outputTokens'], noNullPrototype: true },
  );

  it('adds up in any order and grouping, with and without costs', () => {
    const anything = fc.oneof(priced, fc.constant(noUsage));
    fc.assert(
      fc.property(anything, anything, anything, (a, b, c) => {
        expect(addUsage(a, b)).toStrictEqual(addUsage(b, a));
        expect(addUsage(addUsage(a, b), c)).toStrictEqual(addUsage(a, addUsage(b, c)));
        expect(addUsage(a, noUsage)).toStrictEqual(a);
        expect(addUsage(noUsage, a)).toStrictEqual(a);
      }),
    );
  });

  it('has a cost only if all of its parts have one', () => {
    fc.assert(
      fc.property(fc.array(priced, { maxLength: 8 }), (parts) => {
        const used = parts.filter((part) => part.inputTokens + part.outputTokens > 0);
        const sum = parts.reduce(addUsage, noUsage);
        if (used.some((part) => part.costUsd === undefined)) {
          expect(sum).not.toHaveProperty('costUsd');
        } else if (used.length > 0) {
          expect(sum.costUsd).toBe(
            parts.reduce((dollars, part) => dollars + (part.costUsd ?? 0), 0),
          );
        }
      }),
    );
  });

  it('distinguishes a cost of zero from an unknown cost', () => {
    const free = { inputTokens: 5, outputTokens: 5, costUsd: 0 };
    expect(addUsage(free, free)).toStrictEqual({ inputTokens: 10, outputTokens: 10, costUsd: 0 });
    expect(addUsage(noUsage, noUsage)).toStrictEqual(noUsage);
    expect(usageSchema.parse(free)).toStrictEqual(free);
    expect(usageSchema.safeParse({ ...free, costUsd: -0.01 }).success).toBe(false);
  });

  it.each([
    { inputTokens: -1, outputTokens: 0 },
    { inputTokens: 0.5, outputTokens: 0 },
    { inputTokens: Number.NaN, outputTokens: 0 },
    { inputTokens: '1', outputTokens: 0 },
    { inputTokens: 1 },
  ])('rejects %j', (usage) => {
    expect(usageSchema.safeParse(usage).success).toBe(false);
  });
});

describe('checkpoint envelope', () => {
  const runId = '01963a5c-7891-7abc-8ef0-123456789abc';
  const envelope = {
    version: 1,
    serializedRunState: '{}',
    checkpoint: {
      kind: 'tool_completion',
      at: '2026-03-01T10:00:00.000Z',
      runId,
      correlationId: 'req-7',
      tool: { name: 'bash', toolCallId: 'call_1' },
      note: 'so far',
    },
  };

  it('has the four documented kinds', () => {
    expect(new Set(checkpointKinds)).toEqual(
      new Set(['tool_completion', 'approval_pending', 'resume_request', 'final_result']),
    );
  });

  it('holds a version, the serialized state and its checkpoint', () => {
    expect(checkpointEnvelopeSchema.parse(envelope)).toEqual(envelope);
    const { tool: _, note: __, ...least } = envelope.checkpoint;
    expect(checkpointEnvelopeSchema.safeParse({ ...envelope, checkpoint: least }).success).toBe(
      true,
    );
  });

  it.each([
    ['another version', { ...envelope, version: 2 }],
    ['a version as text', { ...envelope, version: '1' }],
    ['a state that is not text', { ...envelope, serializedRunState: {} }],
    ['no checkpoint', { version: 1, serializedRunState: '{}' }],
    ['an unknown kind', { ...envelope, checkpoint: { ...envelope.checkpoint, kind: 'later' } }],
    ['no run', { ...envelope, checkpoint: { ...envelope.checkpoint, runId: 'x' } }],
  ])('is rejected with %s', (_what, value) => {
    expect(checkpointEnvelopeSchema.safeParse(value).success).toBe(false);
  });
});

const most = {
  tokens: 1,
  costUsd: 0.000_001,
  toolCalls: 0,
  timeMs: 1,
  depth: 20,
  subAgents: 1000,
};

describe('run limits', () => {
  it('are all optional', () => {
    expect(limitsSchema.parse({})).toStrictEqual({});
    expect(limitsSchema.parse(most)).toStrictEqual(most);
  });

  it('can be 0 for tool calls and sub-agents, but not for tokens, cost and time', () => {
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
  ])('reject %j', (limits) => {
    expect(limitsSchema.safeParse(limits).success).toBe(false);
  });

  it.each([{ token: 5 }, { iterations: 3 }, { time: 5 }, { cost: 1 }, { maxIterations: 3 }])(
    'reject the unknown limit %j instead of ignoring it',
    (limits) => {
      const parsed = limitsSchema.safeParse(limits);
      expect(parsed.error?.issues.map(({ code }) => code)).toEqual(['unrecognized_keys']);
    },
  );

  it('have a name each, and one for iterations', () => {
    const nameOf = { costUsd: 'cost', timeMs: 'time' } as Record<string, string>;
    const names = Object.keys(limitsSchema.shape).map((bound) => nameOf[bound] ?? bound);
    expect(new Set(limitNames)).toEqual(new Set(['iterations', ...names]));
    expect(new Set(limitNames).size).toBe(limitNames.length);
  });
});
