import { describe, expect, it } from 'vitest';
import { cut, outputOf } from '../../src/mcp/output.ts';

const text = (said: string) => ({ type: 'text' as const, text: said });

describe('the output of an MCP tool', () => {
  it('is its texts', () => {
    expect(outputOf({ content: [text('a'), text('b')] })).toEqual({ context: 'a\nb' });
    expect(outputOf({ content: [] })).toEqual({ context: '' });
  });

  it('is what is structured for programs, and for the model where there is no text', () => {
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

  it('names what is no text, and keeps it for programs', () => {
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

  it('leaves out what is too large, and says so', () => {
    const data = 'x'.repeat(2 * 1024 * 1024);
    const output = outputOf({ content: [{ type: 'image', data, mimeType: 'image/png' }] });
    expect(output.result).toBeUndefined();
    expect(output.context).toMatch(
      /^\[image, image\/png, 1572864 bytes\]\n\[The structured result/,
    );
  });

  it('of a failure is an error, of a bounded length', () => {
    expect(() => outputOf({ content: [text('no glue')], isError: true })).toThrow('no glue');
    expect(() => outputOf({ content: [], isError: true })).toThrow('does not say why');
    try {
      outputOf({ content: [text('x'.repeat(100_000))], isError: true });
    } catch (error) {
      expect((error as Error).message.length).toBeLessThan(4_100);
    }
  });

  it('that is cut keeps its beginning and its end', () => {
    expect(cut('abcdef', 6)).toBe('abcdef');
    expect(cut('abcdefgh', 4)).toBe('ab\n… 4 characters are left out …\ngh');
  });
});
