/** What a fork reads, and whoever comes after it in its conversation. */
import type { EventOf, RunEvent, StoredEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import type { EventRange, TenantStore } from '../../../src/ports/index.ts';
import { at, eventsOf, runCreated } from '../../support/agent-events.ts';
import { TranscriptCache } from '../../../src/run/context/transcript-cache.ts';
import type { Transcripts } from '../../../src/run/context/transcript.ts';

const root = eventsOf({ agentId: 'root' });
const usage = { inputTokens: 0, outputTokens: 0 };
const ended: RunEvent = { type: 'run.ended', status: 'completed', output: '', usage };

type Fork = NonNullable<EventOf<'run.created'>['forkedFrom']>;

/** Journals in memory; what has ended in each conversation, in that order. */
function openJournals() {
  const runs = new Map<string, StoredEvent[]>();
  const over = new Map<string, string[]>();
  const write = (id: string, ...events: RunEvent[]) => {
    const before = runs.get(id) ?? [];
    const all = [
      ...before,
      ...events.map((event, n) => ({ ...event, seq: before.length + 1 + n, at })),
    ];
    runs.set(id, all);
    return { id, spec: all[0] as StoredEvent & EventOf<'run.created'>, seq: all.length };
  };
  const say = (answer: string) => [root.turn, root.said(answer), root.completed];
  const ask = (id: string, conversationId: string, more: Partial<EventOf<'run.created'>> = {}) =>
    write(id, {
      ...runCreated({ messages: [{ role: 'user', content: `ask ${id}` }], history: 0 }),
      conversationId,
      ...more,
    });
  const end = (id: string, conversationId: string) => {
    over.set(conversationId, [...(over.get(conversationId) ?? []), id]);
    return write(id, ended);
  };
  const readEvents = async (runId: string, { after, limit }: EventRange) =>
    (runs.get(runId) ?? []).slice(after, after + limit);
  const store = {
    tenantId: 'tenant',
    readEvents,
    readPage: async (runId: string, range: EventRange) => {
      const events = await readEvents(runId, range);
      return { events, isLast: range.after + events.length >= (runs.get(runId)?.length ?? 0) };
    },
    endedRuns: async (id: string, { after, upTo }: { after: number; upTo: number }) =>
      (over.get(id) ?? [])
        .slice(after, upTo)
        .map((runId, n) => ({ runId, position: after + n + 1 })),
  } as unknown as TenantStore;
  return { store, write, say, ask, end };
}

const compacted = (ofHistory: number, ofRun: number, generation: number): RunEvent => ({
  type: 'context.compacted',
  agentId: 'root',
  model: 'm',
  summary: `summary ${generation}`,
  ofHistory,
  ofRun,
  generation,
  usage,
});

const said = ({ root }: Transcripts) => root.messages.map(({ content }) => content);
const forkOf = (runId: string, seq: number): { forkedFrom: Fork } => ({
  forkedFrom: { runId, seq },
});

describe('a fork', () => {
  it('reads its source up to the fork point only', async () => {
    const { store, write, say, ask } = openJournals();
    ask('source', 'a');
    const { seq } = write('source', ...say('one'));
    write('source', ...say('two'));
    const fork = ask('fork', 'b', forkOf('source', seq));
    const read = await new TranscriptCache().ofRun(store, fork, fork.seq);
    expect(said(read)).toEqual(['ask source', 'one', 'ask fork']);
    expect(read.root.runStart).toBe(2);
  });

  it('compacts what it has read, and later runs read the same', async () => {
    const { store, write, say, ask, end } = openJournals();
    ask('source', 'a');
    write('source', ...say('one'), compacted(0, 1, 0));
    const { seq } = write('source', ...say('two'));
    const fork = ask('fork', 'b', forkOf('source', seq));
    const now = write('fork', compacted(2, 0, 1), ...say('three'));
    const cache = new TranscriptCache();
    const read = said(await cache.ofRun(store, fork, now.seq));
    expect(read).toEqual(['summary 1', 'two', 'ask fork', 'three']);
    end('fork', 'b');
    const next = ask('next', 'b', { history: 1 });
    for (const each of [cache, new TranscriptCache()]) {
      expect(said(await each.ofRun(store, next, 1))).toEqual([...read, 'ask next']);
    }
  });

  it('keeps its source in front of what ended in its conversation before it', async () => {
    const { store, write, say, ask, end } = openJournals();
    ask('source', 'a');
    const { seq } = write('source', ...say('one'));
    ask('fork', 'b', forkOf('source', seq));
    ask('beside', 'b');
    write('beside', ...say('quick'));
    end('beside', 'b');
    write('fork', compacted(1, 0, 0), ...say('slow'));
    end('fork', 'b');
    const next = ask('next', 'b', { history: 2 });
    expect(said(await new TranscriptCache().ofRun(store, next, 1))).toEqual([
      'summary 0',
      'one',
      'ask beside',
      'quick',
      'ask fork',
      'slow',
      'ask next',
    ]);
  });

  it('may be one of a long line', async () => {
    const { store, write, say, ask } = openJournals();
    ask('run 0', 'c 0');
    let { seq } = write('run 0', ...say('0'));
    for (let n = 1; n < 300; n += 1) {
      ask(`run ${n}`, `c ${n}`, forkOf(`run ${n - 1}`, seq));
      ({ seq } = write(`run ${n}`, ...say(String(n))));
    }
    const last = ask('last', 'z', forkOf('run 299', seq));
    const read = said(await new TranscriptCache().ofRun(store, last, 1));
    expect(read).toHaveLength(2 * 300 + 1);
    expect(read.slice(0, 4)).toEqual(['ask run 0', '0', 'ask run 1', '1']);
  });

  it('of a missing source run fails with journal_corrupt', async () => {
    const { store, ask } = openJournals();
    const fork = ask('fork', 'b', forkOf('gone', 3));
    await expect(new TranscriptCache().ofRun(store, fork, 1)).rejects.toMatchObject({
      code: 'journal_corrupt',
    });
  });
});
