/** The result of an MCP tool as a tool output of bounded size. */
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client';
import type { ToolOutput } from '@relay/core';
import { type AttachmentPart, defined } from '@relay/protocol';

const maxContextChars = 60_000;
const maxResultChars = 1024 * 1024;
const maxErrorChars = 4_000;
/** Of all attachments of a result, in base64. */
const maxAttachmentChars = 4 * 1024 * 1024;
const maxAttachments = 16;

/** Text becomes `context`, media that models read become `attachments`, everything else `result`. */
export function outputOf(answer: CallToolResult): ToolOutput {
  const { structuredContent } = answer;
  const text = textOf(answer.content);
  if (answer.isError === true) {
    throw new Error(
      truncate(text === '' ? 'The tool failed without a message' : text, maxErrorChars),
    );
  }
  const attached = attachmentsIn(answer.content);
  const media = answer.content.flatMap((block) => mediaOf(block, attached.has(block)));
  const result =
    media.length === 0 ? structuredContent : { ...defined({ structuredContent }), content: media };
  const chars = result === undefined ? 0 : JSON.stringify(result).length;
  const isTooLong = chars > maxResultChars;
  const hasText = answer.content.some(
    (block) => block.type === 'text' || (block.type === 'resource' && 'text' in block.resource),
  );
  const parts = [
    ...(!hasText && structuredContent !== undefined ? [JSON.stringify(structuredContent)] : []),
    ...(text === '' ? [] : [text]),
  ];
  const note = `[The structured result was omitted: it has ${chars} characters]`;
  return {
    context: [truncate(parts.join('\n'), maxContextChars), ...(isTooLong ? [note] : [])].join('\n'),
    ...(result === undefined || isTooLong ? {} : { result }),
    ...(attached.size === 0 ? {} : { attachments: [...attached.values()] }),
  };
}

/** The media that models read, as far as they fit. */
function attachmentsIn(content: readonly ContentBlock[]): Map<ContentBlock, AttachmentPart> {
  const attached = new Map<ContentBlock, AttachmentPart>();
  let chars = 0;
  for (const block of content) {
    const base64 = base64In(block);
    if (base64 === undefined || attached.size === maxAttachments) continue;
    if (chars + base64.length > maxAttachmentChars) continue;
    const attachment = attachmentOf(base64);
    if (attachment === undefined) continue;
    chars += base64.length;
    attached.set(block, attachment);
  }
  return attached;
}

function base64In(block: ContentBlock): string | undefined {
  switch (block.type) {
    case 'image':
    case 'audio':
      return block.data;
    case 'resource':
      return 'blob' in block.resource ? block.resource.blob : undefined;
    case 'text':
    case 'resource_link':
      return undefined;
  }
}

/**
 * The first bytes of media that some model reads. They decide, and not the type that the server
 * declares: providers refuse a request with an image of another type, and so the rest of the run.
 */
const signatures: readonly (readonly [RegExp, string])[] = [
  [/^\x89PNG\r\n/, 'image/png'],
  [/^\xff\xd8\xff/, 'image/jpeg'],
  [/^GIF8[79]a/, 'image/gif'],
  [/^RIFF[^]{4}WEBP/, 'image/webp'],
  [/^%PDF-/, 'application/pdf'],
  [/^RIFF[^]{4}WAVE/, 'audio/wav'],
  [/^(?:ID3|\xff[\xf2\xf3\xfb])/, 'audio/mpeg'],
  [/^OggS/, 'audio/ogg'],
  [/^fLaC/, 'audio/flac'],
];

function attachmentOf(base64: string): AttachmentPart | undefined {
  const bytes = Buffer.from(base64, 'base64');
  const start = bytes.subarray(0, 16).toString('latin1');
  const mediaType = signatures.find(([signature]) => signature.test(start))?.[1];
  if (mediaType === undefined) return undefined;
  const type = mediaType.startsWith('image/') ? 'image' : 'file';
  // Line breaks and the URL alphabet, which some servers use, are not valid everywhere.
  return { type, mediaType, data: bytes.toString('base64') };
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

/** The data of an attachment is not repeated. */
function mediaOf(block: ContentBlock, isAttached: boolean): Media[] {
  switch (block.type) {
    case 'text':
      return [];
    case 'image':
    case 'audio':
      return [{ type: block.type, mediaType: block.mimeType, ...dataOf(block.data, isAttached) }];
    case 'resource_link':
      return [{ type: block.type, uri: block.uri, ...defined({ mediaType: block.mimeType }) }];
    case 'resource': {
      const { uri, mimeType } = block.resource;
      const held =
        'text' in block.resource
          ? { text: block.resource.text }
          : dataOf(block.resource.blob, isAttached);
      return [{ type: block.type, uri, ...defined({ mediaType: mimeType }), ...held }];
    }
  }
}

function dataOf(data: string, isAttached: boolean): Pick<Media, 'data'> {
  return isAttached ? {} : { data };
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
