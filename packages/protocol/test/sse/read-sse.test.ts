import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFrame, readSse } from '../../src/sse/sse.ts';
import type { ParsedFrame, SseParserOptions } from '../../src/sse/sse.ts';

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

describe('readSse', () => {
  const utf8 = new TextEncoder();

  /** What Safari gives: a stream with a reader and no async iterator. */
  function readerOnly(stream: ReadableStream<Uint8Array>) {
    return { getReader: () => stream.getReader() };
  }

  function streamOf(chunks: Uint8Array[], failure?: Error) {
    const state = { cancelled: false };
    const left = [...chunks];
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        const chunk = left.shift();
        if (chunk !== undefined) controller.enqueue(chunk);
        else if (failure !== undefined) controller.error(failure);
        else controller.close();
      },
      cancel() {
        state.cancelled = true;
      },
    });
    return { state, stream };
  }

  async function* iterate(chunks: Uint8Array[], onLeave = () => {}): AsyncGenerator<Uint8Array> {
    try {
      yield* chunks;
    } finally {
      onLeave();
    }
  }

  /** The frames that came, and what ended them if it was a failure. */
  async function collect(source: Parameters<typeof readSse>[0], options: SseParserOptions = {}) {
    const frames: ParsedFrame[] = [];
    try {
      for await (const frame of readSse(source, options)) frames.push(frame);
    } catch (failure) {
      return { frames, data: frames.map((frame) => frame.data), failure };
    }
    return { frames, data: frames.map((frame) => frame.data), failure: undefined };
  }

  function bytesCutAt(bytes: Uint8Array, at: number): Uint8Array[] {
    return [bytes.subarray(0, at), bytes.subarray(at)];
  }

  it('decodes multi-byte characters split across chunks', async () => {
    const data = JSON.stringify('é€😀\u2028');
    const bytes = utf8.encode(encodeFrame({ id: 'é', event: '😀', data }));
    const singles = Array.from(bytes, (byte) => Uint8Array.of(byte));
    const cuts = Array.from(bytes, (_, at) => bytesCutAt(bytes, at));
    for (const chunks of [singles, ...cuts]) {
      const { frames } = await collect(iterate(chunks));
      expect(frames).toEqual([{ id: 'é', event: '😀', data }]);
    }
  });

  it('round-trips any JSON text through bytes', async () => {
    await fc.assert(
      fc.asyncProperty(anyText, fc.nat(), async (text, at) => {
        const bytes = utf8.encode(encodeFrame({ data: JSON.stringify(text) }));
        const { stream } = streamOf(bytesCutAt(bytes, at % bytes.length));
        const { data } = await collect(stream);
        expect(data.map((json): unknown => JSON.parse(json))).toEqual([text]);
      }),
    );
  });

  it('removes one byte order mark only', async () => {
    const read = (text: string) => collect(iterate([utf8.encode(text)]));
    expect((await read('\uFEFFdata: a\n\n')).data).toEqual(['a']);
    expect((await read('\uFEFF\uFEFFdata: a\n\n')).data).toEqual([]);
  });

  it('replaces invalid UTF-8 and drops an unfinished frame', async () => {
    const bytes = [utf8.encode('data: '), Uint8Array.of(0xff), utf8.encode('\n\ndata: b\n')];
    const { data } = await collect(iterate([...bytes, Uint8Array.of(0xe2)]));
    expect(data).toEqual(['\uFFFD']);
  });

  const two = [utf8.encode('data: a\n\ndata: b\n\n'), utf8.encode('data: c\n\n')];

  it('reads async iterables, streams and streams with a reader only', async () => {
    const sources = [iterate(two), streamOf(two).stream, readerOnly(streamOf(two).stream)];
    for (const source of sources) {
      const { data, failure } = await collect(source);
      expect(data).toEqual(['a', 'b', 'c']);
      expect(failure).toBeUndefined();
    }
  });

  it('cancels its source when left early', async () => {
    let left = false;
    for await (const frame of readSse(iterate(two, () => (left = true)))) {
      expect(frame.data).toBe('a');
      break;
    }
    expect(left).toBe(true);
    const native = streamOf(two);
    for await (const _ of readSse(native.stream)) break;
    expect(native.state.cancelled).toBe(true);
    const safari = streamOf(two);
    for await (const _ of readSse(readerOnly(safari.stream))) break;
    expect(safari.state.cancelled).toBe(true);
    expect(safari.stream.locked).toBe(false);
  });

  it('yields the frames before a failure of its source, then rethrows it', async () => {
    const cut = new Error('cut');
    for (const source of [streamOf(two, cut).stream, readerOnly(streamOf(two, cut).stream)]) {
      const { data, failure } = await collect(source);
      expect(data).toEqual(['a', 'b', 'c']);
      expect(failure).toBe(cut);
    }
  });

  it('delivers the frames before one that is too long, then throws and cancels', async () => {
    const { state, stream } = streamOf([utf8.encode(`data: a\n\n: ${'x'.repeat(99)}`), ...two]);
    const { data, failure } = await collect(stream, { maxFrameChars: 50 });
    expect(data).toEqual(['a']);
    expect(failure).toBeInstanceOf(RangeError);
    expect(state.cancelled).toBe(true);
  });
});
