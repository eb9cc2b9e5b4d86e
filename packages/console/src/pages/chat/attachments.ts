/** Images and files that are sent with a message, within the limits of the API. */
import type { ContentPart, MessageContent } from '@relay/protocol/wire';

export interface Attached {
  readonly key: string;
  readonly name: string;
  readonly size: number;
  readonly part: Exclude<ContentPart, { type: 'text' }>;
}

/** A request has at most 10 MiB; base64 is a third longer than the file, and the text needs room too. */
const maxBytes = 7 * 1024 * 1024;
const maxFiles = 32;
/** The types of files that browsers name differently or not at all. */
const fallbackType = 'application/octet-stream';
const mediaTypeForm = /^[a-z0-9][a-z0-9!#$&^_.+-]*\/[a-z0-9][a-z0-9!#$&^_.+-]*$/i;

let lastKey = 0;

/** Why more files cannot be attached; undefined if they can. */
export function whyTooMuch(
  attached: readonly Pick<Attached, 'size'>[],
  files: readonly { readonly size: number; readonly name: string }[],
): string | undefined {
  if (attached.length + files.length > maxFiles) {
    return `A message can have at most ${maxFiles} files.`;
  }
  const empty = files.find(({ size }) => size === 0);
  if (empty !== undefined) return `${empty.name} is empty.`;
  const bytes = [...attached, ...files].reduce((sum, { size }) => sum + size, 0);
  if (bytes <= maxBytes) return undefined;
  return `The files of a message can have at most ${formatSize(maxBytes)}; these have ${formatSize(bytes)}.`;
}

export async function attach(file: File): Promise<Attached> {
  lastKey += 1;
  const data = await base64Of(file);
  const [type = ''] = file.type.split(';');
  const mediaType = mediaTypeForm.test(type) ? type : fallbackType;
  return {
    key: `file${lastKey}`,
    name: file.name,
    size: file.size,
    part: mediaType.startsWith('image/')
      ? { type: 'image', mediaType, data }
      : { type: 'file', mediaType, data, filename: file.name.slice(0, 256) || 'file' },
  };
}

export function contentOf(text: string, attached: readonly Attached[]): MessageContent {
  if (attached.length === 0) return text;
  const parts = attached.map(({ part }) => part);
  return text.trim() === '' ? parts : [{ type: 'text', text }, ...parts];
}

function base64Of(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => {
      const url = typeof reader.result === 'string' ? reader.result : '';
      resolve(url.slice(url.indexOf(',') + 1));
    });
    reader.addEventListener('error', () => reject(new Error(`${file.name} could not be read.`)));
    reader.readAsDataURL(file);
  });
}

/** The number of bytes of base64. */
export function bytesOf(base64: string): number {
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0;
  return (base64.length / 4) * 3 - padding;
}

/** "12 kB", "1.5 MB". */
export function formatSize(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} kB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
