/**
 * A writer that stores and publishes, and a follower that reads and listens, in every order. Whatever
 * the order, the follower yields each event once, in order, and then ends.
 */
import type { StoredEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Hub } from '../../src/streaming/hub.ts';
import { followRun } from '../../src/streaming/subscribe.ts';
import { HeldReads, runEnded, settled, TestJournal } from '../support/journal.ts';

class Fixture {
  readonly journal: TestJournal;
  readonly hub = new Hub(async () => new Map());
  readonly reads: HeldReads;
  readonly connection = new AbortController();
  readonly seen: number[] = [];
  readonly #batches: AsyncGenerator<readonly StoredEvent[], void>;
  /** Stored and not yet published, oldest first. */
  readonly #untold: (readonly StoredEvent[])[] = [];
  #asked: Promise<void> | undefined;
  over = false;

  private constructor(journal: TestJournal, after: number) {
    this.journal = journal;
    this.reads = new HeldReads(journal.store);
    this.#batches = followRun(
      { store: this.reads.store, hub: this.hub, runId: journal.runId },
      { after, follow: true, signal: this.connection.signal },
    );
  }

  static async create(stored: number, after = 0): Promise<Fixture> {
    const journal = await TestJournal.create();
    if (stored > 0) await journal.appendTokens(stored);
    return new Fixture(journal, after);
  }

  async store(count: number): Promise<void> {
    this.#untold.push(await this.journal.appendTokens(count));
  }

  publish(): void {
    const batch = this.#untold.shift();
    if (batch !== undefined) this.hub.publish(this.journal.runId, batch);
  }

  /** The stored events are never published, as when the reply to a commit is lost. */
  drop(): void {
    this.#untold.shift();
  }

  look(): void {
    this.reads.look();
  }

  /** Requests one more batch, unless one is pending. */
  take(): void {
    this.#asked ??= this.#batches.next().then(({ done, value }) => {
      this.#asked = undefined;
      if (done === true) this.over = true;
      else this.seen.push(...value.map(({ seq }) => seq));
    });
  }

  /** Completes: the run ends, everything is published, the reader reads on. */
  async finish(): Promise<void> {
    this.#untold.push(await this.journal.append([runEnded]));
    this.tellAll();
    this.reads.open();
    for (let n = 0; n < 50 && !this.over; n += 1) {
      this.take();
      await settled();
    }
    this.connection.abort();
    await this.#asked;
  }

  tellAll(): void {
    while (this.#untold.length > 0) this.publish();
  }
}

function upTo(last: number, after = 0): number[] {
  return Array.from({ length: last - after }, (_, n) => after + n + 1);
}

/** All interleavings of two sequences. */
function merges<Step>(a: readonly Step[], b: readonly Step[]): Step[][] {
  const [firstA, ...restA] = a;
  const [firstB, ...restB] = b;
  if (firstA === undefined) return [[...b]];
  if (firstB === undefined) return [[...a]];
  return [
    ...merges(restA, b).map((rest) => [firstA, ...rest]),
    ...merges(a, restB).map((rest) => [firstB, ...rest]),
  ];
}

type Move = 'store' | 'publish' | 'take' | 'look';

async function play(fixture: Fixture, moves: readonly Move[]): Promise<void> {
  for (const move of moves) {
    if (move === 'store') await fixture.store(1);
    else fixture[move]();
    await settled();
  }
  await fixture.finish();
}

describe('every interleaving of a writer and a follower', () => {
  const writer: readonly Move[] = ['store', 'publish', 'store', 'publish'];
  const reader: readonly Move[] = ['take', 'look', 'take', 'look', 'take'];

  it('yields each event once, in order, and ends', async () => {
    const all = merges(writer, reader);
    expect(all).toHaveLength(126);
    for (const moves of all) {
      const fixture = await Fixture.create(1);
      await play(fixture, moves);
      expect(fixture.seen, moves.join(' ')).toEqual([1, 2, 3, 4]);
      expect(fixture.over, moves.join(' ')).toBe(true);
      expect(fixture.hub.size, moves.join(' ')).toBe(0);
    }
  });

  it('does so with two appends before either is published', async () => {
    for (const moves of merges<Move>(['store', 'store', 'publish', 'publish'], reader)) {
      const fixture = await Fixture.create(1);
      await play(fixture, moves);
      expect(fixture.seen, moves.join(' ')).toEqual([1, 2, 3, 4]);
      expect(fixture.over, moves.join(' ')).toBe(true);
    }
  });

  it('does so for a follower that starts in the middle', async () => {
    for (const moves of merges(writer, reader)) {
      const fixture = await Fixture.create(2, 2);
      await play(fixture, moves);
      expect(fixture.seen, moves.join(' ')).toEqual([3, 4, 5]);
      expect(fixture.over, moves.join(' ')).toBe(true);
    }
  });
});

const moves = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('store' as const), n: fc.nat(5) }) },
  { weight: 4, arbitrary: fc.constant({ kind: 'publish' as const }) },
  { weight: 3, arbitrary: fc.constant({ kind: 'take' as const }) },
  { weight: 3, arbitrary: fc.constant({ kind: 'look' as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('burst' as const), n: fc.nat(600) }) },
);
const drops = fc.constant({ kind: 'drop' as const });
type AnyMove = { kind: 'drop' } | (typeof moves extends fc.Arbitrary<infer Value> ? Value : never);

async function playAny(fixture: Fixture, script: readonly AnyMove[]): Promise<void> {
  for (const move of script) {
    switch (move.kind) {
      case 'store':
        await fixture.store(move.n + 1);
        break;
      case 'burst':
        // More batches than a follower holds, faster than it can read.
        for (let n = 0; n < move.n; n += 1) {
          await fixture.store(1);
          fixture.publish();
        }
        break;
      default:
        fixture[move.kind]();
    }
    await settled();
  }
  await fixture.finish();
}

describe('any journal and any follower', () => {
  const start = fc.record({ stored: fc.nat(5), after: fc.nat(5) });

  it('agree, whatever the order of appends, publishes and reads', async () => {
    await fc.assert(
      fc.asyncProperty(start, fc.array(moves, { maxLength: 40 }), async (from, script) => {
        const after = Math.min(from.after, from.stored);
        const fixture = await Fixture.create(from.stored, after);
        await playAny(fixture, script);
        expect(fixture.seen).toEqual(upTo(fixture.journal.lastSeq, after));
        expect(fixture.over).toBe(true);
        expect(fixture.hub.size).toBe(0);
      }),
      { numRuns: 150 },
    );
  });

  it('agree even if some events are never published', async () => {
    const some = fc.oneof({ weight: 9, arbitrary: moves }, { weight: 3, arbitrary: drops });
    // Only a follower that has caught up relies on published events.
    const caughtUp = [
      { kind: 'take' },
      { kind: 'look' },
      { kind: 'take' },
      { kind: 'look' },
    ] as const;
    await fc.assert(
      fc.asyncProperty(start, fc.array(some, { maxLength: 60 }), async (from, script) => {
        const after = Math.min(from.after, from.stored);
        const fixture = await Fixture.create(from.stored, after);
        await playAny(fixture, [...caughtUp, ...script]);
        expect(fixture.seen).toEqual(upTo(fixture.journal.lastSeq, after));
        expect(fixture.over).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});
