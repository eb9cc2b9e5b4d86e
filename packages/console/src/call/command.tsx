/** A shell command word by word, with what each word is. */
import type { CommandEffect, CommandRole, CommandSegment } from '@relay/protocol/wire';
import { TriangleAlert } from 'lucide-react';
import { useMemo, useState } from 'react';
import { SafeText } from '../text/safe-text.tsx';
import { Button } from '../ui/button.tsx';
import { cx } from '../ui/cx.ts';
import { formatCount } from '../ui/values.tsx';
import { wordsOfCommand } from './command-words.ts';

const looks: Partial<Readonly<Record<CommandRole, string>>> = {
  command: 'font-semibold',
  'possible-command': 'font-semibold',
  wrapper: 'font-semibold',
  keyword: 'font-semibold',
  operator: 'rounded-sm border border-line-strong bg-surface px-1 font-semibold',
  expansion: 'underline decoration-dotted underline-offset-2',
  comment: 'text-muted italic',
  unparsed: 'rounded-sm bg-waiting-soft px-1 text-waiting',
};

const effectText: Readonly<Record<CommandEffect, string>> = {
  deletes: 'deletes',
  'changes-files': 'changes files',
  'changes-permissions': 'changes permissions',
  installs: 'installs packages',
  publishes: 'publishes',
  network: 'uses the network',
  privileges: 'as another user',
  system: 'affects the system or other processes',
  'rewrites-history': 'rewrites git history',
  'runs-code': 'runs code that is not shown here',
};

interface CommandProps {
  readonly segments: readonly CommandSegment[];
  readonly understood: boolean;
  readonly effects: readonly CommandEffect[];
}

/** More than anybody reads at once. */
const firstWords = 400;

/** The labels are drawn by the style sheet: selecting and copying gives the command alone. */
export function Command({ segments, understood, effects }: CommandProps) {
  const [isAll, setAll] = useState(false);
  const words = useMemo(() => wordsOfCommand(segments), [segments]);
  const shown = isAll ? words : words.slice(0, firstWords);
  const left = words.length - shown.length;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <div
        dir="ltr"
        className="min-w-0 rounded border border-line bg-sunken px-3 pt-2 pb-1 font-mono text-sm leading-5 break-words whitespace-pre-wrap"
      >
        {shown.map((word, index) =>
          typeof word === 'string' ? (
            <SafeText key={index} text={word} />
          ) : (
            <span
              key={index}
              data-label={word.label}
              className={cx(
                'inline-flex max-w-full flex-col pb-1 align-top [unicode-bidi:isolate]',
                'after:font-sans after:text-xs after:leading-4 after:font-normal after:text-faint after:content-[attr(data-label)]',
              )}
            >
              <span className="min-w-0">
                {word.pieces.map(({ text, role }, at) => (
                  <span key={at} className={looks[role]}>
                    <SafeText text={text} maxLength={2_000} />
                  </span>
                ))}
              </span>
            </span>
          ),
        )}
        {left > 0 ? (
          <Button size="sm" className="ml-1 font-sans" onClick={() => setAll(true)}>
            Show {formatCount(left)} more words
          </Button>
        ) : null}
      </div>
      {effects.length === 0 ? null : (
        <ul
          aria-label="What it may do"
          className="flex flex-wrap gap-x-3 gap-y-1 text-sm text-waiting"
        >
          {effects.map((effect) => (
            <li key={effect} className="flex items-center gap-1.5">
              <TriangleAlert aria-hidden size={14} className="shrink-0" />
              {effectText[effect]}
            </li>
          ))}
        </ul>
      )}
      <p className="text-xs text-muted">
        {effects.length === 0 ? 'No known effect. ' : ''}
        Only well-known programs are marked: what is not marked may still do harm.
      </p>
      {understood ? null : (
        <p className="flex items-start gap-1.5 text-sm text-waiting">
          <TriangleAlert aria-hidden size={14} className="mt-0.5 shrink-0" />
          Relay does not understand the marked part of this command. It may do anything.
        </p>
      )}
    </div>
  );
}
