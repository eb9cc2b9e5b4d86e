import type { RunEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { packJson, unpackJson } from '../../src/codec/compression.ts';
import { addEvents, decodeRow, encodeRow, TurnText } from '../../src/codec/events.ts';

const at = Date.parse('2026-01-01T00:00:00.000Z');
const iso = (time: number) => new Date(time).toISOString();
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

/** Appends that were added to one row, one after the other; the clock may have been set back. */
const batches = fc.array(
  fc.record({
    events: events.filter(({ length }) => length > 0),
    at: fc.integer({ min: at - 1_000, max: at + 100_000 }),
  }),
  { minLength: 1 },
);

function encode(written: readonly RunEvent[]): string {
  return encodeRow(addEvents(undefined, { at, events: written }));
}

function roundTrip(written: readonly RunEvent[]): RunEvent[] {
  return decodeRow(encode(written), { seq: 1, at }).map(
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

  test('what several appends have added to a row is read back with the time of each', () => {
    fc.assert(
      fc.property(batches, fc.integer({ min: 1, max: 1_000_000 }), (appends, first) => {
        const [{ at: began } = { at }] = appends;
        const row = appends.reduce<ReturnType<typeof addEvents> | undefined>(addEvents, undefined);
        expect(row).toBeDefined();
        if (row === undefined) return;
        let seq = first;
        const written = appends.flatMap((append) =>
          append.events.map((event) => ({ ...event, seq: seq++, at: iso(append.at) })),
        );
        const read = decodeRow(encodeRow(row), { seq: first, at: began });
        expect(JSON.stringify(read)).toBe(JSON.stringify(written));
        expect(row.count).toBe(written.length);
      }),
      { numRuns: 500 },
    );
  });

  test('adding to a row does not change it: the append may fail', () => {
    const row = addEvents(undefined, { at, events: [delta('a'), delta('b')] });
    const before = encodeRow(row);
    const added = encodeRow(addEvents(row, { at: at + 5, events: [delta('c')] }));
    expect(encodeRow(row)).toBe(before);
    expect(added).not.toBe(before);
  });

  test('the row is well-formed text without NUL, whatever the events hold', () => {
    fc.assert(
      fc.property(events, (written) => {
        const json = encode(written);
        expect(json.isWellFormed()).toBe(true);
        expect(json.includes('\u0000')).toBe(false);
      }),
    );
  });

  test('a run of deltas is stored as one entry with the whole text and the length of each', () => {
    const json = encode([delta('ab'), delta(''), delta('c'), delta('x'.repeat(35))]);
    expect(JSON.parse(json)).toEqual([
      {
        type: 'text.appended',
        agentId: 'a',
        textId: 't',
        text: `abc${'x'.repeat(35)}`,
        lengths: '201z',
      },
    ]);
  });

  test('deltas of several appends are one entry with the time between them', () => {
    const appends = [
      { at, events: [delta('ab'), delta('c')] },
      { at: at + 5, events: [delta('def')] },
      { at: at + 5, events: [delta('g')] },
      { at: at + 5 + 26 * 26, events: [delta('h')] },
    ];
    const row = appends.reduce<ReturnType<typeof addEvents> | undefined>(addEvents, undefined);
    expect(row?.entries).toEqual([{ ...delta('abcdefgh'), lengths: '21F31BAA1' }]);
    const turn = new TurnText(4);
    turn.add('[{"type":"turn.started","textId":"t"}]', 4);
    turn.add(JSON.stringify(row?.entries), 5);
    expect([turn.text, turn.next]).toEqual(['abcdefgh', 10]);
  });

  test('a long delta is an entry of its own', () => {
    const long = 'x'.repeat(36);
    expect(JSON.parse(encode([delta('a'), delta('b'), delta(long), delta('c')]))).toEqual([
      { ...delta('ab'), lengths: '11' },
      delta(long),
      { ...delta('c'), lengths: '1' },
    ]);
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
      const entries = JSON.parse(encode(written)) as { text?: unknown }[];
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
    expect(encode(tokens).length).toBeLessThan(JSON.stringify(tokens).length / 5);
  });

  test('the events that were handed in are not changed', () => {
    const written = [delta('a'), delta('b')].map((event) => Object.freeze(event));
    decodeRow(encode(written), { seq: 1, at });
    expect(written).toEqual([delta('a'), delta('b')]);
  });

  test('no events are an empty row', () => {
    expect(encode([])).toBe('[]');
    expect(decodeRow('[]', { seq: 1, at })).toEqual([]);
  });
});

describe('the compression of journal rows', () => {
  test('gives back the same text, whatever its length', () => {
    fc.assert(
      fc.property(events, fc.nat(200), (written, times) => {
        const json = JSON.stringify(Array.from({ length: times }, () => written));
        const packed = packJson(json);
        expect(packed.length).toBeLessThanOrEqual(json.length);
        expect(unpackJson(packed, Buffer.byteLength(json))).toBe(json);
      }),
    );
  });

  test('halves a row of some length, and leaves short and very long ones as they are', () => {
    const of = (length: number) => encode([delta('the text of an answer '.repeat(length / 20))]);
    expect(packJson(of(1_000)).length).toBeLessThan(of(1_000).length / 2);
    for (const json of [of(100), of(100_000)]) expect(packJson(json)).toBe(json);
  });

  test('does not inflate a row beyond its size', () => {
    const json = encode([delta('x'.repeat(10_000))]);
    expect(() => unpackJson(packJson(json), json.length - 1)).toThrow(RangeError);
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
      found.add(encode(events), found.next);
      return found.hasEnded;
    });
    expect(ends).toEqual([false, false, true]);
    expect([found.text, found.next]).toEqual(['one two', 12]);
  });
});
