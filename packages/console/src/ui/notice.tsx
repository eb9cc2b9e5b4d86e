/** What a page says when it has nothing, cannot load, or is loading. */
import { escapeMisleading } from '@relay/protocol/display';
import { RelayApiError } from '@relay/sdk';
import { CircleAlert, CircleCheck, Info, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { cx } from './cx.ts';

interface EmptyProps {
  readonly title: string;
  /** What would be here, and how it gets here. */
  readonly children?: ReactNode;
  /** One action that works without a provider key. */
  readonly action?: ReactNode;
}

export function Empty({ title, children, action }: EmptyProps) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center gap-2 px-6 py-16 text-center">
      <h2 className="text-lg font-semibold">{title}</h2>
      <div className="text-sm text-muted">{children}</div>
      {action === undefined ? null : <div className="mt-3">{action}</div>}
    </div>
  );
}

/** An error in words: what the server says, else what happened. */
export function errorText(error: unknown): string {
  if (!(error instanceof RelayApiError)) {
    return escapeMisleading(error instanceof Error ? error.message : String(error));
  }
  if (error.code === 'network_error') return 'The server does not answer.';
  const fields = (error.details ?? []).map(({ path, message }) => `${path}: ${message}`);
  // They may quote what models, tools and agents wrote.
  return escapeMisleading([error.message, ...fields].join('\n'));
}

interface ErrorNoticeProps {
  readonly error: unknown;
  /** What could not be done, such as "The runs could not be loaded". */
  readonly title?: string;
  readonly onRetry?: () => void;
}

export function ErrorNotice({ error, title, onRetry }: ErrorNoticeProps) {
  const requestId = error instanceof RelayApiError ? error.requestId : undefined;
  return (
    <div
      role="alert"
      className="m-4 flex items-start gap-2 rounded border border-line bg-failed-soft p-3 text-sm text-failed"
    >
      <CircleAlert aria-hidden size={16} className="mt-0.5 shrink-0" />
      <div className="min-w-0 flex-1 break-words whitespace-pre-line">
        {title === undefined ? null : <strong className="block font-semibold">{title}</strong>}
        {errorText(error)}
        {requestId === undefined ? null : (
          <span className="block font-mono text-xs">Request {requestId}</span>
        )}
      </div>
      {onRetry === undefined ? null : (
        <Button size="sm" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

interface NoteProps {
  readonly tone: 'waiting' | 'failed' | 'done' | 'ended';
  readonly children: ReactNode;
  /** Buttons, at the end. */
  readonly actions?: ReactNode;
}

const noteTones = {
  waiting: ['bg-waiting-soft text-waiting', TriangleAlert],
  failed: ['bg-failed-soft text-failed', CircleAlert],
  done: ['bg-done-soft text-done', CircleCheck],
  ended: ['bg-sunken text-muted', Info],
} as const;

/** Something about the page that a person has to know. */
export function Note({ tone, children, actions }: NoteProps) {
  const [colours, Icon] = noteTones[tone];
  return (
    <div
      role="status"
      className={cx(
        'flex flex-wrap items-start gap-2 rounded border border-line p-3 text-sm',
        colours,
      )}
    >
      <Icon aria-hidden size={16} className="mt-0.5 shrink-0" />
      <div className="min-w-0 flex-1 basis-56 break-words">{children}</div>
      {actions === undefined ? null : <div className="flex flex-wrap gap-2">{actions}</div>}
    </div>
  );
}

/** Reserves the space of what is being loaded. */
export function Loading({ lines = 6 }: { readonly lines?: number }) {
  return (
    <div role="status" aria-label="Loading" className="flex flex-col gap-2 p-4">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} className="h-7 animate-pulse rounded bg-sunken" />
      ))}
    </div>
  );
}
