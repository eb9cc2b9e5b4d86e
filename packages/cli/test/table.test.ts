import { describe, expect, test } from 'vitest';
import { age, type Column, tableOf, when } from '../src/table.ts';

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
  { title: 'id', of: ({ id }) => id },
  { title: 'status', of: ({ status }) => status, status: true },
  { title: 'agent', of: ({ agent }) => agent, minor: true },
  { title: 'owner', of: ({ owner }) => owner },
  { title: 'at', of: ({ at }) => at, time: true },
  { title: 'text', of: ({ text }) => text },
];
const paint = (_: string, text: string) => text;
const table = (width: number | undefined) => tableOf(items, columns, { paint, width, now });

describe('a table', () => {
  test('has everything in a pipe, also columns that are empty and times to the second', () => {
    expect(table(undefined)).toEqual([
      'ID          STATUS     AGENT      OWNER  AT                    TEXT',
      'one         completed  assistant         2026-11-15 11:56:00Z  a',
      'twenty-two  failed     clerk             2026-11-12 12:00:00Z  a rather long text 你好 that goes on and on',
    ]);
  });

  test('tells ages on a terminal, leaves out what is empty, and cuts its last column', () => {
    expect(table(70)).toEqual([
      'ID          STATUS     AGENT      AT      TEXT',
      'one         completed  assistant  4m ago  a',
      'twenty-two  failed     clerk      3d ago  a rather long text 你好 tha…',
    ]);
  });

  test('leaves out what is minor where there is little room', () => {
    expect(table(50)).toEqual([
      'ID          STATUS     AT      TEXT',
      'one         completed  4m ago  a',
      'twenty-two  failed     3d ago  a rather long text…',
    ]);
  });

  test('stacks its items where no table fits', () => {
    expect(table(30)).toEqual([
      'one',
      '  completed  4m ago',
      '  a',
      'twenty-two',
      '  failed  3d ago',
      '  a rather long text 你好 tha…',
    ]);
  });

  test.each([120, 80, 60, 40, 30])('has no line that is wider than a terminal of %i', (width) => {
    const wide = columns.with(5, { title: 'text', of: () => '你好'.repeat(200) });
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
])('%s is %s', (time, told) => {
  expect(age(time, now)).toBe(told);
});

test('a time has no fractions of a second', () => {
  expect(when('2026-11-15T11:58:25.123Z')).toBe('2026-11-15 11:58:25Z');
  expect(when(undefined)).toBeUndefined();
});
