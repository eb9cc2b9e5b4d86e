import type { RunEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeEvents, encodeEvents, TurnText } from '../../src/codec/events.ts';

const at = '2026-01-01T00:00:00.000Z';
const id = fc.constantFrom('id-a', 'id-b');
/** Any UTF-16 there is, lone surrogates and NUL among it. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
);
const withParent = <Event extends object>(event: fc.Arbitrary<Event>) =>
  fc
    .tuple(event, fc.option(id, { nil: undefined }))
    .map(([fields, parentId]) => (parentId === undefined ? fields : { ...fields, parentId }));

const textDelta = withParent(
  fc.record({ type: fc.constant('text.appended'), agentId: id, textId: id, text }),
);
const reasoningDelta = withParent(
  fc.record({ type: fc.constant('reasoning.appended'), agentId: id, reasoningId: id, text }),
);
const toolCall = fc.record({
  type: fc.constant('tool.called'),
  agentId: id,
  toolCallId: text,
  name: text,
  input: fc.jsonValue(),
});
const usage = fc.record({ inputTokens: fc.nat(1), outputTokens: fc.nat(1) });
const progress = fc.record({
  partialOutput: fc.constantFrom('', 'x'),
  toolsInvoked: fc.constantFrom([], ['t']),
});
const optional: { requiredKeys: 'type'[] } = { requiredKeys: ['type'] };
const runStarted = fc.record({ type: fc.constant('run.started'), progress }, optional);
const turnCompleted = withParent(
  fc.record(
    { type: fc.constant('turn.completed'), agentId: id, turn: fc.nat(1), finishReason: id, usage },
    optional,
  ),
);
const agentEnded = withParent(
  fc.record(
    {
      type: fc.constant('agent.ended'),
      agentId: id,
      reason: id,
      usage,
      progress,
      finishReason: id,
    },
    optional,
  ),
);
const runEnded = fc.record(
  { type: fc.constant('run.ended'), status: id, usage, agent: id, error: id, finishReason: id },
  optional,
);
const lifecycle = fc.oneof(runStarted, turnCompleted, agentEnded, runEnded);
const events = fc.array(
  fc.oneof(textDelta, textDelta, reasoningDelta, toolCall, lifecycle, lifecycle),
) as fc.Arbitrary<unknown> as fc.Arbitrary<RunEvent[]>;

function roundTrip(written: readonly RunEvent[]): RunEvent[] {
  return decodeEvents(encodeEvents(written), { seq: 1, at }).map(
    ({ seq: _seq, at: _at, ...event }) => event,
  );
}

function delta(part: string, over: object = {}): RunEvent {
  return { type: 'text.appended', agentId: 'a', textId: 't', text: part, ...over };
}

describe('the codec of journal rows', () => {
  test('whatever was written is read back, down to the order of the fields', () => {
    fc.assert(
      fc.property(events, (written) => {
        expect(JSON.stringify(roundTrip(written))).toBe(JSON.stringify(written));
      }),
      { numRuns: 500 },
    );
  });

  test('every event gets its place and the time of the row', () => {
    fc.assert(
      fc.property(events, fc.integer({ min: 1, max: 1_000_000 }), (written, seq) => {
        const read = decodeEvents(encodeEvents(written), { seq, at });
        expect(read.map((event) => event.seq)).toEqual(written.map((_, i) => seq + i));
        expect(read.every((event) => event.at === at)).toBe(true);
      }),
    );
  });

  test('the payload is well-formed text without NUL, whatever the events hold', () => {
    fc.assert(
      fc.property(events, (written) => {
        const payload = encodeEvents(written);
        expect(payload.isWellFormed()).toBe(true);
        expect(payload.includes('\u0000')).toBe(false);
      }),
    );
  });

  test('a run of deltas is stored as one entry with the whole text and the length of each', () => {
    const payload = encodeEvents([delta('ab'), delta(''), delta('c'), delta('x'.repeat(35))]);
    expect(JSON.parse(payload)).toEqual([
      {
        type: 'text.appended',
        agentId: 'a',
        textId: 't',
        text: `abc${'x'.repeat(35)}`,
        lengths: '201z',
      },
    ]);
  });

  test('a long delta is an entry of its own, without the ids of the one before it', () => {
    const long = 'x'.repeat(36);
    const payload = encodeEvents([delta('a'), delta('b'), delta(long), delta('c')]);
    expect(JSON.parse(payload)).toEqual([
      { type: 'text.appended', agentId: 'a', textId: 't', text: 'ab', lengths: '11' },
      { type: 'text.appended', text: long },
      { type: 'text.appended', text: 'c' },
    ]);
  });

  test('a field that repeats the entry before, or is as usual, is left out', () => {
    const inTurn = { agentId: 'a', turn: 1 };
    const tokens = { inputTokens: 1, outputTokens: 2 };
    const written: RunEvent[] = [
      { type: 'run.started', progress: { partialOutput: '', toolsInvoked: [] } },
      { type: 'turn.completed', ...inTurn, finishReason: 'stop', usage: tokens },
      { type: 'agent.ended', agentId: 'a', reason: 'completed', iterations: 1, usage: tokens },
      { type: 'run.ended', status: 'completed', output: 'x', usage: tokens, finishReason: 'stop' },
    ];
    expect(JSON.parse(encodeEvents(written))).toEqual([
      { type: 'run.started' },
      { type: 'turn.completed', ...inTurn, finishReason: 'stop', usage: tokens },
      { type: 'agent.ended', reason: 'completed', iterations: 1 },
      { type: 'run.ended', status: 'completed', output: 'x' },
    ]);
    expect(roundTrip(written)).toEqual(written);
  });

  test('an entry that lacks a field of the one before leaves out nothing', () => {
    const tokens = { inputTokens: 1, outputTokens: 2 };
    const answered = {
      type: 'run.ended',
      status: 'completed',
      output: 'x',
      usage: tokens,
    } as const;
    const written: RunEvent[] = [{ ...answered, agent: 'assistant' }, answered];
    expect(JSON.parse(encodeEvents(written))).toEqual([written[0], { ...answered, all: true }]);
    expect(roundTrip(written)).toEqual(written);
  });

  test('a run ends where anything but the text changes', () => {
    const other: RunEvent = {
      type: 'approval.expired',
      agentId: 'a',
      approvalId: 'r',
      toolCallId: 'c',
    };
    const breaks = [
      delta('x', { agentId: 'b' }),
      delta('x', { textId: 'u' }),
      delta('x', { parentId: 'p' }),
      delta('x', { note: 'from a later version' }),
      { type: 'reasoning.appended', agentId: 'a', reasoningId: 't', text: 'x' } as const,
      other,
    ];
    for (const between of breaks) {
      const written = [delta('1'), delta('2'), between, delta('3'), delta('4')];
      const entries = JSON.parse(encodeEvents(written)) as { text?: unknown }[];
      expect(entries).toHaveLength(3);
      expect(entries.map((entry) => entry.text)).toEqual([
        '12',
        'text' in between ? 'x' : undefined,
        '34',
      ]);
      expect(roundTrip(written)).toEqual(written);
    }
  });

  test('two hundred tokens take a fraction of what their events would', () => {
    const tokens = Array.from({ length: 200 }, (_, i) => delta(` token${i}`));
    expect(encodeEvents(tokens).length).toBeLessThan(JSON.stringify(tokens).length / 5);
  });

  test('the events that were handed in are not changed', () => {
    const written = [delta('a'), delta('b')].map((event) => Object.freeze(event));
    decodeEvents(encodeEvents(written), { seq: 1, at });
    expect(written).toEqual([delta('a'), delta('b')]);
  });

  test('no events are an empty payload', () => {
    expect(encodeEvents([])).toBe('[]');
    expect(decodeEvents('[]', { seq: 1, at })).toEqual([]);
  });
});

describe('TurnText', () => {
  test('has ended with the end of its turn, not with that of another agent', () => {
    const turn = { type: 'turn.started', agentId: 'a', turn: 1, textId: 't', reasoningId: 'r' };
    const text = { type: 'text.appended', agentId: 'a', textId: 't', text: 'one ' };
    const usage = { inputTokens: 1, outputTokens: 1 };
    const end = { type: 'turn.completed', agentId: 'a', turn: 1, finishReason: 'stop', usage };
    const rows = [
      [turn, text, { ...end, agentId: 'b', parentId: 'a' }],
      [{ ...text, text: 'two' }],
      [end],
    ] as RunEvent[][];
    const found = new TurnText(7);
    const ends = rows.map((events) => {
      found.add(encodeEvents(events), found.next);
      return found.hasEnded;
    });
    expect(ends).toEqual([false, false, true]);
    expect([found.text, found.next]).toEqual(['one two', 12]);
  });
});
