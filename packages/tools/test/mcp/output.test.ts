import { describe, expect, it } from 'vitest';
import { outputOf, truncate } from '../../src/mcp/output.ts';

const text = (content: string) => ({ type: 'text' as const, text: content });

describe('the output of an MCP tool', () => {
  it('is its text', () => {
    expect(outputOf({ content: [text('a'), text('b')] })).toEqual({ context: 'a\nb' });
    expect(outputOf({ content: [] })).toEqual({ context: '' });
  });

  it('has the structured content as result, and as context if there is no text', () => {
    const structuredContent = { n: 1 };
    expect(outputOf({ content: [], structuredContent })).toEqual({
      context: '{"n":1}',
      result: { n: 1 },
    });
    expect(outputOf({ content: [text('one')], structuredContent })).toEqual({
      context: 'one',
      result: { n: 1 },
    });
  });

  it('names media in the context, and returns them as result', () => {
    const { context, result } = outputOf({
      content: [
        { type: 'audio', data: 'aGk=', mimeType: 'audio/wav' },
        { type: 'resource_link', uri: 'https://x.example/a', name: 'a', description: 'An a' },
        { type: 'resource', resource: { uri: 'file:///b', blob: 'aGVsbG8=' } },
      ],
      structuredContent: { n: 1 },
    });
    expect(context).toBe(
      '[audio, audio/wav, 2 bytes]\n[resource https://x.example/a: An a]\n[resource file:///b, binary, 5 bytes]',
    );
    expect(result).toEqual({
      structuredContent: { n: 1 },
      content: [
        { type: 'audio', mediaType: 'audio/wav', data: 'aGk=' },
        { type: 'resource_link', uri: 'https://x.example/a' },
        { type: 'resource', uri: 'file:///b', data: 'aGVsbG8=' },
      ],
    });
  });

  it('omits a result that is too large, with a note', () => {
    const data = 'x'.repeat(2 * 1024 * 1024);
    const output = outputOf({ content: [{ type: 'image', data, mimeType: 'image/png' }] });
    expect(output.result).toBeUndefined();
    expect(output.context).toMatch(
      /^\[image, image\/png, 1572864 bytes\]\n\[The structured result/,
    );
  });

  it('of a failure is an error of bounded length', () => {
    expect(() => outputOf({ content: [text('no glue')], isError: true })).toThrow('no glue');
    expect(() => outputOf({ content: [], isError: true })).toThrow('failed without a message');
    try {
      outputOf({ content: [text('x'.repeat(100_000))], isError: true });
    } catch (error) {
      expect((error as Error).message.length).toBeLessThan(4_100);
    }
  });

  it('that is truncated keeps its beginning and its end', () => {
    expect(truncate('abcdef', 6)).toBe('abcdef');
    expect(truncate('abcdefgh', 4)).toBe('ab\n… 4 characters are omitted …\ngh');
  });
});
