import type { RelayClient } from '@relay/sdk';
import { expect, test } from 'vitest';
import type { Context } from '../../src/command.ts';
import { Print } from '../../src/output/print.ts';
import { AllRuns } from '../../src/watch/all-runs.ts';
import { fakeEnvironment } from '../support/environment.ts';

/** A client with runs that have two events each, and a feed that says what it is given. */
function clientOf(feed: readonly object[], open: readonly string[]) {
  const reads: string[] = [];
  const lists: object[] = [];
  const createdAt = new Date(Date.now() + 3_600_000).toISOString();
  const runOf = (id: string) => ({ id, agent: 'a', labels: {}, lastSeq: 0, createdAt });
  const client = {
    async *feed() {
      yield* feed;
    },
    runs: {
      list(query: object) {
        lists.push(query);
        const all = 'since' in query ? ['new'] : open;
        return {
          page: async () => ({ items: all.slice(0, 1).map(runOf) }),
          async *[Symbol.asyncIterator]() {
            yield* all.map(runOf);
          },
        };
      },
      get: async (id: string) => runOf(id),
      async *events(id: string, { after }: { after: number }) {
        reads.push(`${id} after ${after}`);
        const at = createdAt;
        const events = [
          { seq: 1, at, type: 'text', text: 'x' },
          { seq: 2, at, type: 'run.ended', status: 'completed', usage: {} },
        ];
        yield* events.filter(({ seq }) => seq > after);
      },
    },
  };
  return { client: client as unknown as RelayClient, reads, lists, createdAt };
}

test('all open runs are followed, and those that have ended are not read again', async () => {
  const connected = { kind: 'connected' };
  const feed = [connected, { kind: 'run', id: 'two' }, { kind: 'run', id: 'new' }, connected];
  const { client, reads, lists, createdAt } = clientOf(
    [...feed, { kind: 'run', id: 'new' }, connected],
    ['one', 'two'],
  );
  const environment = fakeEnvironment();
  const print = new Print(environment, true);
  const watched = new AllRuns({ print } as Context, client, {});
  await watched.run(new AbortController().signal);
  expect(reads).toEqual(['two after 0', 'new after 0', 'one after 0']);
  expect(environment.out().match(/run\.ended/g)).toHaveLength(3);
  // From the newest run on, not from the start.
  const since = new Date(Date.parse(createdAt) - 60_000).toISOString();
  expect(lists.slice(1)).toEqual([
    { since, limit: 200 },
    { since, limit: 200 },
  ]);
});
