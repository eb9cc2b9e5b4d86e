/** Changes to text: by sign and colour, with the changed words of a line marked. */
import { UnfoldVertical } from 'lucide-react';
import { memo, useEffect, useMemo, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { cx } from '../ui/cx.ts';
import { formatCount } from '../ui/values.tsx';
import {
  type DiffLine,
  type Fold,
  foldUnchanged,
  linesOfChanges,
  parseDiff,
  type Words,
  wordsOf,
} from './diff-lines.ts';
import { SafeText } from './safe-text.tsx';

type Library = typeof import('diff');
let loaded: Library | undefined;

/** Undefined until it has been loaded. */
function useLibrary(): Library | undefined {
  const [library, setLibrary] = useState(loaded);
  useEffect(() => {
    if (library !== undefined) return;
    void import('diff').then((module) => {
      loaded = module;
      setLibrary(module);
    });
  }, [library]);
  return library;
}

interface DiffProps {
  readonly text: string;
  /** Nobody has checked which lines are unchanged: all of them are shown. */
  readonly isClaim?: boolean;
}

/** A unified diff. A text that is none is shown line by line. */
export function Diff({ text, isClaim = false }: DiffProps) {
  const lines = useMemo(() => parseDiff(text), [text]);
  return <DiffTable lines={lines} isClaim={isClaim} />;
}

interface DiffOfProps {
  readonly before: string;
  readonly after: string;
  readonly path?: string;
}

/** Comparing takes longer the more differs. */
const maxCompareMs = 300;

export function DiffOf({ before, after, path }: DiffOfProps) {
  const library = useLibrary();
  const lines = useMemo(
    () => (library === undefined ? undefined : compare(library, before, after)),
    [library, before, after],
  );
  if (before === after) return <p className="text-sm text-muted">No changes</p>;
  if (lines === undefined) {
    return <div role="status" aria-label="Loading" className="h-16 rounded bg-sunken" />;
  }
  const file: DiffLine[] = path === undefined ? [] : [{ kind: 'file', text: path }];
  return <DiffTable lines={[...file, ...lines]} />;
}

function compare({ diffLines }: Library, before: string, after: string): DiffLine[] {
  const whole = [
    { value: before, added: false, removed: true, count: 1 },
    { value: after, added: true, removed: false, count: 1 },
  ].filter(({ value }) => value !== '');
  return linesOfChanges(diffLines(before, after, { timeout: maxCompareMs }) ?? whole);
}

const firstRows = 300;
const moreRows = 1_000;

interface DiffTableProps {
  readonly lines: readonly DiffLine[];
  readonly isClaim?: boolean;
}

function DiffTable({ lines, isClaim = false }: DiffTableProps) {
  const library = useLibrary();
  const [limit, setLimit] = useState(firstRows);
  const [opened, setOpened] = useState<ReadonlySet<Fold>>(new Set());
  const folded = useMemo(() => (isClaim ? lines : foldUnchanged(lines)), [lines, isClaim]);
  const rows = folded.flatMap((row: DiffLine | Fold): readonly (DiffLine | Fold)[] =>
    row.kind === 'fold' && opened.has(row) ? row.lines : [row],
  );
  const count = (kind: DiffLine['kind']) => lines.filter((line) => line.kind === kind).length;
  const left = rows.length - limit;
  return (
    <div dir="ltr" className="min-w-0 overflow-hidden rounded border border-line bg-surface">
      <div
        role="group"
        aria-label={`Lines added: ${count('added')}, removed: ${count('removed')}`}
        // A region that scrolls can be scrolled with the keyboard.
        tabIndex={0}
        className="max-h-[70vh] overflow-auto"
      >
        <table className="min-w-full border-collapse font-mono text-xs leading-[1.5]">
          <tbody>
            {rows
              .slice(0, limit)
              .map((row, index) =>
                row.kind === 'fold' ? (
                  <FoldRow
                    key={index}
                    count={row.lines.length}
                    onOpen={() => setOpened(new Set(opened).add(row))}
                  />
                ) : (
                  <LineRow key={index} line={row} library={library} />
                ),
              )}
          </tbody>
        </table>
      </div>
      {left > 0 ? (
        <div className="flex items-center gap-2 border-t border-line px-2 py-1 text-xs text-muted">
          {formatCount(left)} more lines are not shown
          <Button size="sm" onClick={() => setLimit(limit + moreRows)}>
            {left <= moreRows ? 'Show the rest' : `Show the next ${formatCount(moreRows)}`}
          </Button>
        </div>
      ) : null}
    </div>
  );
}

function FoldRow({ count, onOpen }: { readonly count: number; readonly onOpen: () => void }) {
  return (
    <tr className="bg-sunken text-muted">
      <td colSpan={4} className="p-0">
        <button
          type="button"
          className="flex h-6 items-center gap-1.5 px-2 font-sans hover:text-text pointer-coarse:h-11"
          onClick={onOpen}
        >
          <UnfoldVertical aria-hidden size={12} /> {formatCount(count)} unchanged lines
        </button>
      </td>
    </tr>
  );
}

const signs = { added: '+', removed: '−', same: ' ' };
const backgrounds = { added: 'bg-done-soft', removed: 'bg-failed-soft', same: '' };
const colours = { added: 'text-done', removed: 'text-failed', same: 'text-faint' };

interface LineRowProps {
  readonly line: DiffLine;
  readonly library: Library | undefined;
}

const LineRow = memo(function LineRow({ line, library }: LineRowProps) {
  switch (line.kind) {
    case 'file':
    case 'part':
    case 'note':
      return (
        <tr className={cx('text-muted', line.kind !== 'note' && 'bg-sunken')}>
          <td
            colSpan={4}
            className={cx('px-2 whitespace-pre', line.kind === 'file' && 'font-semibold')}
          >
            <SafeText text={line.text} maxLength={2_000} />
          </td>
        </tr>
      );
    case 'same':
    case 'added':
    case 'removed': {
      const number = 'w-px px-1.5 text-right align-top text-faint select-none';
      return (
        <tr className={backgrounds[line.kind]}>
          <td className={cx(number, 'max-sm:hidden')}>{line.before}</td>
          <td className={number}>
            {line.after ?? <span className="sm:hidden">{line.before}</span>}
          </td>
          <td className={cx('w-px px-1 align-top font-semibold select-none', colours[line.kind])}>
            {signs[line.kind]}
          </td>
          <td className="pr-3 whitespace-pre">
            <LineText line={line} library={library} />
          </td>
        </tr>
      );
    }
  }
});

/** Longer lines are not compared word by word. */
const maxCompared = 1_000;

function LineText({ line, library }: LineRowProps) {
  const words = useMemo((): readonly Words[] | undefined => {
    if (library === undefined || !('counterpart' in line)) return undefined;
    const { kind, text, counterpart = '' } = line;
    if (kind === 'same') return undefined;
    if (Math.max(text.length, counterpart.length) > maxCompared) return undefined;
    const [before, after] = kind === 'removed' ? [text, counterpart] : [counterpart, text];
    return wordsOf(library.diffWordsWithSpace(before, after), kind);
  }, [line, library]);
  if (words === undefined) return <SafeText text={line.text} maxLength={2_000} />;
  return words.map(({ text, isChanged }, index) =>
    isChanged ? (
      <span
        key={index}
        className={cx(
          'rounded-sm underline underline-offset-2',
          line.kind === 'added' ? 'bg-done/20 decoration-done' : 'bg-failed/20 decoration-failed',
        )}
      >
        <SafeText text={text} maxLength={2_000} />
      </span>
    ) : (
      <SafeText key={index} text={text} maxLength={2_000} />
    ),
  );
}
