import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addUsage,
  checkpointEnvelopeSchema,
  checkpointKinds,
  endedStatuses,
  isEnded,
  noUsage,
  runStatuses,
  usageSchema,
  wireUsage,
} from '../../src/schemas/runs.ts';

describe('a run’s status', () => {
  it('is one of six words', () => {
    expect(runStatuses).toEqual([
      'queued',
      'running',
      'waiting',
      'completed',
      'failed',
      'canceled',
    ]);
  });

  it('is an end for three of them', () => {
    expect(runStatuses.filter(isEnded)).toEqual([...endedStatuses]);
    expect(endedStatuses).toEqual(['completed', 'failed', 'canceled']);
  });
});

describe('usage', () => {
  const usages = fc.record({ inputTokens: fc.nat(1e9), outputTokens: fc.nat(1e9) });

  it('adds up what providers count apart, and says nothing of what none of them counted', () => {
    const [a, b] = [
      { ...noUsage, cachedInputTokens: 3 },
      { ...noUsage, cachedInputTokens: 4, reasoningTokens: 5 },
    ];
    expect(addUsage(a, b)).toStrictEqual({ ...noUsage, cachedInputTokens: 7, reasoningTokens: 5 });
    expect(addUsage(noUsage, noUsage)).toStrictEqual(noUsage);
  });

  it('is written with underscores on the surface `runs`, the details where there are any', () => {
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

  it('adds up in any order, and nothing added changes nothing', () => {
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

  it('adds up in any order and in any groups, whatever of it has a cost', () => {
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

  it('has a cost as long as everything in it has one, and never again after that', () => {
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

  it('can have cost nothing, which is not the same as an unknown cost', () => {
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
  ])('is never %j', (usage) => {
    expect(usageSchema.safeParse(usage).success).toBe(false);
  });
});

describe('the checkpoint envelope', () => {
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

  it('holds a version, a state as text and where it was taken', () => {
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
  ])('is refused with %s', (_what, value) => {
    expect(checkpointEnvelopeSchema.safeParse(value).success).toBe(false);
  });
});
