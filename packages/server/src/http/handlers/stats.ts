/** `/v1/stats`. */
import { type ActivityStats, type StatsRange, suggestRules } from '@relay/core';
import { type QueryOf, RelayError, type StatsBucket } from '@relay/protocol';
import { type Handler, storeOf } from './handler.ts';
import { iso } from '../views/pagination.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

const lengths: Readonly<Record<StatsBucket, number>> = { minute, hour, day };
/** Before `until`, without `since`. */
const defaultRanges: Readonly<Record<StatsBucket, number>> = {
  minute: hour,
  hour: day,
  day: 30 * day,
};
const mostBuckets = 400;

export const getStats: Handler<'getStats'> = async (call) => {
  const { engine } = call.context.control;
  const { bucket } = call.query;
  const range = rangeOf(call.query, engine.clock.now());
  const store = storeOf(call);
  const stats = await store.readStats(range);
  const rules = await suggestRules(engine, store, range, stats.tools);
  return {
    since: iso(range.since),
    until: iso(range.until),
    bucket,
    buckets: Array.from({ length: countOf(range) }, (_, index) => ({
      at: iso(range.since + index * range.bucketMs),
      ...(stats.buckets.get(index) ?? nothing),
    })),
    totals: stats.totals,
    tools: stats.tools.map((each) => ({ ...each, suggestedRule: rules.get(each.tool) })),
    failures: stats.failures.map((each) => ({ ...each, lastAt: iso(each.lastAt) })),
    agents: [...stats.agents],
    models: [...stats.models],
  };
};

function rangeOf(query: QueryOf<'getStats'>, now: number): StatsRange {
  const { bucket } = query;
  const bucketMs = lengths[bucket];
  const until = query.until === undefined ? now : Date.parse(query.until);
  const from = query.since === undefined ? until - defaultRanges[bucket] : Date.parse(query.since);
  const since = Math.floor(from / bucketMs) * bucketMs;
  const range = { since, until, bucketMs };
  if (from >= until) throw invalid('since', 'must be before until');
  if (countOf(range) > mostBuckets) {
    const next = bucket === 'minute' ? 'bucket=hour' : 'bucket=day';
    const advice = bucket === 'day' ? 'a later since' : `a later since, or ${next}`;
    const message = `the range has ${countOf(range)} buckets of a ${bucket}, and at most ${mostBuckets} are possible: set ${advice}`;
    throw invalid('since', message);
  }
  return range;
}

function invalid(path: string, message: string): RelayError {
  return new RelayError('invalid_request', `${path}: ${message}`, { details: [{ path, message }] });
}

function countOf({ since, until, bucketMs }: StatsRange): number {
  return Math.ceil((until - since) / bucketMs);
}

const nothing: ActivityStats = {
  runs: { started: 0, completed: 0, failed: 0, canceled: 0 },
  tokens: { input: 0, output: 0 },
  costUsd: 0,
  approvals: { requested: 0, approved: 0, denied: 0, expired: 0 },
  firstTokenMs: null,
  approvalWaitMs: null,
};
