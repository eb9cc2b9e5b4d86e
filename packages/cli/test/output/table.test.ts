import { describe, expect, test } from 'vitest';
import { age, type Column, formatCost, formatTime, tableOf } from '../../src/output/table.ts';

interface Item {
  readonly id: string;
  readonly status: string;
  readonly agent: string;
  readonly owner?: string;
  readonly at: string;
  readonly text: string;
}

const now = Date.parse('2026-11-15T12:00:00Z');
const items: readonly Item[] = [
  { id: 'one', status: 'completed', agent: 'assistant', at: '2026-11-15T11:56:00.123Z', text: 'a' },
  {
    id: 'twenty-two',
    status: 'failed',
    agent: 'clerk',
    at: '2026-11-12T12:00:00Z',
    text: 'a rather long text 你好 that goes on and on',
  },
];
const columns: readonly Column<Item>[] = [
  { title: 'id', value: ({ id }) => id },
  { title: 'status', value: ({ status }) => status, status: true },
  { title: 'agent', value: ({ agent }) => agent, minor: true },
  { title: 'owner', value: ({ owner }) => owner },
  { title: 'at', value: ({ at }) => at, time: true },
  { title: 'text', value: ({ text }) => text },
];
const paint = (_: string, text: string) => text;
const table = (width: number | undefined) => tableOf(items, columns, { paint, width, now });

describe('a table', () => {
  test('has all columns in a pipe, with full times', () => {
    expect(table(undefined)).toEqual([
      'ID          STATUS     AGENT      OWNER  AT                    TEXT',
      'one         completed  assistant         2026-11-15 11:56:00Z  a',
      'twenty-two  failed     clerk             2026-11-12 12:00:00Z  a rather long text 你好 that goes on and on',
    ]);
  });

  test('shows ages on a terminal, drops empty columns, and cuts the last one', () => {
    expect(table(70)).toEqual([
      'ID          STATUS     AGENT      AT      TEXT',
      'one         completed  assistant  4m ago  a',
      'twenty-two  failed     clerk      3d ago  a rather long text 你好 tha…',
    ]);
  });

  test('drops minor columns on a narrow terminal', () => {
    expect(table(50)).toEqual([
      'ID          STATUS     AT      TEXT',
      'one         completed  4m ago  a',
      'twenty-two  failed     3d ago  a rather long text…',
    ]);
  });

  test('stacks items where no table fits', () => {
    expect(table(30)).toEqual([
      'one',
      '  completed  4m ago',
      '  a',
      'twenty-two',
      '  failed  3d ago',
      '  a rather long text 你好 tha…',
    ]);
  });

  test.each([120, 80, 60, 40, 30])('has no line wider than a terminal of %i columns', (width) => {
    const wide = columns.with(5, { title: 'text', value: () => '你好'.repeat(200) });
    for (const line of tableOf(items, wide, { paint, width, now })) {
      // Each of these letters takes two columns.
      const taken = line.length + (line.match(/[你好]/g)?.length ?? 0);
      expect(taken).toBeLessThanOrEqual(width);
    }
  });
});

test.each([
  ['2026-11-15T12:00:00.400Z', 'now'],
  ['2026-11-15T11:59:15Z', '45s ago'],
  ['2026-11-15T11:58:31Z', '1m ago'],
  ['2026-11-15T09:10:00Z', '3h ago'],
  ['2026-11-01T12:00:00Z', '14d ago'],
  ['2026-12-15T12:00:00Z', 'in 30d'],
])('%s is shown as %s', (time, expected) => {
  expect(age(time, now)).toBe(expected);
});

test.each([
  [86_399, 'in 1d'],
  [86_400, 'in 1d'],
  [12 * 3_600, 'in 12h'],
  [3_599, 'in 1h'],
  [59, 'in 59s'],
])('%i seconds are %s', (seconds, text) => {
  expect(age(new Date(seconds * 1_000).toISOString(), 0)).toBe(text);
});

test('a time has no fractions of a second', () => {
  expect(formatTime('2026-11-15T11:58:25.123Z')).toBe('2026-11-15 11:58:25Z');
  expect(formatTime(undefined)).toBeUndefined();
});

test('a cost has no rounding errors', () => {
  expect(formatCost(0.1 + 0.2)).toBe('$0.3');
  expect(formatCost(0.0012)).toBe('$0.0012');
});
