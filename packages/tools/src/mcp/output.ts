/** What a tool of an MCP server answers, as a tool's output: bounded, whatever the server sends. */
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client';
import type { ToolOutput } from '@relay/core';

const maxContextChars = 60_000;
const maxResultChars = 1024 * 1024;
const maxErrorChars = 4_000;

/** Texts are what the model reads; what is structured or no text is for programs. */
export function outputOf(answer: CallToolResult): ToolOutput {
  const { structuredContent } = answer;
  const text = textOf(answer.content);
  if (answer.isError === true) {
    throw new Error(
      cut(text === '' ? 'The tool failed and does not say why' : text, maxErrorChars),
    );
  }
  const media = answer.content.flatMap(mediaOf);
  const result =
    media.length === 0
      ? structuredContent
      : { ...(structuredContent === undefined ? {} : { structuredContent }), content: media };
  const chars = result === undefined ? 0 : JSON.stringify(result).length;
  const isTooLong = chars > maxResultChars;
  const words = [
    ...(text === '' && structuredContent !== undefined ? [JSON.stringify(structuredContent)] : []),
    ...(text === '' ? [] : [text]),
  ];
  const note = `[The structured result was left out: it has ${chars} characters]`;
  return {
    context: [cut(words.join('\n'), maxContextChars), ...(isTooLong ? [note] : [])].join('\n'),
    ...(result === undefined || isTooLong ? {} : { result }),
  };
}

function textOf(content: readonly ContentBlock[]): string {
  return content.map(wordsOf).join('\n');
}

function wordsOf(block: ContentBlock): string {
  switch (block.type) {
    case 'text':
      return block.text;
    case 'image':
    case 'audio':
      return `[${block.type}, ${block.mimeType}, ${bytesIn(block.data)} bytes]`;
    case 'resource_link':
      return `[resource ${block.uri}${block.description === undefined ? '' : `: ${block.description}`}]`;
    case 'resource': {
      const { resource } = block;
      if ('text' in resource) return `[resource ${resource.uri}]\n${resource.text}`;
      return `[resource ${resource.uri}, ${resource.mimeType ?? 'binary'}, ${bytesIn(resource.blob)} bytes]`;
    }
  }
}

interface Media {
  readonly type: 'image' | 'audio' | 'resource' | 'resource_link';
  readonly mediaType?: string;
  readonly uri?: string;
  readonly data?: string;
  readonly text?: string;
}

/** A model reads texts alone; programs find the rest here. */
function mediaOf(block: ContentBlock): Media[] {
  switch (block.type) {
    case 'text':
      return [];
    case 'image':
    case 'audio':
      return [{ type: block.type, mediaType: block.mimeType, data: block.data }];
    case 'resource_link':
      return [{ type: block.type, uri: block.uri, ...typed(block.mimeType) }];
    case 'resource': {
      const { uri, mimeType } = block.resource;
      const held =
        'text' in block.resource ? { text: block.resource.text } : { data: block.resource.blob };
      return [{ type: block.type, uri, ...typed(mimeType), ...held }];
    }
  }
}

function typed(mediaType: string | undefined): { mediaType?: string } {
  return mediaType === undefined ? {} : { mediaType };
}

function bytesIn(base64: string): number {
  return Math.floor((base64.replace(/=+$/, '').length * 3) / 4);
}

/** The beginning and the end say most. */
export function cut(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const half = Math.floor(maxChars / 2);
  const omitted = text.length - 2 * half;
  return `${text.slice(0, half)}\n… ${omitted} characters are left out …\n${text.slice(-half)}`;
}
