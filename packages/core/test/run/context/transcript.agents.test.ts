import type { Message, RunEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deepFreeze, eventsOf, type OfAgent, runCreated } from '../../support/agent-events.ts';
import { emptyTranscript, foldEvents } from '../../../src/run/context/transcript.ts';
import {
  foldTranscripts,
  noTranscripts,
  type Transcripts,
  transcriptOf,
  usedCallIds,
} from '../../../src/run/context/transcript.ts';

const root = { agentId: 'root' };
const subs: readonly OfAgent[] = [
  { agentId: 'a', parentId: 'root' },
  { agentId: 'b', parentId: 'root' },
  { agentId: 'c', parentId: 'a' },
];

type Happening = (of: OfAgent, nth: number) => RunEvent[];

const happenings: fc.Arbitrary<Happening> = fc.oneof(
  fc.array(fc.string({ maxLength: 4 }), { maxLength: 4 }).map((words) => talking(words)),
  fc.string().map((word): Happening => {
    return (of) => [eventsOf(of).turn, eventsOf(of).said(word), eventsOf(of).discarded()];
  }),
  fc.integer({ min: 1, max: 3 }).map((count) => calling(count)),
  fc
    .record({ ofHistory: fc.nat(1), ofRun: fc.nat(2), generation: fc.nat(1) })
    .map((counts): Happening => (of) => [eventsOf(of).compacted(counts)]),
);

function talking(words: readonly string[]): Happening {
  return (of) => [eventsOf(of).turn, ...words.map(eventsOf(of).said), eventsOf(of).completed];
}

function calling(count: number): Happening {
  return (of, nth) => {
    const { turn, said, called, completed, start, done } = eventsOf(of);
    const ids = Array.from({ length: count }, (_, n) => `${of.agentId}_${nth}_${n}`);
    const results = ids.toReversed().flatMap((id) => [start(id), done(id)]);
    return [turn, said('Look'), ...ids.map(called), completed, ...results];
  };
}

/** What one agent does in a few turns: it talks, calls tools, starts over, is compacted. */
function storyOf(of: OfAgent): fc.Arbitrary<RunEvent[]> {
  return fc
    .array(happenings, { maxLength: 6 })
    .map((all) => all.flatMap((happening, nth) => happening(of, nth)));
}

/** Several rows of events as one, each in its own order. */
function interleaved(rows: readonly RunEvent[][], picks: readonly number[]): RunEvent[] {
  const left = rows.map((row) => [...row]);
  const all: RunEvent[] = [];
  for (let n = 0; left.some((row) => row.length > 0); n += 1) {
    const waiting = left.filter((row) => row.length > 0);
    const next = waiting[(picks[n % Math.max(1, picks.length)] ?? 0) % waiting.length]?.shift();
    if (next !== undefined) all.push(next);
  }
  return all;
}

const created = runCreated({ messages: [{ role: 'user', content: 'Begin' }] });
const stories = fc.tuple(
  storyOf(root).map((story) => [created, ...story]),
  ...subs.map((of) => storyOf(of).map((story) => [eventsOf(of).spawnedBy('x'), ...story])),
);
const picks = fc.array(fc.nat(10), { minLength: 1, maxLength: 40 });

function inPieces(events: readonly RunEvent[], size: number): Transcripts {
  let transcripts = noTranscripts;
  for (let at = 0; at < events.length; at += size) {
    transcripts = foldTranscripts(deepFreeze(transcripts), events.slice(at, at + size));
  }
  return transcripts;
}

describe('the transcripts of several agents', () => {
  it('are each what its own events alone make of it, however they are interleaved (E4)', () => {
    fc.assert(
      fc.property(stories, picks, ([own, ...others], order) => {
        const all = foldTranscripts(noTranscripts, interleaved([own, ...others], order));
        expect(all.root).toEqual(foldEvents(emptyTranscript, own));
        for (const [n, { agentId }] of subs.entries()) {
          expect(all.subs[agentId]).toEqual(foldEvents(emptyTranscript, others[n] ?? []));
        }
        expect(Object.keys(all.subs).toSorted()).toEqual(['a', 'b', 'c']);
      }),
    );
  });

  it('are the same folded event by event, in pieces and at once', () => {
    fc.assert(
      fc.property(stories, picks, fc.integer({ min: 1, max: 9 }), (rows, order, size) => {
        const events = interleaved(rows, order);
        expect(inPieces(events, size)).toEqual(foldTranscripts(noTranscripts, events));
      }),
    );
  });

  it('belong to the root agent where an event is the run’s', () => {
    const talking = [created, eventsOf(root).turn, eventsOf(root).said('Half')];
    const over: RunEvent = {
      type: 'run.ended',
      status: 'canceled',
      output: '',
      usage: { inputTokens: 0, outputTokens: 0 },
    };
    const all = foldTranscripts(noTranscripts, [...talking, eventsOf(subs[0]!).turn, over]);
    expect(all.root.messages.at(-1)).toEqual({ role: 'assistant', content: 'Half' });
  });
});

describe('what an agent reads', () => {
  const sub = eventsOf({ agentId: 'a', parentId: 'root' });
  const all = foldTranscripts(noTranscripts, [created, sub.spawnedBy('c1', { task: 'Find it' })]);

  it('is the conversation for the root agent, and its task for a sub-agent', () => {
    const first: Message[] = [{ role: 'user', content: 'Begin' }];
    expect(transcriptOf(all, { id: 'root', parentId: null }).messages).toEqual(first);
    expect(transcriptOf(all, { id: 'a', parentId: 'root' }).messages).toEqual([
      { role: 'user', content: 'Find it' },
    ]);
  });

  it('is nothing for an agent that is not there', () => {
    expect(transcriptOf(all, { id: 'z', parentId: 'root' })).toBe(emptyTranscript);
  });
});

describe('a sub-agent that has ended', () => {
  const sub = eventsOf({ agentId: 'a', parentId: 'root' });
  const calls = [sub.turn, sub.called('s1'), sub.completed, sub.done('s1')];
  const open = [sub.turn, sub.called('s2'), sub.completed];

  it('leaves only the ids of its calls', () => {
    fc.assert(
      fc.property(storyOf({ agentId: 'a', parentId: 'root' }), fc.nat(30), (story, length) => {
        const lived = [sub.spawnedBy('c1'), ...story.slice(0, length)];
        const called = lived.flatMap((event) =>
          event.type === 'tool.called' ? [event.toolCallId] : [],
        );
        const all = foldTranscripts(noTranscripts, [created, ...lived, sub.ended()]);
        expect(all.subs).toEqual({});
        expect(new Set(all.removedCallIds)).toEqual(new Set(called));
        expect(all.root).toEqual(foldEvents(emptyTranscript, [created]));
      }),
    );
  });

  it('keeps the id of a call that was not settled', () => {
    const all = foldTranscripts(noTranscripts, [...calls, ...open, sub.ended()]);
    expect(all.removedCallIds).toEqual(['s1', 's2']);
  });

  it('leaves others at work', () => {
    const other = eventsOf({ agentId: 'b', parentId: 'root' });
    const events = [...calls, other.spawnedBy('c1', { task: 'Wait' }), sub.ended()];
    expect(Object.keys(foldTranscripts(noTranscripts, events).subs)).toEqual(['b']);
  });
});

describe('usedCallIds', () => {
  it('are those of every call that was made in the run, by whichever agent and however long ago', () => {
    fc.assert(
      fc.property(stories, picks, fc.subarray([...subs]), (rows, order, gone) => {
        const events = interleaved(rows, order);
        const called = events.flatMap((event) =>
          event.type === 'tool.called' ? [event.toolCallId] : [],
        );
        const all = foldTranscripts(noTranscripts, [
          ...events,
          ...gone.map((of) => eventsOf(of).ended()),
        ]);
        expect(usedCallIds(all)).toEqual(new Set(called));
      }),
    );
  });

  it('are those of the conversation before too, as far as it is still read', () => {
    const { turn, called, completed, done } = eventsOf(root);
    const before = [created, turn, called('old'), completed, done('old')];
    const next = runCreated({ history: 1 });
    expect(usedCallIds(foldTranscripts(noTranscripts, [...before, next]))).toEqual(
      new Set(['old']),
    );
  });

  it('keep the id of a call that a compaction has put out of sight', () => {
    const { turn, called, completed, done, compacted } = eventsOf(root);
    const events = [created, turn, called('c1'), completed, done('c1'), compacted({ ofRun: 3 })];
    const all = foldTranscripts(noTranscripts, events);
    expect(JSON.stringify(all.root.messages)).not.toContain('c1');
    expect(usedCallIds(all)).toEqual(new Set(['c1']));
  });
});
