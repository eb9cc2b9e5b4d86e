/** The times that the overview shows, as the address of the page has them. */
import type { StatsQuery } from '@relay/protocol/wire';

export interface Range {
  /** Also understood as `since` by the list of runs. */
  readonly name: string;
  readonly label: string;
  readonly words: string;
  readonly ms: number;
  readonly bucket: NonNullable<StatsQuery['bucket']>;
}

const hour = 3_600_000;

const day: Range = {
  name: '24h',
  label: '24 h',
  words: 'the last 24 hours',
  ms: 24 * hour,
  bucket: 'hour',
};

export const ranges: readonly Range[] = [
  { name: '1h', label: '1 h', words: 'the last hour', ms: hour, bucket: 'minute' },
  day,
  { name: '7d', label: '7 d', words: 'the last 7 days', ms: 7 * 24 * hour, bucket: 'hour' },
  { name: '30d', label: '30 d', words: 'the last 30 days', ms: 30 * 24 * hour, bucket: 'day' },
];

export function rangeOf(name: string | null): Range {
  return ranges.find((range) => range.name === name) ?? day;
}

export function queryOf({ ms, bucket }: Range, now: number): StatsQuery {
  return { since: new Date(now - ms).toISOString(), bucket };
}
