/** A message of a person: its text, and its images and files by name. */
import type { ContentPart, MessageContent } from '@relay/protocol/wire';
import { FileText, Image } from 'lucide-react';
import { SafeText } from '../../text/safe-text.tsx';
import { bytesOf, formatSize } from './attachments.ts';
import { textOf } from './rows.ts';

export function MessageBody({ content }: { readonly content: MessageContent }) {
  const text = textOf(content);
  const files = typeof content === 'string' ? [] : content.filter(({ type }) => type !== 'text');
  return (
    <div className="flex min-w-0 flex-col gap-2">
      {text === '' ? null : (
        <div dir="auto" className="break-words whitespace-pre-wrap">
          <SafeText text={text} maxLength={8_000} />
        </div>
      )}
      {files.length === 0 ? null : (
        <ul aria-label="Attachments" className="flex flex-wrap gap-2">
          {files.map((part, index) => (
            <li key={index}>
              <Chip {...aboutPart(part)} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface ChipProps {
  readonly name: string;
  readonly about: string;
  readonly isImage: boolean;
  readonly children?: React.ReactNode;
}

/** Not the image itself: what a page of the console shows is text. */
export function Chip({ name, about, isImage, children }: ChipProps) {
  const Icon = isImage ? Image : FileText;
  return (
    <span className="inline-flex max-w-64 items-center gap-2 rounded border border-line bg-surface px-2 py-1 text-xs">
      <Icon aria-hidden size={14} className="shrink-0 text-muted" />
      <span className="min-w-0">
        <span className="block truncate font-medium">
          <SafeText text={name} maxLength={256} />
        </span>
        <span className="block truncate text-muted">
          <SafeText text={about} maxLength={256} />
        </span>
      </span>
      {children}
    </span>
  );
}

function aboutPart(part: ContentPart): ChipProps {
  if (part.type === 'text') return { name: 'Text', about: '', isImage: false };
  const { mediaType = 'unknown type', data, url = '' } = part;
  const isImage = part.type === 'image';
  const name = part.type === 'file' ? (part.filename ?? 'File') : 'Image';
  if (data !== undefined) {
    return { name, about: `${mediaType}, ${formatSize(bytesOf(data))}`, isImage };
  }
  return { name, about: url.startsWith('data:') ? mediaType : url, isImage };
}
