/** A shell command word by word, with what each word is. */
import { useState } from 'react';
import { Button } from '../ui/button.tsx';
import { cx } from '../ui/cx.ts';
import { formatCount } from '../ui/values.tsx';
import { SafeText } from '../text/safe-text.tsx';
import type { CommandRole, CommandSegment } from './parameters.ts';

interface RoleLook {
  /** Below the word. Left out where the text says it. */
  readonly label?: string;
  readonly className?: string;
}

const looks: Readonly<Record<CommandRole, RoleLook>> = {
  command: { label: 'command', className: 'font-semibold' },
  'possible-command': { label: 'possibly a command', className: 'font-semibold' },
  wrapper: { label: 'runs the next', className: 'font-semibold' },
  option: { label: 'option' },
  argument: { label: 'argument' },
  assignment: { label: 'variable' },
  keyword: { label: 'keyword', className: 'font-semibold' },
  operator: { className: 'rounded-sm bg-sunken px-1 font-semibold' },
  redirection: { label: 'redirection', className: 'font-semibold' },
  expansion: {
    label: 'replaced at run time',
    className: 'underline decoration-dotted underline-offset-2',
  },
  comment: { label: 'comment', className: 'text-muted italic' },
  space: {},
  unparsed: {
    label: 'not understood',
    className: 'rounded-sm bg-waiting-soft px-1 text-waiting',
  },
};

interface CommandProps {
  readonly segments: readonly CommandSegment[];
  readonly understood: boolean;
}

/** More words than anybody reads at once. */
const firstWords = 400;

/** The labels are drawn by the style sheet: selecting and copying gives the command alone. */
export function Command({ segments, understood }: CommandProps) {
  const [isAll, setAll] = useState(false);
  const shown = isAll ? segments : segments.slice(0, firstWords);
  const left = segments.length - shown.length;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <div
        dir="ltr"
        className="min-w-0 rounded border border-line bg-sunken px-3 pt-2 pb-1 font-mono text-sm leading-5 break-words whitespace-pre-wrap"
      >
        {shown.map((segment, index) => (
          <Segment key={index} segment={segment} />
        ))}
        {left > 0 ? (
          <Button size="sm" className="ml-1 font-sans" onClick={() => setAll(true)}>
            Show {formatCount(left)} more words
          </Button>
        ) : null}
      </div>
      {understood ? null : (
        <p className="text-sm text-waiting">
          Relay does not understand the marked part of this command. It may do anything.
        </p>
      )}
    </div>
  );
}

function Segment({ segment: { text, role } }: { readonly segment: CommandSegment }) {
  const { label, className } = looks[role] ?? {};
  if (role === 'space' || /^\s*$/.test(text)) return <SafeText text={text} />;
  return (
    <span
      data-label={label}
      className={cx(
        'inline-flex max-w-full flex-col align-top [unicode-bidi:isolate]',
        'after:font-sans after:text-xs after:font-normal after:text-faint after:content-[attr(data-label)]',
      )}
    >
      <span className={cx('min-w-0', className)}>
        <SafeText text={text} maxLength={2_000} />
      </span>
    </span>
  );
}
