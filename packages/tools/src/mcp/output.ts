/** The result of an MCP tool as a tool output of bounded size. */
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client';
import type { ToolOutput } from '@relay/core';
import { defined } from '@relay/protocol';

const maxContextChars = 60_000;
const maxResultChars = 1024 * 1024;
const maxErrorChars = 4_000;

/** Text becomes `context`; structured content and media become `result`. */
export function outputOf(answer: CallToolResult): ToolOutput {
  const { structuredContent } = answer;
  const text = textOf(answer.content);
  if (answer.isError === true) {
    throw new Error(
      truncate(text === '' ? 'The tool failed without a message' : text, maxErrorChars),
    );
  }
  const media = answer.content.flatMap(mediaOf);
  const result =
    media.length === 0 ? structuredContent : { ...defined({ structuredContent }), content: media };
  const chars = result === undefined ? 0 : JSON.stringify(result).length;
  const isTooLong = chars > maxResultChars;
  const parts = [
    ...(text === '' && structuredContent !== undefined ? [JSON.stringify(structuredContent)] : []),
    ...(text === '' ? [] : [text]),
  ];
  const note = `[The structured result was omitted: it has ${chars} characters]`;
  return {
    context: [truncate(parts.join('\n'), maxContextChars), ...(isTooLong ? [note] : [])].join('\n'),
    ...(result === undefined || isTooLong ? {} : { result }),
  };
}

function textOf(content: readonly ContentBlock[]): string {
  return content.map(blockText).join('\n');
}

function blockText(block: ContentBlock): string {
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

function mediaOf(block: ContentBlock): Media[] {
  switch (block.type) {
    case 'text':
      return [];
    case 'image':
    case 'audio':
      return [{ type: block.type, mediaType: block.mimeType, data: block.data }];
    case 'resource_link':
      return [{ type: block.type, uri: block.uri, ...defined({ mediaType: block.mimeType }) }];
    case 'resource': {
      const { uri, mimeType } = block.resource;
      const held =
        'text' in block.resource ? { text: block.resource.text } : { data: block.resource.blob };
      return [{ type: block.type, uri, ...defined({ mediaType: mimeType }), ...held }];
    }
  }
}

function bytesIn(base64: string): number {
  return Math.floor((base64.replace(/=+$/, '').length * 3) / 4);
}

/** Keeps the beginning and the end. */
export function truncate(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const half = Math.floor(maxChars / 2);
  const omitted = text.length - 2 * half;
  return `${text.slice(0, half)}\n… ${omitted} characters are omitted …\n${text.slice(-half)}`;
}
