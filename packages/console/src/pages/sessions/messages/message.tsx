/** A message on the page. */
import { escapeMisleading } from '@relay/protocol/display';
import type { SessionMessage } from '@relay/sdk';
import { Paperclip, Reply } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Markdown } from '../../../text/markdown.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { formatCount, Time } from '../../../ui/values.tsx';

interface MessageViewProps {
  readonly message: SessionMessage;
  /** `in` stands out: it was sent to the session that is shown. */
  readonly direction: 'in' | 'out';
  /** The address that goes without saying. */
  readonly impliedTo?: string;
  readonly repliesTo?: SessionMessage | undefined;
  readonly onReply?: (() => void) | undefined;
  /** Receipts. */
  readonly children?: ReactNode;
}

export function MessageView(props: MessageViewProps) {
  const { message, direction, impliedTo, repliesTo, onReply, children } = props;
  const recipients = recipientsOf(message);
  const { from, text, attachments, at, editedAt, withdrawnAt } = message;
  return (
    <article
      aria-label={`Message of ${escapeMisleading(from.name)}`}
      className={cx(
        'group flex flex-col gap-1 rounded px-3 py-2',
        direction === 'in' ? 'border border-line bg-surface' : 'bg-sunken',
      )}
    >
      <header className="flex flex-wrap items-center gap-x-2 text-xs text-muted">
        <Sender message={message} />
        <Time at={at} />
        {editedAt === undefined ? null : <span>edited</span>}
        {recipients === '' || recipients === impliedTo ? null : <span>to {recipients}</span>}
        {onReply === undefined ? null : (
          <Button
            kind="quiet"
            size="sm"
            onClick={onReply}
            className="-my-1 ml-auto opacity-0 group-hover:opacity-100 focus-visible:opacity-100 pointer-coarse:opacity-100"
          >
            <Reply aria-hidden size={12} /> Reply
          </Button>
        )}
      </header>
      {repliesTo === undefined ? null : (
        <div className="truncate border-l-2 border-line-strong pl-2 text-xs text-muted">
          <SafeText text={`${repliesTo.from.name}: ${repliesTo.text.slice(0, 160)}`} />
        </div>
      )}
      <div className={cx('min-w-0', withdrawnAt !== undefined && 'text-muted line-through')}>
        <Markdown text={text} />
      </div>
      {attachments.map((attachment, index) => (
        <Attachment key={index} attachment={attachment} />
      ))}
      <footer className="flex flex-wrap items-center gap-x-3 gap-y-1 empty:hidden">
        {children}
      </footer>
    </article>
  );
}

function Sender({ message: { from } }: { readonly message: SessionMessage }) {
  const name = <SafeText text={from.type === 'session' ? `@${from.name}` : from.name} />;
  if (from.type === 'key') return <strong className="font-semibold text-text">{name}</strong>;
  return (
    <Link href={`/sessions/${from.id}`} className="font-semibold text-text hover:underline">
      {name}
    </Link>
  );
}

function recipientsOf({ to }: SessionMessage): string {
  const names = typeof to === 'string' ? [to] : to;
  return names.length > 4
    ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more`
    : names.join(', ');
}

function Attachment({
  attachment,
}: {
  readonly attachment: SessionMessage['attachments'][number];
}) {
  const about =
    attachment.type === 'image'
      ? `Image, ${attachment.mediaType ?? 'of a URL'}`
      : `Text, ${formatCount(attachment.text.length)} characters`;
  return (
    <details className="text-xs text-muted">
      <summary className="inline-flex items-center gap-1">
        <Paperclip aria-hidden size={12} /> {about}
      </summary>
      <pre className="mt-1 max-h-60 overflow-auto rounded bg-sunken p-2 font-mono whitespace-pre-wrap">
        <SafeText text={attachment.type === 'text' ? attachment.text : (attachment.url ?? about)} />
      </pre>
    </details>
  );
}
