/** Old and new arguments of a call that an approver has edited. */
import { ArrowRight } from 'lucide-react';
import { useMemo, useState } from 'react';
import { DiffOf } from '../text/diff.tsx';
import { Json, Scalar } from '../text/json.tsx';
import { jsonText } from '../text/json-rows.ts';
import { SafeText } from '../text/safe-text.tsx';
import { Button } from '../ui/button.tsx';
import { cx } from '../ui/cx.ts';
import { changesBetween, type FieldChange, typeWord } from './changes.ts';

interface ArgumentsDiffProps {
  readonly before: unknown;
  readonly after: unknown;
}

const firstChanges = 50;

export function ArgumentsDiff({ before, after }: ArgumentsDiffProps) {
  const [isAll, setAll] = useState(false);
  const changes = useMemo(() => changesBetween(before, after), [before, after]);
  if (changes.length === 0) return <p className="text-sm text-muted">Nothing was changed</p>;
  const shown = isAll ? changes : changes.slice(0, firstChanges);
  return (
    <dl className="flex min-w-0 flex-col gap-3">
      {shown.map((change) => (
        <div key={change.path} className="flex min-w-0 flex-col gap-1">
          <dt className="flex flex-wrap gap-2 font-mono text-xs text-muted">
            {change.path === '' ? 'All' : <SafeText text={change.path} maxLength={300} />}
            <ChangeOfType {...change} />
          </dt>
          <dd className="min-w-0">
            <Change {...change} />
          </dd>
        </div>
      ))}
      {shown.length < changes.length ? (
        <div>
          <Button size="sm" onClick={() => setAll(true)}>
            Show {changes.length - shown.length} more changes
          </Button>
        </div>
      ) : null}
    </dl>
  );
}

/** `"5"` and `5` look alike. */
function ChangeOfType({ before, after }: FieldChange) {
  if (before === undefined) return <span className="font-sans">added</span>;
  if (after === undefined) return <span className="font-sans">removed</span>;
  const [from, to] = [typeWord(before), typeWord(after)];
  if (from === to) return null;
  return (
    <span className="font-sans text-waiting">
      {from} → {to}
    </span>
  );
}

function Change({ before, after }: FieldChange) {
  if (isLongText(before) || isLongText(after) || isNested(before) || isNested(after)) {
    if (before === undefined || after === undefined) return <Sides before={before} after={after} />;
    return <DiffOf before={textOf(before)} after={textOf(after)} />;
  }
  return <Sides before={before} after={after} />;
}

function Sides({ before, after }: Omit<FieldChange, 'path'>) {
  return (
    <div dir="ltr" className="flex min-w-0 flex-wrap items-start gap-2 font-mono text-sm">
      <del
        className={cx(
          'min-w-0 rounded-sm px-1 no-underline',
          before !== undefined && 'bg-failed-soft',
        )}
      >
        <span className="sr-only">Before: </span>
        <Side value={before} />
      </del>
      <ArrowRight aria-hidden size={14} className="mt-0.5 text-muted" />
      <ins
        className={cx(
          'min-w-0 rounded-sm px-1 no-underline',
          after !== undefined && 'bg-done-soft',
        )}
      >
        <span className="sr-only">After: </span>
        <Side value={after} />
      </ins>
    </div>
  );
}

function Side({ value }: { readonly value: unknown }) {
  if (value === undefined) return <span className="font-sans text-muted italic">not set</span>;
  if (value === null || typeof value === 'boolean' || typeof value === 'number') {
    return <Scalar value={value} />;
  }
  return typeof value === 'string' ? <Scalar value={value} /> : <Json value={value} />;
}

function isLongText(value: unknown): boolean {
  return typeof value === 'string' && (value.length > 60 || value.includes('\n'));
}

function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : jsonText(value);
}
