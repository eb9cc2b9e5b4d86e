import type { Run } from '@relay/protocol/wire';
import { describe, expect, it } from 'vitest';
import {
  addressOf,
  filterOf,
  inputText,
  mergeFirstPage,
  queryOf,
  savedViews,
  timeOf,
} from '../../src/pages/runs/list/run-filter.ts';

const now = Date.parse('2026-03-04T15:00:00.000Z');

describe('filter of runs', () => {
  it('is the same after it was written to the address and read again', () => {
    for (const { filter } of savedViews) expect(filterOf(addressOf(filter))).toEqual(filter);
    const filter = {
      statuses: ['waiting', 'failed'],
      agent: 'support & billing',
      label: 'team:a:b',
      since: '7d',
      until: '2026-03-01T00:00:00.000Z',
      conversation: '01900000-0000-7000-8000-000000000001',
    } as const;
    expect(filterOf(new URLSearchParams(addressOf(filter).toString()))).toEqual(filter);
  });

  it('ignores what an address has that is no filter', () => {
    expect(filterOf(new URLSearchParams('status=odd,failed,&agent=&x=1'))).toEqual({
      statuses: ['failed'],
    });
  });

  it('asks the server for several statuses and resolves relative times', () => {
    const query = queryOf({ statuses: ['queued', 'running'], since: '24h', label: 'half' }, now);
    expect(query).toEqual({ status: ['queued', 'running'], since: '2026-03-03T15:00:00.000Z' });
    expect(Date.parse(timeOf('today', now) ?? '')).toBeGreaterThan(now - 86_400_000);
    expect(timeOf('soon', now)).toBeUndefined();
  });

  it('shows the last user message as one line', () => {
    expect(inputText({ input: ' two\n lines ' })).toBe('two lines');
    expect(
      inputText({
        input: [
          { role: 'user', content: 'first' },
          {
            role: 'user',
            content: [
              { type: 'text', text: 'see' },
              { type: 'image', url: 'x' },
            ],
          },
        ],
      }),
    ).toBe('see [image]');
    expect(inputText({ input: null, inputTruncated: true })).toBe('(long input)');
  });
});

describe('list of runs', () => {
  const run = (id: number, status = 'running') =>
    ({ id: `r${id}`, status, createdAt: `2026-01-01T00:00:0${id}.000Z` }) as Run;
  const ids = (runs: readonly Run[]) => runs.map(({ id, status }) => `${id} ${status}`);

  it('keeps older runs when its first page is read again', () => {
    const loaded = [run(4), run(3), run(2), run(1)];
    const first = [run(5), run(4, 'completed'), run(3)];
    expect(ids(mergeFirstPage(loaded, first, true))).toEqual([
      'r5 running',
      'r4 completed',
      'r3 running',
      'r2 running',
      'r1 running',
    ]);
  });

  it('drops a run that no longer matches', () => {
    const loaded = [run(4), run(3), run(2), run(1)];
    expect(ids(mergeFirstPage(loaded, [run(4), run(2)], true))).toEqual([
      'r4 running',
      'r2 running',
      'r1 running',
    ]);
    expect(mergeFirstPage(loaded, [], false)).toEqual([]);
  });
});
