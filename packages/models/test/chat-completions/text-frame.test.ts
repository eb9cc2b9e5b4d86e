import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TextFrame } from '../../src/chat-completions/text-frame.ts';

function data(content: string): string {
  return JSON.stringify({
    id: 'c1',
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
  });
}

function taught(frame: string, text: string): TextFrame {
  const known = new TextFrame();
  known.record(frame, text);
  return known;
}

describe('a known text frame', () => {
  it('is read without being parsed', () => {
    const known = taught(data('Hello'), 'Hello');
    expect(known.read(data(' world'))).toBe(' world');
    expect(known.read(data('zwölf 🙂'))).toBe('zwölf 🙂');
  });

  it('is unknown before the first was parsed', () => {
    expect(new TextFrame().read(data('Hello'))).toBeUndefined();
  });

  it('is left to the parser where the text is escaped', () => {
    const known = taught(data('Hello'), 'Hello');
    for (const text of ['"', '\\', '\n', '\u0000', 'a"b', '\\n']) {
      expect(known.read(data(text))).toBeUndefined();
    }
    // Not JSON at all, though it looks like it.
    expect(known.read(data('ab').replace('ab', 'a\nb'))).toBeUndefined();
    expect(known.read(data('ab').replace('ab', 'a"b'))).toBeUndefined();
  });

  it('is left to the parser where the text is empty or long', () => {
    const known = taught(data('Hello'), 'Hello');
    expect(known.read(data(''))).toBeUndefined();
    expect(known.read(data('exactly12345'))).toBe('exactly12345');
    expect(known.read(data('exactly123456'))).toBeUndefined();
  });

  it('is left to the parser where anything else differs', () => {
    const known = taught(data('Hello'), 'Hello');
    const other = data('Hello');
    for (let at = 0; at < other.length; at += 1) {
      if (at >= other.indexOf('Hello') && at < other.indexOf('Hello') + 5) continue;
      expect(known.read(`${other.slice(0, at)}~${other.slice(at + 1)}`)).toBeUndefined();
      expect(known.read(other.slice(0, at))).toBeUndefined();
    }
  });

  it('may have spaces wherever JSON allows them', () => {
    const spaced = '{ "choices" : [ { "delta" : { "content" : "Hi" } } ] }';
    expect(taught(spaced, 'Hi').read(spaced.replace('Hi', 'there'))).toBe('there');
  });

  it('is not learnt from a frame with an ambiguous position of the text', () => {
    const frames: [string, string][] = [
      // The last of two keys counts.
      ['{"choices":[{"delta":{"content":"a","content":"b"}}]}', 'b'],
      ['{"choices":[{"delta":{"content":"b","content":"b"}}]}', 'b'],
      // Another object says "content" first.
      ['{"x":{"content":"b"},"choices":[{"delta":{"content":"b"}}]}', 'b'],
      ['{"content":"b","choices":[{"delta":{"role":"b","content":"b"}}]}', 'b'],
      // The key is spelt with an escape, or the text is.
      ['{"choices":[{"delta":{"content":"b","c\\u006fntent":"b"}}]}', 'b'],
      ['{"choices":[{"delta":{"content":"\\u0062"}}]}', 'b'],
      // "content" is a text, not a key.
      ['{"m":"content","choices":[{"delta":{"content":"b"}}]}', 'b'],
      // What stands for the text is there already.
      ['{"id":"~content~","choices":[{"delta":{"content":"b"}}]}', 'b'],
      ['{"choices":[{"delta":{"content":"~content~"}}]}', '~content~'],
    ];
    for (const [frame, text] of frames) {
      const known = taught(frame, text);
      expect(known.read(frame), frame).toBeUndefined();
      expect(known.read(frame.replace('b', 'c')), frame).toBeUndefined();
    }
  });

  it('is not sought for ever in a stream that varies', () => {
    const known = new TextFrame();
    for (let n = 0; n < 3; n += 1) known.record(`{"n":${n},"content":3}`, 'x');
    known.record(data('Hello'), 'Hello');
    expect(known.read(data('world'))).toBeUndefined();
  });

  it('never says anything else than the parser does', () => {
    const word = fc.oneof(
      fc.string({ maxLength: 14 }),
      fc.constantFrom('"', '\\', '"}', '","content":"x'),
    );
    const rest = fc.record(
      { id: fc.string(), content: fc.string({ maxLength: 3 }), model: fc.string() },
      { requiredKeys: [] },
    );
    const indent = fc.constantFrom(undefined, 1);
    const first = fc.oneof({ weight: 4, arbitrary: fc.constantFrom('Hello', ' the') }, word);
    let read = 0;
    fc.assert(
      fc.property(fc.record({ rest, first, second: word, indent }), (given) => {
        const chunk = (content: string) => ({
          ...given.rest,
          choices: [{ delta: { role: 'assistant', content } }],
        });
        const make = (content: string) => JSON.stringify(chunk(content), null, given.indent);
        const known = taught(make(given.first), given.first);
        // Also with the raw text put in, which may be broken JSON or mean something else.
        const raw = make('@@').replace('@@', () => given.second);
        for (const frame of [make(given.second), raw, `${raw} `, raw.slice(1)]) {
          const text = known.read(frame);
          if (text === undefined) continue;
          read += 1;
          expect(JSON.parse(frame)).toEqual(chunk(text));
        }
      }),
      { numRuns: 4_000 },
    );
    expect(read).toBeGreaterThan(100);
  });
});
