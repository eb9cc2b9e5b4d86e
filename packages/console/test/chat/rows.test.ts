import type { Run } from '@relay/protocol/wire';
import { describe, expect, it } from 'vitest';
import type { Sent } from '../../src/pages/chat/outbox.ts';
import { chatRows, isUnread } from '../../src/pages/chat/rows.ts';
import type { JournalState } from '../../src/transcript/journal.ts';
import { Timeline } from '../../src/transcript/timeline.ts';
import { Transcript } from '../../src/transcript/transcript.ts';
import { JournalFixture, root } from '../runs/journal-fixture.ts';

function runOf(id: string): Run {
  return { id, agent: 'support', model: 'demo', status: 'running' } as Run;
}

function stateOf({ events }: JournalFixture): JournalState {
  const [transcript, timeline] = [new Transcript(), new Timeline()];
  for (const event of events) {
    transcript.add(event);
    timeline.add(event);
  }
  return { fold: { events, transcript, timeline }, isWhole: true } as unknown as JournalState;
}

const sent = (fields: Partial<Sent>): Sent => ({
  key: 'sent',
  at: '2026-01-01T12:00:00.000Z',
  conversationId: 'c',
  content: 'hello',
  agent: undefined,
  model: undefined,
  to: undefined,
  earlier: new Set(),
  runId: undefined,
  messageId: undefined,
  error: undefined,
  ...fields,
});

function rowsOf(
  journals: Readonly<Record<string, JournalFixture | undefined>>,
  options: { readonly sent?: readonly Sent[]; readonly toggled?: readonly string[] } = {},
) {
  const read = Object.entries(journals).flatMap(([id, journal]) =>
    journal === undefined ? [] : [[id, stateOf(journal)] as const],
  );
  return chatRows({
    runs: Object.keys(journals).map(runOf),
    journals: new Map(read),
    sent: options.sent ?? [],
    toggled: new Set(options.toggled ?? []),
  });
}

const keysOf = (rows: readonly { readonly key: string }[]) => rows.map(({ key }) => key);

const answered = () => new JournalFixture().created().turn(1, 't').text('t', 'hi').completed(1);

describe('rows of a conversation', () => {
  it('are the runs one after another, without gaps between those that were read', () => {
    const rows = rowsOf({ a: answered(), b: undefined, c: answered(), d: answered() });
    expect(keysOf(rows)).toEqual(['c.c0', 'c.t.0', 'c.end', 'd.c0', 'd.t.0', 'd.end']);
  });

  it('keep the earlier runs while a new one is read', () => {
    expect(keysOf(rowsOf({ a: answered(), b: undefined }))).toEqual(['a.c0', 'a.t.0', 'a.end']);
  });

  it('name the speaker where the words of an agent begin, and again after a handoff', () => {
    const journal = answered()
      .called('h', 'handoff')
      .started('h', 'handoff')
      .add('agent.handed-off', { agentId: root, from: 'support', to: 'billing' })
      .add('agent.switched', {
        agentId: root,
        name: 'billing',
        model: 'demo',
        tools: [],
        maxIterations: 50,
      } as never)
      .finished('h', 'handoff')
      .turn(2, 'u')
      .text('u', 'hello')
      .completed(2);
    const rows = rowsOf({ a: journal });
    const shown = rows.map((row) => [row.key, row.kind === 'item' ? row.speaker : row.kind]);
    expect(shown).toEqual([
      ['a.c0', undefined],
      ['a.t.0', 'support'],
      [expect.stringMatching(/^a\.n/), undefined],
      ['a.u.0', 'billing'],
      ['a.end', 'end'],
    ]);
  });

  it('fold calls until they are opened, and sub-agents when they are closed', () => {
    const journal = answered().called('t1');
    const folded = (toggled: readonly string[]) =>
      rowsOf({ a: journal }, { toggled }).flatMap((row) =>
        row.kind === 'item' && row.row.item.kind === 'tool' ? [row.isFolded] : [],
      );
    expect(folded([])).toEqual([true]);
    expect(folded(['a.tt1'])).toEqual([false]);
    expect(folded(['b.tt1'])).toEqual([true]);
  });

  it('show all segments of a long text', () => {
    const long = new JournalFixture().created().turn(1, 't');
    for (let line = 0; line < 3_000; line += 1) long.text('t', `line ${line}\n`);
    const texts = keysOf(rowsOf({ a: long })).filter((key) => key.startsWith('a.t.'));
    expect(texts.length).toBeGreaterThan(2);
  });

  it('show a message that is being sent until the journal of its run has it', () => {
    const message = sent({ earlier: new Set(['a']) });
    expect(keysOf(rowsOf({ a: answered() }, { sent: [message] })).at(-1)).toBe('sent');
    expect(keysOf(rowsOf({ a: answered(), b: undefined }, { sent: [message] })).at(-1)).toBe(
      'sent',
    );
    expect(keysOf(rowsOf({ a: answered(), b: answered() }, { sent: [message] }))).not.toContain(
      'sent',
    );
    const other = sent({ earlier: new Set(['a']), runId: 'c' });
    expect(keysOf(rowsOf({ a: answered(), b: answered() }, { sent: [other] })).at(-1)).toBe('sent');
  });

  it('show a message to a run until the run has read it', () => {
    const messageId = '01900000-0000-7000-8000-00000000000f';
    const message = sent({ to: 'a', messageId });
    expect(keysOf(rowsOf({ a: answered() }, { sent: [message] })).at(-1)).toBe('sent');
    const read = answered().add('message.added', {
      agentId: root,
      messageId,
      mode: 'next-message',
      from: { type: 'key', id: root, name: 'ada' },
      content: 'hello',
    });
    expect(keysOf(rowsOf({ a: read }, { sent: [message] }))).not.toContain('sent');
  });

  it('know a message that a run has not read before it ended', () => {
    const message = sent({ to: 'a', messageId: 'm' });
    expect(isUnread(message, new Map([['a', stateOf(answered())]]))).toBe(false);
    expect(isUnread(message, new Map([['a', stateOf(answered().ended())]]))).toBe(true);
    // The server may not have taken it yet.
    const early = sent({ to: 'a' });
    expect(isUnread(early, new Map([['a', stateOf(answered().ended())]]))).toBe(false);
  });
});
