import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeComment, encodeFrame, encodeRetry, SseParser } from '../../src/sse/sse.ts';
import type { ParsedFrame, SseFrame, SseParserOptions } from '../../src/sse/sse.ts';

interface Reading {
  frames: ParsedFrame[];
  comments: string[];
  retries: number[];
  lastEventId: string;
}

function parse(chunks: readonly string[], options: SseParserOptions = {}): Reading {
  const frames: ParsedFrame[] = [];
  const comments: string[] = [];
  const retries: number[] = [];
  const parser = new SseParser((frame) => frames.push(frame), {
    onComment: (text) => comments.push(text),
    onRetry: (ms) => retries.push(ms),
    ...options,
  });
  for (const chunk of chunks) parser.feed(chunk);
  parser.end();
  return { frames, comments, retries, lastEventId: parser.lastEventId };
}

function cutAt(text: string, cuts: readonly number[]): string[] {
  const places = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length];
  places.sort((a, b) => a - b);
  return places.slice(1).map((place, index) => text.slice(places[index], place));
}

/** Every way to cut a text in two, every character alone, and the whole. */
function everySplit(text: string): string[][] {
  const pairs = Array.from({ length: text.length + 1 }, (_, at) => [
    text.slice(0, at),
    text.slice(at),
  ]);
  return [[text], text.split(''), ...pairs];
}

/** The WHATWG rules written down once more, for whole texts only and with no care for speed. */
function reference(text: string): ParsedFrame[] {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/);
  lines.pop();
  const frames: ParsedFrame[] = [];
  let buffer = '';
  let event = '';
  let id = '';
  for (const line of lines) {
    const [, name = '', value = ''] = /^([^:]*)(?::[ ]?([^]*))?$/.exec(line) ?? [];
    if (line === '') {
      if (buffer !== '') frames.push({ id, event: event || 'message', data: buffer.slice(0, -1) });
      buffer = '';
      event = '';
    } else if (name === 'data') buffer += `${value}\n`;
    else if (name === 'event') event = value;
    else if (name === 'id' && !value.includes('\0')) id = value;
  }
  return frames;
}

const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  // Lone surrogates included: any sequence of UTF-16 code units.
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 })
    .map((units) => String.fromCharCode(...units)),
  fc
    .array(fc.constantFrom('\r', '\n', '\0', ':', ' ', '\u2028', '\uFEFF', '\uD800', 'data: x'))
    .map((parts) => parts.join('')),
);
const oneLine = anyText.map((text) => text.replace(/[\r\n\0]/g, ''));
const jsonFrame: fc.Arbitrary<SseFrame & { value: unknown }> = fc
  .record(
    {
      id: fc.oneof(fc.nat(), oneLine),
      event: oneLine,
      value: fc.oneof(anyText, fc.jsonValue(), fc.record({ text: anyText })),
    },
    { requiredKeys: ['value'] },
  )
  .map((frame) => ({ ...frame, data: JSON.stringify(frame.value) }));
const cutPlaces = fc.array(fc.nat(), { maxLength: 12 });

describe('encodeFrame', () => {
  it('writes id, then event, then data', () => {
    expect(encodeFrame({ data: '{}', event: 'token', id: 7 })).toBe(
      'id: 7\nevent: token\ndata: {}\n\n',
    );
  });

  it('omits unset fields', () => {
    expect(encodeFrame({ data: '' })).toBe('data: \n\n');
    expect(encodeFrame({ id: 0, data: 'x' })).toBe('id: 0\ndata: x\n\n');
    expect(encodeFrame({ event: 'ping', data: 'x' })).toBe('event: ping\ndata: x\n\n');
  });

  it('writes one data line per line of data', () => {
    expect(encodeFrame({ data: 'a\nb\rc\r\nd\n\re' })).toBe(
      'data: a\ndata: b\ndata: c\ndata: d\ndata: \ndata: e\n\n',
    );
    expect(encodeFrame({ data: '\r' })).toBe('data: \ndata: \n\n');
  });

  it.each(['\r', '\n', '\0'])('rejects %j in an id and in an event name', (char) => {
    expect(() => encodeFrame({ id: `a${char}b`, data: '' })).toThrow(TypeError);
    expect(() => encodeFrame({ event: `a${char}b`, data: '' })).toThrow(TypeError);
  });

  it('keeps any data in one frame, with its line ends read back as LF', () => {
    fc.assert(
      fc.property(anyText, (data) => {
        const expected = [{ id: '', event: 'message', data: data.replace(/\r\n|\r/g, '\n') }];
        expect(parse([encodeFrame({ data })]).frames).toEqual(expected);
      }),
    );
  });
});

describe('encodeComment and encodeRetry', () => {
  it('escapes line ends in comments', () => {
    expect(encodeComment('hb')).toBe(': hb\n\n');
    fc.assert(
      fc.property(anyText, (text) => {
        const { frames, comments } = parse([encodeComment(`${text}\n\ndata: x\r\rdata: y`)]);
        expect(frames).toEqual([]);
        expect(comments.join('\n')).toBe(`${text}\n\ndata: x\r\rdata: y`.replace(/\r\n|\r/g, '\n'));
      }),
    );
  });

  it('writes a retry in whole milliseconds and rejects other values', () => {
    expect(encodeRetry(0)).toBe('retry: 0\n\n');
    expect(parse([encodeRetry(1500)]).retries).toEqual([1500]);
    for (const ms of [-1, 1.5, NaN, Infinity, 1e21]) {
      expect(() => encodeRetry(ms)).toThrow(TypeError);
    }
  });
});

describe('SSE round trip', () => {
  it('preserves any JSON under any chunking', () => {
    fc.assert(
      fc.property(fc.array(jsonFrame, { maxLength: 5 }), cutPlaces, (sent, cuts) => {
        const { frames } = parse(cutAt(sent.map(encodeFrame).join(''), cuts));
        expect(frames.map((frame) => frame.data)).toEqual(sent.map((frame) => frame.data));
        expect(frames.map((frame) => frame.event)).toEqual(
          sent.map((frame) => frame.event || 'message'),
        );
        let id = '';
        expect(frames.map((frame) => frame.id)).toEqual(
          sent.map((frame) => (id = frame.id === undefined ? id : String(frame.id))),
        );
      }),
    );
  });

  it('preserves any text in JSON at every split point', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const wire = encodeFrame({ id: 1, event: 'token', data: JSON.stringify({ text }) });
        for (const chunks of everySplit(wire)) {
          const { frames } = parse(chunks);
          expect(frames).toHaveLength(1);
          expect(JSON.parse(frames[0]!.data)).toEqual({ text });
        }
      }),
      { numRuns: 50 },
    );
  });

  it.each([
    'a\n\ndata: x',
    'a\r\rdata: x',
    'a\r\n\r\nevent: done\r\ndata: {}\r\n\r\n',
    '\r',
    '\u2028\u2029\u0085',
    'id: 9\0',
    '\uD800 and \uDC00',
    '\uFEFFdata: x',
  ])('keeps %j inside its one frame', (text) => {
    const wire = encodeFrame({ id: 3, event: 'token', data: JSON.stringify(text) });
    for (const chunks of everySplit(wire)) {
      const { frames } = parse(chunks);
      expect(frames).toEqual([{ id: '3', event: 'token', data: JSON.stringify(text) }]);
      expect(JSON.parse(frames[0]!.data)).toBe(text);
    }
  });
});

describe('SseParser', () => {
  it('follows the WHATWG rules under any chunking', () => {
    const piece = fc.oneof(
      fc.constantFrom('\r', '\n', '\r\n', '\n\n', '\r\n\r\n', '\n\r', '\r\r'),
      fc.constantFrom(':', ': ', ' ', '\0', '\uFEFF', 'x', '7', ': note', 'retry: ', 'Data: '),
      fc.constantFrom('data', 'data:', 'data: ', 'event:', 'event: a', 'id: ', 'id', 'id: 1'),
    );
    const stream = fc.array(piece, { maxLength: 60 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(stream, cutPlaces, (text, cuts) => {
        const whole = parse([text]);
        expect(whole.frames).toEqual(reference(text));
        expect(parse(cutAt(text, cuts))).toEqual(whole);
        expect(parse(text.split(''))).toEqual(whole);
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    ['LF', '\n'],
    ['CR', '\r'],
    ['CRLF', '\r\n'],
  ])('ends lines at %s at every split point', (_, end) => {
    const text = `event: a${end}data: 1${end}data: 2${end}${end}data: 3${end}${end}`;
    for (const chunks of everySplit(text)) {
      expect(parse(chunks).frames).toEqual([
        { id: '', event: 'a', data: '1\n2' },
        { id: '', event: 'message', data: '3' },
      ]);
    }
  });

  it('reads mixed line ends', () => {
    for (const chunks of everySplit('data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r')) {
      expect(parse(chunks).frames.map((frame) => frame.data)).toEqual(['a\nb\nc', 'd']);
    }
  });

  it('delivers a frame that ends in CR without waiting for a next chunk', () => {
    const seen: string[] = [];
    const parser = new SseParser((frame) => seen.push(frame.data));
    parser.feed('data: a\r\r');
    expect(seen).toEqual(['a']);
    parser.feed('');
    parser.feed('\ndata: b\r\n\r\n');
    expect(seen).toEqual(['a', 'b']);
  });

  it('removes one byte order mark, at the start only', () => {
    expect(parse(['', '\uFEFF', 'data: a\n\n']).frames).toHaveLength(1);
    expect(parse(['\uFEFF\uFEFFdata: a\n\n']).frames).toEqual([]);
    expect(parse(['data: a\n\n\uFEFFdata: b\n\n']).frames).toHaveLength(1);
  });

  it('removes one space after the colon', () => {
    const { frames } = parse(['data:a\ndata: b\ndata:  c\ndata:\td\ndata: e:f \n\n']);
    expect(frames[0]?.data).toBe('a\nb\n c\n\td\ne:f ');
  });

  it('reads a field without a colon as empty', () => {
    expect(parse(['data\n\ndata\ndata\n\ndata:']).frames.map((frame) => frame.data)).toEqual([
      '',
      '\n',
    ]);
    expect(parse(['id: 4\nid\nevent: a\nevent\ndata: x\n\n']).frames).toEqual([
      { id: '', event: 'message', data: 'x' },
    ]);
  });

  it('ignores unknown fields, and known ones in another case or with a space before', () => {
    expect(parse(['Data: a\n data: b\nfoo: c\nbar\ndata : d\n\n']).frames).toEqual([]);
  });

  it('ignores comments inside a frame and hands them to onComment', () => {
    const { frames, comments } = parse([': one\ndata: a\n:two\n:\ndata: b\n\n']);
    expect(frames.map((frame) => frame.data)).toEqual(['a\nb']);
    expect(comments).toEqual(['one', 'two', '']);
  });

  it('uses the last event name of a frame and resets it after the frame', () => {
    const { frames } = parse(['event: a\nevent: b\ndata: 1\n\ndata: 2\n\nevent: c\n\ndata: 3\n\n']);
    expect(frames.map((frame) => frame.event)).toEqual(['b', 'message', 'message']);
  });

  it('keeps the last event id for frames without one, and resets it by an empty one', () => {
    const { frames } = parse(['id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n']);
    expect(frames.map((frame) => frame.id)).toEqual(['1', '1', '']);
  });

  it('ignores an id with NUL', () => {
    expect(parse(['id: 1\nid: 2\0\ndata: a\n\n']).frames[0]?.id).toBe('1');
  });

  it('dispatches nothing for a frame without data but keeps its id', () => {
    const { frames, lastEventId } = parse(['id: 8\nevent: a\n\n\n\n']);
    expect(frames).toEqual([]);
    expect(lastEventId).toBe('8');
  });

  it('accepts a retry of digits only', () => {
    const text = ['10', '', '1.5', '-1', '1e3', ' 7', '0x10', '٣', '007', '9'.repeat(400)]
      .map((value) => `retry: ${value}\n`)
      .join('');
    expect(parse([text]).retries).toEqual([10, 7, Number.MAX_SAFE_INTEGER]);
  });

  it('drops an unfinished frame at the end, with its id', () => {
    const { frames, lastEventId } = parse(['id: 1\ndata: a\n\nid: 2\ndata: b\n']);
    expect(frames.map((frame) => frame.data)).toEqual(['a']);
    expect(lastEventId).toBe('1');
  });

  it('keeps the last event id for the next stream after end()', () => {
    const seen: ParsedFrame[] = [];
    const parser = new SseParser((frame) => seen.push(frame));
    parser.feed('id: 1\ndata: a\n\nid: 2\nevent: x\ndata: cut\ndata: of');
    parser.end();
    parser.feed('\uFEFFdata: b\n\n');
    expect(seen).toEqual([
      { id: '1', event: 'message', data: 'a' },
      { id: '1', event: 'message', data: 'b' },
    ]);
  });

  describe('with a limit', () => {
    const limit = { maxFrameChars: 20 };

    it.each([
      ['one long line', `data: ${'x'.repeat(15)}\n\n`],
      ['a line that never ends', 'x'.repeat(21)],
      ['many data lines', 'data: x\n'.repeat(3)],
      ['many empty data lines', 'data\r\n'.repeat(6)],
      ['comments', ': note\n'.repeat(4)],
    ])('throws a RangeError for %s, under any chunking', (_, text) => {
      for (const chunks of everySplit(text)) expect(() => parse(chunks, limit)).toThrow(RangeError);
    });

    it('accepts frame after frame of exactly the limit', () => {
      const text = `data: ${'x'.repeat(14)}\r\n\r\n`.repeat(50);
      for (const chunks of [[text], text.split('')]) {
        expect(parse(chunks, limit).frames).toHaveLength(50);
      }
    });

    it('does not read the rest of a frame that was too long', () => {
      const seen: string[] = [];
      const parser = new SseParser((frame) => seen.push(frame.data), limit);
      expect(() => parser.feed('data: '.repeat(10))).toThrow(RangeError);
      expect(() => parser.feed('\n\ndata: forged\n\n')).toThrow(RangeError);
      expect(() => parser.feed('\ndata: forged\n\n')).toThrow(RangeError);
      parser.end();
      parser.feed('data: next\n\n');
      expect(seen).toEqual(['next']);
    });
  });

  describe('at eight times the input', () => {
    const fastest = (work: () => void): number => {
      const times = Array.from({ length: 5 }, () => {
        const start = performance.now();
        work();
        return performance.now() - start;
      });
      return Math.min(...times);
    };

    // Linear is 8 and quadratic 64; the sizes are those where a rescan would dominate.
    it.each<[string, (size: number) => string[]]>([
      ['one frame in single characters', (size) => `data: ${'x'.repeat(size)}\n\n`.split('')],
      ['short LF lines in one chunk', (size) => ['data: x\n\n'.repeat(size / 8)]],
      ['short CR lines in one chunk', (size) => ['data: x\r\r'.repeat(size / 8)]],
      ['lines without a colon in one chunk', (size) => ['xyzxyzx\n'.repeat(size / 8)]],
      ['a frame of many data lines', (size) => ['data: x\n'.repeat(size / 8), '\n']],
      ['a long line before a short one', (size) => [':'.repeat(size), '\n', 'data: x\n\n']],
    ])('stays far from quadratic for %s', { retry: 3 }, (_, chunksOf) => {
      const small = chunksOf(128 * 1024);
      const large = chunksOf(1024 * 1024);
      fastest(() => parse(small));
      const ratio = fastest(() => parse(large)) / fastest(() => parse(small));
      expect(ratio).toBeLessThan(32);
    });
  });
});
