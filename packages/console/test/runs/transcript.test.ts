import { describe, expect, it } from 'vitest';
import { GrowingText } from '../../src/transcript/growing-text.ts';
import {
  asOf,
  type Item,
  rowsAt,
  segmentAt,
  Transcript,
  type ToolItem,
  toolStateAt,
} from '../../src/transcript/transcript.ts';
import { JournalFixture, root, subAgent } from './journal-fixture.ts';
import type { StoredEvent } from '@relay/protocol/wire';

function fold(events: readonly StoredEvent[]): Transcript {
  const transcript = new Transcript();
  for (const event of events) transcript.add(event);
  return transcript;
}

/** What a reader sees at `seq`, as plain values. */
function shown({ items }: Transcript, seq: number): unknown[] {
  return rowsAt(items, seq).map(({ key, depth, item, segment }) => ({
    key,
    depth,
    kind: item.kind,
    ...(segment === undefined || !('text' in item)
      ? {}
      : {
          text: segmentAt(item.text, segment, seq),
          isDiscarded: asOf(item.discarded, seq) !== undefined,
        }),
    ...(item.kind === 'tool'
      ? {
          state: toolStateAt(item, seq),
          approvals: item.approvals.flatMap(({ requested, resolved }) =>
            asOf(requested, seq) === undefined ? [] : [asOf(resolved, seq)?.type ?? 'pending'],
          ),
        }
      : {}),
    ...(item.kind === 'agent' ? { hasEnded: asOf(item.ended, seq) !== undefined } : {}),
  }));
}

/** A run with everything: text, an approval, a crash, a retry, a sub-agent, a handoff, a message. */
function eventfulJournal(): JournalFixture {
  return new JournalFixture()
    .created()
    .turn(1, 'a')
    .add('reasoning.appended', { agentId: root, reasoningId: 'a-r', text: 'hm' })
    .text('a', 'Let me ')
    .text('a', 'see')
    .add('turn.discarded', { agentId: root, turn: 1, textId: 'a', after: 4, reason: 'crash' })
    .turn(1, 'b')
    .text('b', 'I send it.')
    .called('one')
    .called('spawn', 'agent')
    .completed(1)
    .started('spawn', 'agent')
    .spawned('researcher')
    .turn(1, 's', subAgent)
    .text('s', 'found', subAgent)
    .asked('one', 'ap')
    .completed(1, subAgent)
    .add('agent.ended', {
      ...subAgent,
      reason: 'completed',
      iterations: 1,
      usage: { inputTokens: 1, outputTokens: 1 },
    })
    .finished('spawn', 'agent')
    .decided('one', 'ap', true, 'fine')
    .started('one')
    .finished('one')
    .add('agent.handed-off', { agentId: root, from: 'support', to: 'billing' })
    .turn(2, 'c')
    .text('c', 'Done')
    .text('c', '.')
    .completed(2)
    .ended();
}

describe('transcript', () => {
  it('shows at each seq what a fold of the events up to there shows', () => {
    const { events, lastSeq } = eventfulJournal();
    const whole = fold(events);
    for (let seq = 1; seq <= lastSeq; seq += 1) {
      expect(shown(whole, seq), `seq ${seq}`).toEqual(shown(fold(events.slice(0, seq)), seq));
    }
  });

  it('cuts a text where it was at the cursor', () => {
    const journal = new JournalFixture().created().turn(1, 'a').text('a', 'One ').text('a', 'two');
    const transcript = fold(journal.events);
    const textAt = (seq: number) =>
      shown(transcript, seq).flatMap((row) => (row as { text?: string }).text ?? []);
    expect(textAt(4)).toEqual([]);
    expect(textAt(5)).toEqual(['One ']);
    expect(textAt(6)).toEqual(['One two']);
  });

  it('strikes a text only after it was discarded, and only the text of that turn', () => {
    const { events } = eventfulJournal();
    const discarded = (seq: number) =>
      shown(fold(events), seq).flatMap((row) => {
        const { text, isDiscarded } = row as { text?: string; isDiscarded?: boolean };
        return isDiscarded === true ? [text] : [];
      });
    expect(discarded(7)).toEqual([]);
    expect(discarded(8)).toEqual(['hm', 'Let me see']);
    expect(discarded(events.length)).toEqual(['hm', 'Let me see']);
  });

  it('shows a call as waiting between the request and the decision', () => {
    const journal = new JournalFixture()
      .created()
      .turn(1, 'a')
      .called('one')
      .completed(1)
      .asked('one', 'ap')
      .decided('one', 'ap', true)
      .started('one')
      .finished('one');
    const tool = fold(journal.events).items.find((item): item is ToolItem => item.kind === 'tool');
    if (tool === undefined) throw new Error('no tool');
    const states = journal.events.map(({ seq }) => toolStateAt(tool, seq));
    expect(states.slice(4)).toEqual([
      'called',
      'called',
      'waiting',
      'waiting',
      'waiting',
      'called',
      'running',
      'completed',
    ]);
  });

  it('nests what a sub-agent does, and hides it when the agent is folded', () => {
    const { events, lastSeq } = eventfulJournal();
    const { items } = fold(events);
    const rows = rowsAt(items, lastSeq);
    expect(rows.filter(({ depth }) => depth === 1).map(({ key }) => key)).toEqual(['s.0']);
    const folded = rowsAt(items, lastSeq, ({ kind }) => kind === 'agent');
    expect(folded.map(({ depth }) => depth)).not.toContain(1);
    expect(folded).toHaveLength(rows.length - 1);
  });

  it('can begin with any event of a journal', () => {
    const { events, lastSeq } = eventfulJournal();
    for (let from = 0; from < events.length; from += 1) {
      const rows = rowsAt(fold(events.slice(from)).items, lastSeq);
      expect(rows.at(-1)?.item.kind, `from ${from + 1}`).toBe('note');
      expect(new Set(rows.map(({ key }) => key)).size).toBe(rows.length);
    }
    // A decision whose request is missing still says what was decided.
    const tools = (items: readonly Item[]) => items.filter(({ kind }) => kind === 'tool');
    const from = events.findIndex(({ type }) => type === 'approval.decided');
    expect(tools(fold(events.slice(from)).items)).toHaveLength(1);
  });
});

describe('growing text', () => {
  it('has all of the text in segments, however it was cut into pieces', () => {
    const paragraph = `${'word '.repeat(300)}\n\n`;
    const whole = paragraph.repeat(40);
    const text = new GrowingText();
    for (let at = 0, seq = 1; at < whole.length; at += 7, seq += 1) {
      text.append(seq, whole.slice(at, at + 7));
    }
    expect(text.segments.map((segment) => segment.text).join('')).toBe(whole);
    expect(text.segments.length).toBeGreaterThan(8);
    for (const { start, text: part } of text.segments) {
      expect(whole.slice(start, start + part.length)).toBe(part);
      expect(part.length).toBeLessThan(6_100);
    }
    // Paragraphs are kept together.
    for (const { text: part } of text.segments.slice(0, -1))
      expect(part.endsWith('\n\n')).toBe(true);
  });

  it('splits a line without end, but no character', () => {
    const text = new GrowingText();
    text.append(1, '😀'.repeat(20_000));
    expect(text.segments.length).toBeGreaterThan(2);
    expect(text.segments.map((segment) => segment.text).join('')).toBe('😀'.repeat(20_000));
    for (const { text: part } of text.segments) expect(part.isWellFormed()).toBe(true);
  });

  it('opens a block of code again in the segment that continues it', () => {
    const text = new GrowingText();
    text.append(1, `Look:\n\n\`\`\`ts\n${'const a = 1;\n'.repeat(1_500)}\`\`\`\n\nThat is it.\n`);
    const [first, second, ...rest] = text.segments;
    expect(first?.fence).toBeUndefined();
    expect(second?.fence).toBe('```ts');
    expect(rest.at(-1)?.text ?? second?.text).toContain('That is it.');
  });

  it('finds the length at any seq', () => {
    const text = new GrowingText();
    text.append(5, 'ab');
    text.append(9, 'cde');
    expect([4, 5, 8, 9, 100].map((seq) => text.lengthAt(seq))).toEqual([0, 2, 2, 5, 5]);
  });
});
