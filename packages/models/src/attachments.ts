/** Images and files of a message, as far as all providers are alike. */
import { type Attachment, type AttachmentPart, attachmentOf } from '@relay/protocol';

export type Given =
  /** A file that is nothing but text is told as text: every model can read that. */
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'file';
      readonly mediaType: string;
      readonly filename: string | undefined;
      readonly source: Attachment;
    };

const textual =
  /^(?:text\/.*|application\/(?:json|xml|yaml|x-yaml|toml|javascript|sql|x-sh|.*\+json|.*\+xml))$/i;
const endings = new Map([
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['gif', 'image/gif'],
  ['webp', 'image/webp'],
  ['pdf', 'application/pdf'],
]);

export function givenBy(part: AttachmentPart): Given {
  const source = attachmentOf(part);
  const filename = part.type === 'file' ? part.filename : undefined;
  if (source.kind === 'url') {
    const mediaType = source.mediaType ?? guessed(source.url, part.type);
    return { kind: 'file', mediaType, filename, source };
  }
  if (part.type === 'file' && textual.test(source.mediaType)) {
    const text = Buffer.from(source.base64, 'base64').toString('utf8');
    return { kind: 'text', text: `<file name="${quoted(filename ?? 'file')}">\n${text}\n</file>` };
  }
  return { kind: 'file', mediaType: source.mediaType, filename, source };
}

/** Some providers want to know what they will find at a URL. */
function guessed(url: string, type: 'image' | 'file'): string {
  const { pathname } = new URL(url);
  const ending = /\.([a-z0-9]+)$/i.exec(pathname)?.[1]?.toLowerCase() ?? '';
  return endings.get(ending) ?? (type === 'image' ? 'image/jpeg' : 'application/pdf');
}

function quoted(name: string): string {
  return name.replaceAll(/["<>\r\n]/g, '_');
}
