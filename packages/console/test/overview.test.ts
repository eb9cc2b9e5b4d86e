import type { Stats } from '@relay/protocol/wire';
import { describe, expect, it } from 'vitest';
import { queryOf, rangeOf, ranges } from '../src/pages/overview/ranges.ts';
import {
  approvalsSentence,
  costOf,
  costSentence,
  fastDecisionsOf,
  firstTokenSentence,
  isQuiet,
  runsSentence,
} from '../src/pages/overview/words.ts';

const nothing = {
  runs: { started: 0, completed: 0, failed: 0, canceled: 0 },
  tokens: { input: 0, output: 0 },
  costUsd: 0,
  approvals: { requested: 0, approved: 0, denied: 0, expired: 0 },
  firstTokenMs: null,
  approvalWaitMs: null,
} as const;

const quiet: Stats['totals'] = {
  ...nothing,
  unpricedRuns: 0,
  decisionsByPeople: 0,
  decisionsUnder3s: 0,
  openRuns: 0,
  pendingApprovals: 0,
};

function stats(totals: Partial<Stats['totals']>, buckets: Stats['buckets'] = []): Stats {
  return {
    since: '2026-11-01T00:00:00.000Z',
    until: '2026-11-02T00:00:00.000Z',
    bucket: 'hour',
    buckets,
    totals: { ...quiet, ...totals },
    tools: [],
    failures: [],
    agents: [],
    models: [],
  };
}

describe('The range of the overview', () => {
  it('is a day if the address names none, or an unknown one', () => {
    expect(rangeOf(null).name).toBe('24h');
    expect(rangeOf('99y').name).toBe('24h');
    expect(rangeOf('7d').name).toBe('7d');
  });

  it('never asks for more buckets than the server gives', () => {
    const lengths = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };
    for (const range of ranges) expect(range.ms / lengths[range.bucket]).toBeLessThan(400);
    const now = Date.parse('2026-11-02T12:34:56.000Z');
    expect(queryOf(rangeOf('1h'), now)).toEqual({
      since: '2026-11-02T11:34:56.000Z',
      bucket: 'minute',
    });
  });
});

describe('Decisions within three seconds', () => {
  it('are a warning above 30 % of at least ten decisions', () => {
    const of = (decisionsUnder3s: number, decisionsByPeople: number) =>
      fastDecisionsOf({ ...quiet, decisionsUnder3s, decisionsByPeople });
    expect(of(4, 10)).toMatchObject({ share: 0.4, isHigh: true });
    expect(of(3, 10)).toMatchObject({ share: 0.3, isHigh: false });
    expect(of(9, 9)).toMatchObject({ share: 1, isHigh: false });
    expect(of(0, 0)).toEqual({ isHigh: false, text: 'No decisions by people yet.' });
  });
});

describe('The statistics in words', () => {
  it('say when nothing happened, and that something is going on', () => {
    expect(isQuiet(quiet)).toBe(true);
    expect(isQuiet({ ...quiet, openRuns: 1 })).toBe(false);
    expect(isQuiet({ ...quiet, runs: { ...quiet.runs, failed: 1 } })).toBe(false);
    expect(runsSentence(stats({}), String)).toBe('No run has ended.');
    expect(approvalsSentence(stats({}))).toBe('Nothing was asked.');
  });

  it('name the outcomes of runs and the time with the most of them', () => {
    const bucket = (at: string, completed: number) => ({
      ...nothing,
      at,
      runs: { ...nothing.runs, completed },
    });
    const text = runsSentence(
      stats({ runs: { started: 9, completed: 7, failed: 1, canceled: 0 } }, [
        bucket('one', 2),
        bucket('two', 5),
      ]),
      (at) => `time ${at}`,
    );
    expect(text).toBe('8 runs ended: 7 completed, 1 failed. Most at time two: 5.');
  });

  it('say which costs are unknown instead of calling them zero', () => {
    expect(costSentence(stats({ unpricedRuns: 1 }))).toBe(
      'No known cost. The cost of 1 run is unknown.',
    );
    expect(costSentence(stats({ costUsd: 1.5 }))).toBe('$1.50 in all.');
    expect(costOf(stats({ unpricedRuns: 1 }).totals)).toBe('–');
    expect(costOf(stats({ unpricedRuns: 1, costUsd: 1.5 }).totals)).toBe('$1.50');
    expect(costOf(stats({}).totals)).toBe('$0');
  });

  it('give percentiles as a share of the runs', () => {
    expect(firstTokenSentence(stats({ firstTokenMs: { p50: 800, p95: 2_400 } }))).toBe(
      'Half of the runs answered within 800 ms, 95 % within 2.4 s.',
    );
  });
});
