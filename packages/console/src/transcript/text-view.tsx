/** Text of a model, drawn as it was at a `seq`. */
import { ChevronDown, ChevronRight } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { Markdown } from '../text/markdown.tsx';
import { SafeText } from '../text/safe-text.tsx';
import { cx } from '../ui/cx.ts';
import { formatCount } from '../ui/values.tsx';
import { asOf, type TextItem } from './transcript.ts';

export function Label({ children }: { readonly children: ReactNode }) {
  return <div className="mb-0.5 text-xs font-medium text-muted">{children}</div>;
}

const MarkdownOnce = memo(Markdown);

interface TextProps {
  readonly text: string;
  readonly fence: string | undefined;
  readonly item: TextItem;
  readonly cursor: number;
  readonly isGrowing: boolean;
}

export function Text({ text, fence, item, cursor, isGrowing }: TextProps) {
  const discarded = asOf(item.discarded, cursor);
  const isOpen = isGrowing && item.completed === undefined && discarded === undefined;
  const shown = fence === undefined ? text : `${fence}\n${text}`;
  if (discarded === undefined) {
    return (
      <div data-text className="max-w-[80ch] text-base" aria-live={isOpen ? 'off' : undefined}>
        <MarkdownOnce text={shown} isStreaming={isOpen} />
        {isOpen ? (
          <span
            aria-hidden
            className="inline-block h-4 w-1.5 animate-pulse bg-working align-text-bottom"
          />
        ) : null}
      </div>
    );
  }
  return (
    <div className="max-w-[80ch] text-base">
      <del className="block text-faint line-through">
        <MarkdownOnce text={shown} />
      </del>
    </div>
  );
}

export function Reasoning({
  item,
  text,
  isFirst,
  cursor,
  isFolded,
  onToggle,
}: {
  readonly item: TextItem;
  readonly text: string;
  readonly isFirst: boolean;
  readonly cursor: number;
  readonly isFolded: boolean;
  readonly onToggle: () => void;
}) {
  const Icon = isFolded ? ChevronRight : ChevronDown;
  const isDiscarded = asOf(item.discarded, cursor) !== undefined;
  return (
    <div className="max-w-[80ch]">
      {isFirst ? (
        <button
          type="button"
          aria-expanded={!isFolded}
          onClick={onToggle}
          className="flex items-center gap-1 text-xs text-muted hover:text-text"
        >
          <Icon aria-hidden size={12} />
          Reasoning{isDiscarded ? ', discarded' : ''}, {formatCount(item.text.lengthAt(cursor))}{' '}
          characters
        </button>
      ) : null}
      {isFolded ? null : (
        <div
          className={cx(
            'mt-1 border-l-2 border-line pl-3 text-sm break-words whitespace-pre-wrap text-muted',
            isDiscarded && 'line-through',
          )}
        >
          <SafeText text={text} maxLength={20_000} />
        </div>
      )}
    </div>
  );
}
