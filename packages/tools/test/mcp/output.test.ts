import { describe, expect, it } from 'vitest';
import { dot as png } from '../../../../test/support/mcp/tool-server.ts';
import { outputOf, truncate } from '../../src/mcp/output.ts';

const wav = Buffer.from('RIFF\0\0\0\0WAVE', 'latin1').toString('base64');
const pdf = Buffer.from('%PDF-1.7').toString('base64');

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
      '{"n":1}\n[audio, audio/wav, 2 bytes]\n[resource https://x.example/a: An a]\n[resource file:///b, binary, 5 bytes]',
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

  it('attaches images, documents and audio for the model, and does not repeat their data', () => {
    const output = outputOf({
      content: [
        { type: 'image', data: png, mimeType: 'image/png' },
        { type: 'audio', data: wav, mimeType: 'audio/wav' },
        { type: 'resource', resource: { uri: 'file:///b.pdf', blob: pdf } },
      ],
      structuredContent: { n: 1 },
    });
    expect(output).toEqual({
      context:
        '{"n":1}\n[image, image/png, 70 bytes]\n[audio, audio/wav, 12 bytes]\n' +
        '[resource file:///b.pdf, binary, 8 bytes]',
      result: {
        structuredContent: { n: 1 },
        content: [
          { type: 'image', mediaType: 'image/png' },
          { type: 'audio', mediaType: 'audio/wav' },
          { type: 'resource', uri: 'file:///b.pdf' },
        ],
      },
      attachments: [
        { type: 'image', mediaType: 'image/png', data: png },
        { type: 'file', mediaType: 'audio/wav', data: wav },
        { type: 'file', mediaType: 'application/pdf', data: pdf },
      ],
    });
  });

  it('attaches an image with the type that its bytes have, and not what the server declares', () => {
    const spread = png.replace(/.{20}/g, '$&\n').replaceAll('+', '-').replaceAll('/', '_');
    const { attachments } = outputOf({
      content: [
        { type: 'image', data: spread, mimeType: 'image/jpeg' },
        { type: 'image', data: 'aGVsbG8=', mimeType: 'image/png' },
        { type: 'image', data: '', mimeType: 'image/png' },
        { type: 'image', data: '<svg/>', mimeType: 'image/svg+xml' },
      ],
    });
    expect(attachments).toEqual([{ type: 'image', mediaType: 'image/png', data: png }]);
  });

  it('attaches no more than 4 MB and 16 parts, and names the others', () => {
    const large = Buffer.concat([Buffer.from(png, 'base64'), Buffer.alloc(2 * 1024 * 1024)]);
    const data = large.toString('base64');
    const image = { type: 'image' as const, data, mimeType: 'image/png' };
    const output = outputOf({ content: [image, image] });
    expect(output.attachments).toHaveLength(1);
    expect(output.context?.match(/\[image, image\/png, \d+ bytes\]/g)).toHaveLength(2);
    const many = Array.from({ length: 40 }, () => ({ ...image, data: png }));
    expect(outputOf({ content: many }).attachments).toHaveLength(16);
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
