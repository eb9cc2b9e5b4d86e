import type { EventOf, RunEvent, StoredEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EventRange, JournalPage, TenantStore } from '../../../src/ports/index.ts';
import { at, eventsOf, runCreated } from '../../support/agent-events.ts';
import { TranscriptCache } from '../../../src/run/context/transcript-cache.ts';
import {
  foldTranscripts,
  noTranscripts,
  type Transcripts,
} from '../../../src/run/context/transcript.ts';

const root = eventsOf({ agentId: 'root' });
const ended: RunEvent = {
  type: 'run.ended',
  status: 'completed',
  output: '',
  usage: { inputTokens: 0, outputTokens: 0 },
};

/** Journals in memory, and what was read of them. */
class Journals {
  readonly tenantId: string;
  readonly reads: { runId: string; after: number }[] = [];
  readonly #runs = new Map<string, StoredEvent[]>();
  readonly #ended: string[] = [];
  readonly #pruned = new Set<string>();

  constructor(tenantId = 'tenant') {
    this.tenantId = tenantId;
  }

  get store(): TenantStore {
    return this as unknown as TenantStore;
  }

  /** A run that says one thing in each of its turns. */
  add(id: string, history: number | null, ...answers: string[]) {
    const asked = runCreated({ messages: [{ role: 'user', content: `ask ${id}` }], history });
    const turns = answers.flatMap((answer) => [root.turn, root.said(answer), root.completed]);
    return this.write(id, asked, ...turns);
  }

  write(id: string, ...events: RunEvent[]) {
    const before = this.#runs.get(id) ?? [];
    const placed = events.map((event, n) => ({ ...event, seq: before.length + 1 + n, at }));
    const all = [...before, ...placed];
    this.#runs.set(id, all);
    return { id, spec: all[0] as Extract<StoredEvent, EventOf<'run.created'>>, seq: all.length };
  }

  end(id: string): void {
    this.write(id, ended);
    this.#ended.push(id);
  }

  async readEvents(runId: string, { after, limit }: EventRange): Promise<StoredEvent[]> {
    this.reads.push({ runId, after });
    return (this.#runs.get(runId) ?? []).slice(after, after + limit);
  }

  async readPage(runId: string, range: EventRange): Promise<JournalPage> {
    const events = await this.readEvents(runId, range);
    const end = this.#runs.get(runId)?.length ?? 0;
    return { events, isLast: range.after + events.length >= end };
  }

  async endedRuns(_conversationId: string, { after, upTo }: { after: number; upTo: number }) {
    return this.#ended
      .slice(after, upTo)
      .map((runId, n) => ({ runId, position: after + n + 1 }))
      .filter(({ runId }) => !this.#pruned.has(runId));
  }

  prune(...ids: string[]): void {
    for (const id of ids) this.#pruned.add(id);
  }

  /** Whose journals were read since this was last asked. */
  readRunIds(): string[] {
    return [...new Set(this.reads.splice(0).map(({ runId }) => runId))];
  }
}

function said({ root }: Transcripts): unknown[] {
  return root.messages.map(({ content }) => content);
}

describe('the transcripts of a run', () => {
  it('are folded from its journal up to a seq and never beyond it', async () => {
    const journals = new Journals();
    const run = journals.add('r', null, 'one', 'two');
    const cache = new TranscriptCache();
    const upTo = async (seq: number) => said(await cache.ofRun(journals.store, run, seq));
    expect(await upTo(run.seq)).toEqual(['ask r', 'one', 'two']);
    expect(await upTo(4)).toEqual(['ask r', 'one']);
    expect(await upTo(3)).toEqual(['ask r']);
    expect(await upTo(1)).toEqual(['ask r']);
  });

  it('cost only what was added since they were kept', async () => {
    const journals = new Journals();
    const run = journals.add('r', null, 'one');
    const cache = new TranscriptCache();
    const ref = { tenantId: 'tenant', runId: 'r' };
    cache.put(ref, await cache.ofRun(journals.store, run, run.seq), run.seq);
    journals.write('r', root.turn, root.said('two'), root.completed);
    journals.reads.splice(0);
    const now = await cache.ofRun(journals.store, run, run.seq + 3);
    expect(said(now)).toEqual(['ask r', 'one', 'two']);
    expect(journals.reads).toEqual([{ runId: 'r', after: run.seq }]);
  });

  it('are not taken from an entry of a later seq', async () => {
    const journals = new Journals();
    const run = journals.add('r', null, 'one', 'two');
    const cache = new TranscriptCache();
    const whole = await cache.ofRun(journals.store, run, run.seq);
    cache.put({ tenantId: 'tenant', runId: 'r' }, whole, run.seq);
    expect(said(await cache.ofRun(journals.store, run, 4))).toEqual(['ask r', 'one']);
  });

  it('are folded again once they are removed from the cache', async () => {
    const journals = new Journals();
    const run = journals.add('r', null, 'one');
    const cache = new TranscriptCache();
    const ref = { tenantId: 'tenant', runId: 'r' };
    cache.put(ref, noTranscripts, run.seq);
    expect(said(await cache.ofRun(journals.store, run, run.seq))).toEqual([]);
    cache.evict(ref);
    expect(said(await cache.ofRun(journals.store, run, run.seq))).toEqual(['ask r', 'one']);
  });

  it('are another tenant’s own, even for the same run', async () => {
    const [one, other] = [new Journals('one'), new Journals('other')];
    one.add('r', null, 'theirs');
    const run = other.add('r', null, 'ours');
    const cache = new TranscriptCache();
    cache.put({ tenantId: 'one', runId: 'r' }, noTranscripts, run.seq);
    expect(said(await cache.ofRun(other.store, run, run.seq))).toEqual(['ask r', 'ours']);
    cache.evict({ tenantId: 'other', runId: 'r' });
    expect(said(await cache.ofRun(one.store, run, run.seq))).toEqual([]);
  });

  it('hold those of its sub-agents too', async () => {
    const journals = new Journals();
    const sub = eventsOf({ agentId: 'sub', parentId: 'root' });
    journals.add('r', null);
    const run = journals.write('r', sub.spawnedBy('c1', { task: 'Find it' }), sub.turn);
    const { subs } = await new TranscriptCache().ofRun(journals.store, run, run.seq);
    expect(subs['sub']?.messages).toEqual([{ role: 'user', content: 'Find it' }]);
  });
});

describe('the conversation before a run', () => {
  function conversation() {
    const journals = new Journals();
    journals.add('r1', 0, 'one');
    journals.end('r1');
    journals.add('r2', 1, 'two');
    journals.end('r2');
    return journals;
  }

  it('is folded from the runs that had ended, in the order of their ends', async () => {
    const journals = conversation();
    const run = journals.add('r3', 2);
    const all = await new TranscriptCache().ofRun(journals.store, run, run.seq);
    expect(said(all)).toEqual(['ask r1', 'one', 'ask r2', 'two', 'ask r3']);
    expect(all.root.runStart).toBe(4);
  });

  it('is only as long as it was when the run began', async () => {
    const journals = conversation();
    const run = journals.add('r3', 1);
    const all = await new TranscriptCache().ofRun(journals.store, run, run.seq);
    expect(said(all)).toEqual(['ask r1', 'one', 'ask r3']);
  });

  it.each([null, 0])('is not read at all where the run counts on none: %j', async (history) => {
    const journals = conversation();
    const run = journals.add('r3', history, 'three');
    const all = await new TranscriptCache().ofRun(journals.store, run, run.seq);
    expect(said(all)).toEqual(['ask r3', 'three']);
    expect(journals.readRunIds()).toEqual(['r3']);
  });

  it('is read once: the next run costs what was added', async () => {
    const journals = conversation();
    const cache = new TranscriptCache();
    const third = journals.add('r3', 2, 'three');
    await cache.ofRun(journals.store, third, third.seq);
    journals.end('r3');
    const fourth = journals.add('r4', 3, 'four');
    expect(journals.readRunIds()).toEqual(['r1', 'r2', 'r3']);
    const all = await cache.ofRun(journals.store, fourth, fourth.seq);
    const before = ['ask r1', 'one', 'ask r2', 'two'];
    expect(said(all)).toEqual([...before, 'ask r3', 'three', 'ask r4', 'four']);
    expect(journals.readRunIds()).toEqual(['r3', 'r4']);
  });

  it('is forgotten with the journals that it was folded from', async () => {
    const journals = conversation();
    const cache = new TranscriptCache();
    const third = journals.add('r3', 2, 'three');
    await cache.ofRun(journals.store, third, third.seq);
    journals.prune('r1', 'r2');
    const fourth = journals.add('r4', 2, 'four');
    const all = await cache.ofRun(journals.store, fourth, fourth.seq);
    expect(said(all)).toEqual(['ask r4', 'four']);
  });

  it('is not taken from one that is longer', async () => {
    const journals = conversation();
    const cache = new TranscriptCache();
    const late = journals.add('late', 2);
    await cache.ofRun(journals.store, late, late.seq);
    const early = journals.add('early', 1);
    expect(said(await cache.ofRun(journals.store, early, early.seq))).toEqual([
      'ask r1',
      'one',
      'ask early',
    ]);
  });

  it('holds nothing of the sub-agents that worked in it', async () => {
    const journals = new Journals();
    const sub = eventsOf({ agentId: 'sub', parentId: 'root' });
    const left = eventsOf({ agentId: 'left', parentId: 'root' });
    journals.add('r1', 0, 'one');
    journals.write('r1', sub.spawnedBy('c1'), sub.turn, sub.called('s1'), sub.completed);
    journals.write('r1', sub.done('s1'), sub.ended(), left.spawnedBy('c1'));
    journals.end('r1');
    const run = journals.add('r2', 1);
    const all = await new TranscriptCache().ofRun(journals.store, run, run.seq);
    expect(said(all)).toEqual(['ask r1', 'one', 'ask r2']);
    expect(all).toMatchObject({ subs: {}, removedCallIds: [] });
  });
});

describe('the fold of a conversation', () => {
  const compacted = (n: number, ofHistory: number, ofRun: number, generation: number) =>
    root.compacted({ ofHistory, ofRun, generation, summary: `summary ${n}` });
  const run = fc.record({
    startsAnew: fc.constantFrom(false, false, false, true),
    compaction: fc.option(fc.tuple(fc.nat(6), fc.nat(2), fc.nat(2)), { nil: undefined }),
    answers: fc.nat(2),
  });

  it('is that of the events of its runs one after another (E4)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(run, { minLength: 1, maxLength: 8 }), async (runs) => {
        const journals = new Journals();
        let expected = noTranscripts;
        for (const [n, { startsAnew, compaction, answers }] of runs.entries()) {
          const texts = Array.from({ length: answers }, (_, at) => `answer ${n} ${at}`);
          journals.add(`r${n}`, startsAnew ? null : n, ...texts);
          if (compaction !== undefined) journals.write(`r${n}`, compacted(n, ...compaction));
          journals.write(`r${n}`, root.turn, root.said(`last ${n}`), root.completed);
          journals.end(`r${n}`);
          const events = await journals.readEvents(`r${n}`, { after: 0, limit: 99 });
          expected = { ...noTranscripts, root: foldTranscripts(expected, events).root };
        }
        const next = journals.add('next', runs.length);
        const found = await new TranscriptCache().ofRun(journals.store, next, next.seq);
        expect(found).toEqual(foldTranscripts(expected, [next.spec]));
      }),
    );
  });
});

describe('the bound of the cache', () => {
  it('keeps the conversations of a thousand sessions that take turns', async () => {
    const cache = new TranscriptCache();
    const sessions = Array.from({ length: 1_000 }, (_, n) => new Journals(`tenant-${n}`));
    const turns = 4;
    for (let turn = 0; turn < turns; turn += 1) {
      for (const journals of sessions) {
        const id = `r${turn}`;
        const run = journals.add(id, turn, 'answer');
        journals.reads.splice(0);
        await cache.ofRun(journals.store, run, 1);
        // Of the runs before, the last one, which has ended since.
        expect(journals.reads.map(({ runId }) => runId)).toEqual(
          turn === 0 ? [] : [`r${turn - 1}`],
        );
        journals.end(id);
      }
    }
  });

  it('drops what was kept longest ago', async () => {
    const journals = new Journals();
    const cache = new TranscriptCache({ entries: 2 });
    const runs = ['a', 'b', 'c'].map((id) => journals.add(id, null, id));
    for (const { id, seq } of runs) {
      cache.put({ tenantId: 'tenant', runId: id }, noTranscripts, seq);
    }
    const known = await Promise.all(
      runs.map(async (run) => said(await cache.ofRun(journals.store, run, run.seq))),
    );
    expect(known).toEqual([['ask a', 'a'], [], []]);
  });

  it.each([
    ['what is small beside it', 40_000, [false, true]],
    ['itself', 200_000, [false, false]],
  ])('drops for a large one %s', async (_, length, kept) => {
    const journals = new Journals();
    const cache = new TranscriptCache({ chars: 41_000 });
    const runs = [journals.add('a', null, 'x'.repeat(2_000)), journals.add('b', null, 'b')];
    const large = journals.add('c', null, 'x'.repeat(length));
    const keep = async (run: typeof large) => {
      const transcripts = await cache.ofRun(journals.store, run, run.seq);
      cache.put({ tenantId: 'tenant', runId: run.id }, transcripts, run.seq);
    };
    for (const run of [...runs, large]) await keep(run);
    journals.reads.splice(0);
    const isKept = [];
    for (const run of [...runs.slice(0, 1), large]) {
      await cache.ofRun(journals.store, run, run.seq);
      isKept.push(!journals.reads.some(({ runId, after }) => runId === run.id && after === 1));
    }
    expect(isKept).toEqual(kept);
  });

  it('never changes what is read, only what it costs (E4)', async () => {
    const step = fc.record({ run: fc.nat(5), keep: fc.boolean(), at: fc.nat(9) });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), fc.integer({ min: 1, max: 4 }), check),
    );

    async function check(steps: { run: number; keep: boolean; at: number }[], size: number) {
      const journals = new Journals();
      const cache = new TranscriptCache({ entries: size });
      const runs = Array.from({ length: 6 }, (_, n) => {
        const run = journals.add(`r${n}`, n, `answer ${n}`);
        journals.end(run.id);
        return { ...run, seq: run.seq + 1 };
      });
      for (const { run: n, keep, at: place } of steps) {
        const run = runs[n] ?? runs[0]!;
        const seq = 1 + (place % run.seq);
        const cached = await cache.ofRun(journals.store, run, seq);
        expect(cached).toEqual(await new TranscriptCache().ofRun(journals.store, run, seq));
        const ref = { tenantId: 'tenant', runId: run.id };
        if (keep) cache.put(ref, foldTranscripts(cached, []), seq);
      }
    }
  });
});
