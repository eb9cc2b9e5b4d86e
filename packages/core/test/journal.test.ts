import { noUsage, type RunEvent, type StoredEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JournalBroken, RunJournal } from '../src/journal.ts';
import type { Append, AppendOutcome, RunIdentity, TenantStore } from '../src/ports/index.ts';
import { answerOf } from '../src/run/state/agent.ts';
import { evolve, initialState, type RunState } from '../src/run/state/state.ts';

const run: RunIdentity = {
  id: '01963a5c-7891-7abc-8ef0-123456789abc',
  tenantId: 'tenant',
  conversationId: 'conversation',
  correlationId: 'req-7',
  surface: 'runs',
  agent: 'assistant',
  model: 'demo',
  labels: {},
  parentRunId: null,
  workflowId: null,
  keyId: null,
  owner: 'ada',
  createdAt: 0,
};
const root = { agentId: 'root' };
const start: RunEvent[] = [
  { type: 'run.started', progress: { partialOutput: '', toolsInvoked: [] } },
  { type: 'agent.started', ...root, name: 'assistant', model: 'demo' },
  { type: 'turn.started', ...root, turn: 1, textId: 't', reasoningId: 'r' },
];
const atStart = '2026-03-01T10:00:00.000Z';
/** A run in its first turn, at seq 3: whatever is said from here on is legal. */
const talking: RunState = start.reduce(
  (state, event) => evolve(state, { ...event, seq: state.seq + 1, at: atStart }),
  initialState,
);

function say(text: string): RunEvent {
  return { type: 'text.appended', ...root, textId: 't', text };
}

type Outcome = AppendOutcome | Error;

/** A store whose commits come to their end when the test says so. */
class SlowStore {
  readonly appends: Append[] = [];
  readonly #pending: ((outcome: Outcome) => void)[] = [];
  mostAtOnce = 0;

  append(append: Append): Promise<AppendOutcome> {
    this.appends.push(append);
    return new Promise((resolve, reject) => {
      this.#pending.push((outcome) =>
        outcome instanceof Error ? reject(outcome) : resolve(outcome),
      );
      this.mostAtOnce = Math.max(this.mostAtOnce, this.#pending.length);
    });
  }

  get pending(): number {
    return this.#pending.length;
  }

  /** Ends the oldest commit, and lets everything that waits for it go on. */
  async finish(outcome: Outcome = 'committed'): Promise<void> {
    this.#pending.shift()?.(outcome);
    await settle();
  }
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
}

function asTenantStore(store: Pick<TenantStore, 'append'>): TenantStore {
  return store as unknown as TenantStore;
}

function open(state: RunState = talking) {
  const store = new SlowStore();
  const published: StoredEvent[][] = [];
  const observed: StoredEvent[] = [];
  const clock = { time: 1_000, now: () => clock.time, sleep: async () => undefined };
  const journal = new RunJournal({
    run,
    epoch: 7,
    state,
    store: asTenantStore(store),
    clock,
    publisher: {
      publish: (runId, events) => {
        expect(runId).toBe(run.id);
        published.push([...events]);
      },
    },
    log: { error: () => undefined },
    observe: (events) => observed.push(...events),
  });
  return { journal, store, published, observed, clock };
}

/** Whether a promise has come to its end, and how. */
function watch(promise: Promise<void>): { outcome: unknown } {
  const watched: { outcome: unknown } = { outcome: 'pending' };
  promise.then(
    () => (watched.outcome = 'stored'),
    (error: unknown) => (watched.outcome = error),
  );
  return watched;
}

function texts(events: readonly RunEvent[]): string[] {
  return events.map((event) => (event.type === 'text.appended' ? event.text : event.type));
}

describe('an idle journal', () => {
  it('commits at once, with no timer between', () => {
    const { journal, store } = open();
    journal.append([say('a')]);
    expect(store.appends.map(({ events }) => texts(events))).toEqual([['a']]);
  });

  it('writes nothing if there is nothing to write', async () => {
    const { journal, store } = open();
    await journal.settled();
    expect(store.appends).toEqual([]);
  });

  it('writes nothing after nothing was staged', async () => {
    const { journal, store } = open();
    journal.stage([]);
    const outcome = watch(journal.settled());
    await settle();
    expect(store.appends).toEqual([]);
    expect(outcome).toEqual({ outcome: 'stored' });
  });
});

describe('a journal that commits', () => {
  it('gathers what arrives meanwhile into one next batch', async () => {
    const { journal, store } = open();
    for (const word of ['a', 'b', 'c']) journal.append([say(word)]);
    expect(store.appends).toHaveLength(1);
    expect(journal.backlog).toBe(2);
    await store.finish();
    expect(store.appends.map(({ events }) => texts(events))).toEqual([['a'], ['b', 'c']]);
    expect(journal.backlog).toBe(0);
    await store.finish();
    expect(store.appends).toHaveLength(2);
    journal.append([say('d')]);
    expect(store.appends).toHaveLength(3);
  });

  it('publishes what is stored, and only then (E1)', async () => {
    const { journal, store, published } = open();
    journal.append([say('a')]);
    journal.append([say('b')]);
    await settle();
    expect(published).toEqual([]);
    await store.finish();
    expect(published.map(texts)).toEqual([['a']]);
    await store.finish();
    expect(published.map(texts)).toEqual([['a'], ['b']]);
  });

  it('carries the expected seq and the epoch of its lease with every append (E3)', async () => {
    const { journal, store } = open();
    journal.append([say('a'), say('b')]);
    journal.append([say('c')]);
    await store.finish();
    expect(store.appends.map(({ runId, epoch, afterSeq }) => ({ runId, epoch, afterSeq }))).toEqual(
      [
        { runId: run.id, epoch: 7, afterSeq: 3 },
        { runId: run.id, epoch: 7, afterSeq: 5 },
      ],
    );
  });

  it('gives one time to a whole batch, the same to those who watch as to the store', async () => {
    const { journal, store, published, clock } = open();
    journal.append([say('a')]);
    clock.time = 2_000;
    journal.append([say('b')]);
    clock.time = 3_000;
    journal.append([say('c')]);
    await store.finish();
    await store.finish();
    expect(store.appends.map((append) => append.at)).toEqual([1_000, 2_000]);
    expect(published.map((batch) => batch.map((event) => Date.parse(event.at)))).toEqual([
      [1_000],
      [2_000, 2_000],
    ]);
  });

  it('projects each batch in its own commit', async () => {
    const { journal, store } = open(initialState);
    journal.append(start.slice(0, 2));
    journal.append(start.slice(2));
    await store.finish();
    const [first, second] = store.appends;
    expect(first?.progress).toMatchObject({ status: 'running', startedAt: 1_000 });
    // The status is stored already.
    expect(second?.progress).toStrictEqual({ usage: noUsage, firstTokenMs: 1_000 });
  });
});

describe('the state of a journal', () => {
  it('runs ahead of what is stored', () => {
    const { journal, published } = open();
    journal.append([say('a')]);
    journal.stage([say('b')]);
    expect(journal.state.seq).toBe(5);
    expect(answerOf(journal.state.agents['root'])).toBe('ab');
    expect(published).toEqual([]);
  });

  it('is passed to the observer in order', () => {
    const { journal, observed } = open();
    journal.append([say('a'), say('b')]);
    journal.stage([say('c')]);
    expect(observed.map((event) => [event.seq, ...texts([event])])).toEqual([
      [4, 'a'],
      [5, 'b'],
      [6, 'c'],
    ]);
  });

  it('does not take in an event that contradicts it', async () => {
    const { journal, store, observed } = open();
    const ghost: RunEvent = { type: 'text.appended', agentId: 'ghost', textId: 't', text: 'boo' };
    expect(() => journal.append([ghost])).toThrow(
      expect.objectContaining({ code: 'journal_corrupt' }),
    );
    expect(journal.state.seq).toBe(3);
    const outcome = watch(journal.write([say('a')]));
    await store.finish();
    expect(outcome).toEqual({ outcome: 'stored' });
    expect(store.appends.flatMap(({ events }) => texts(events))).toEqual(['a']);
    expect(texts(observed)).toEqual(['a']);
  });
});

describe('write', () => {
  it('resolves when its events and all before them are stored', async () => {
    const { journal, store } = open();
    journal.append([say('a')]);
    const outcome = watch(journal.write([say('b')]));
    await store.finish();
    expect(outcome).toEqual({ outcome: 'pending' });
    await store.finish();
    expect(outcome).toEqual({ outcome: 'stored' });
  });

  it('does not wait for events that are added after it', async () => {
    const { journal, store } = open();
    const outcome = watch(journal.write([say('a')]));
    journal.append([say('b')]);
    await store.finish();
    expect(store.pending).toBe(1);
    expect(outcome).toEqual({ outcome: 'stored' });
  });

  it('carries what was staged before it, in one commit', async () => {
    const { journal, store } = open();
    journal.stage([say('a')]);
    journal.stage([say('b')]);
    await settle();
    expect(store.appends).toEqual([]);
    const outcome = watch(journal.write([say('c')]));
    expect(store.appends.map(({ events }) => texts(events))).toEqual([['a', 'b', 'c']]);
    await store.finish();
    expect(outcome).toEqual({ outcome: 'stored' });
  });

  it('consumes commands and releases the lease in the commit of its events', async () => {
    const { journal, store } = open();
    journal.append([say('a')]);
    journal.stage([say('b')], { consumeCommands: ['command_1'] });
    void journal.write([say('c')], { consumeCommands: ['command_2'], release: true });
    await store.finish();
    expect(
      store.appends.map(({ consumeCommands, release }) => ({ consumeCommands, release })),
    ).toEqual([
      { consumeCommands: [], release: false },
      { consumeCommands: ['command_1', 'command_2'], release: true },
    ]);
    await store.finish();
    journal.append([say('d')]);
    expect(store.appends[2]).toMatchObject({ consumeCommands: [], release: false });
  });

  it('releases the lease even without an event', async () => {
    const { journal, store } = open();
    const outcome = watch(journal.write([], { release: true }));
    expect(store.appends).toMatchObject([{ events: [], release: true, afterSeq: 3 }]);
    await store.finish();
    expect(outcome).toEqual({ outcome: 'stored' });
  });
});

describe('a commit that is refused because a grant is exhausted', () => {
  const onGrantExhausted = async (events: readonly RunEvent[]) =>
    events.map((event) => (texts([event])[0] === 'b' ? say('B') : event));

  it('is stored with replaced events, and later events keep their seq', async () => {
    const { journal, store, published, observed } = open();
    const outcome = watch(journal.write([say('a'), say('b'), say('c')], { onGrantExhausted }));
    journal.append([say('d')]);
    await store.finish('refused');
    journal.append([say('e')]);
    expect(published).toEqual([]);
    expect(outcome).toEqual({ outcome: 'pending' });
    await store.finish();
    await store.finish();
    expect(outcome).toEqual({ outcome: 'stored' });
    expect(store.appends.map(({ afterSeq, events }) => [afterSeq, ...texts(events)])).toEqual([
      [3, 'a', 'b', 'c'],
      [3, 'a', 'B', 'c'],
      [6, 'd', 'e'],
    ]);
    expect(published.flat().map(({ seq }) => seq)).toEqual([4, 5, 6, 7, 8]);
    expect(published.map(texts)).toEqual([
      ['a', 'B', 'c'],
      ['d', 'e'],
    ]);
    expect(journal.state.seq).toBe(8);
    expect(answerOf(journal.state.agents[root.agentId])).toBe('aBcde');
    expect(texts(observed)).toEqual(['a', 'b', 'c', 'd', 'B', 'e']);
  });

  it('lets every write replace its own events, also those that other writes have joined', async () => {
    const { journal, store } = open();
    const received: string[][][] = [];
    const upperCase = async (events: readonly RunEvent[], preceding: readonly RunEvent[]) => {
      received.push([texts(preceding), texts(events)]);
      return events.map((event) => say(texts([event]).join().toUpperCase()));
    };
    journal.append([say('a')]);
    journal.stage([say('b')]);
    const first = watch(journal.write([say('c'), say('d')], { onGrantExhausted: upperCase }));
    journal.append([say('e')]);
    const second = watch(journal.write([say('f')], { onGrantExhausted: upperCase }));
    await store.finish();
    await store.finish('refused');
    await store.finish();
    expect([first, second]).toEqual([{ outcome: 'stored' }, { outcome: 'stored' }]);
    expect(store.appends.map(({ afterSeq, events }) => [afterSeq, ...texts(events)])).toEqual([
      [3, 'a'],
      [4, 'b', 'c', 'd', 'e', 'f'],
      [4, 'b', 'C', 'D', 'e', 'F'],
    ]);
    expect(received).toEqual([
      [['b'], ['c', 'd']],
      [['b', 'C', 'D', 'e'], ['f']],
    ]);
    expect(answerOf(journal.state.agents[root.agentId])).toBe('abCDeF');
  });

  it('is retried as often as it is refused', async () => {
    const { journal, store } = open();
    const outcome = watch(journal.write([say('b')], { onGrantExhausted }));
    for (let n = 0; n < 3; n += 1) await store.finish('refused');
    await store.finish();
    expect(outcome).toEqual({ outcome: 'stored' });
    expect(store.appends.map(({ events }) => texts(events))).toEqual([['b'], ['B'], ['B'], ['B']]);
  });

  it.each([
    ['the write cannot replace its events', undefined],
    ['events are not replaced one for one', async () => []],
    ['the replacement fails', () => Promise.reject(new Error('The disk is gone'))],
  ])('breaks the journal if %s', async (_why, replace) => {
    const { journal, store, published } = open();
    const outcome = watch(journal.write([say('b')], { onGrantExhausted: replace }));
    await store.finish('refused');
    expect(outcome.outcome).toBeInstanceOf(JournalBroken);
    expect(published).toEqual([]);
  });
});

describe('a broken journal', () => {
  const fault = new Error('The disk is gone');

  it.each<[string, Outcome, boolean]>([
    ['fenced out', 'fenced', true],
    ['left by its store', fault, false],
  ])('was %s: all its promises reject, and nothing of it is shown', async (_how, end, fenced) => {
    const { journal, store, published } = open();
    const first = watch(journal.write([say('a')]));
    const second = watch(journal.write([say('b')]));
    const third = watch(journal.settled());
    expect(journal.broken).toBe(false);
    await store.finish(end);
    expect(journal.broken).toBe(true);
    for (const { outcome } of [first, second, third]) {
      expect(outcome).toBeInstanceOf(JournalBroken);
      expect(outcome).toMatchObject({ fenced, cause: end });
    }
    expect(published).toEqual([]);
  });

  it('writes nothing more, whatever it is given', async () => {
    const { journal, store, published } = open();
    journal.append([say('a')]);
    journal.append([say('b')]);
    await store.finish('fenced');
    journal.append([say('c')]);
    await expect(journal.write([say('d')])).rejects.toThrow(JournalBroken);
    await expect(journal.settled()).rejects.toThrow(JournalBroken);
    expect(store.appends).toHaveLength(1);
    expect(published).toEqual([]);
  });

  it('keeps what it had shown before', async () => {
    const { journal, store, published } = open();
    journal.append([say('a')]);
    journal.append([say('b')]);
    await store.finish();
    await store.finish(fault);
    expect(published.map(texts)).toEqual([['a']]);
  });

  it('breaks without an unhandled rejection when no write is awaited', async () => {
    const { journal, store } = open();
    journal.append([say('a')]);
    await store.finish(fault);
    expect(journal.broken).toBe(true);
  });
});

describe('whatever the order of writes and commits', () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('append' as const), size: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ kind: fc.constant('stage' as const), size: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ kind: fc.constant('write' as const), size: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ kind: fc.constant('commit' as const), size: fc.constant(0) }),
  );

  it('everything is stored and shown once, in order, without a gap, one commit at a time', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { journal, store, published } = open();
        const said: string[] = [];
        for (const { kind, size } of steps) {
          const words = Array.from({ length: size }, (_, n) => `${said.length + n} `);
          said.push(...words);
          const events = words.map(say);
          if (kind === 'commit') await store.finish();
          else if (kind === 'write') void journal.write(events);
          else journal[kind](events);
        }
        const outcome = watch(journal.settled());
        await settle();
        while (store.pending > 0) await store.finish();

        expect(outcome).toEqual({ outcome: 'stored' });
        expect(store.mostAtOnce).toBeLessThanOrEqual(1);
        const stored = store.appends.flatMap(({ afterSeq, events }) =>
          events.map((event, index) => [afterSeq + index + 1, ...texts([event])]),
        );
        expect(stored).toEqual(said.map((word, index) => [4 + index, word]));
        expect(published.flat().map((event) => [event.seq, ...texts([event])])).toEqual(stored);
        expect(published.map((batch) => batch.length)).toEqual(
          store.appends.map(({ events }) => events.length),
        );
      }),
    );
  });
});
