/** JSON of models, tools and agents, as a tree or as text. */
import { Braces, ChevronDown, ChevronRight } from 'lucide-react';
import { type KeyboardEvent, memo, useMemo, useRef, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { cx } from '../ui/cx.ts';
import { CopyButton, formatCount } from '../ui/values.tsx';
import { type JsonRow, jsonText, pageSize, type RowContent, rowsOf } from './json-rows.ts';
import { SafeText, Shortened } from './safe-text.tsx';

interface JsonProps {
  readonly value: unknown;
  /** Show only the first level until it is opened. */
  readonly collapsed?: boolean;
}

export function Json({ value, collapsed = false }: JsonProps) {
  const [isRaw, setRaw] = useState(false);
  const isScalar = typeof value !== 'object' || value === null;
  return (
    <div dir="ltr" className="flex min-w-0 items-start gap-1 font-mono text-xs">
      <div className="min-w-0 flex-1">
        {isRaw ? <Raw value={value} /> : <Tree value={value} isCollapsed={collapsed} />}
      </div>
      {isScalar ? null : (
        <span className="flex shrink-0">
          <button
            type="button"
            aria-pressed={isRaw}
            aria-label="Show as text"
            title={isRaw ? 'Show as a tree' : 'Show as text'}
            className={cx(
              'rounded-sm p-1.5 hover:bg-hover hover:text-text',
              isRaw ? 'bg-sunken text-text' : 'text-faint',
            )}
            onClick={() => setRaw(!isRaw)}
          >
            <Braces aria-hidden size={12} />
          </button>
          <CopyButton text={() => jsonText(value)} label="JSON" />
        </span>
      )}
    </div>
  );
}

function Raw({ value }: { readonly value: unknown }) {
  const text = useMemo(() => jsonText(value), [value]);
  return (
    <pre tabIndex={0} className="max-h-[70vh] overflow-auto leading-[1.5]">
      <SafeText text={text} maxLength={20_000} />
    </pre>
  );
}

interface TreeProps {
  readonly value: unknown;
  readonly isCollapsed: boolean;
}

function Tree({ value, isCollapsed }: TreeProps) {
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [shown, setShown] = useState<ReadonlyMap<string, number>>(new Map());
  const [current, setCurrent] = useState('');
  const list = useRef<HTMLDivElement>(null);
  const rows = useMemo(
    () => rowsOf(value, { toggled, shown, isCollapsed }),
    [value, toggled, shown, isCollapsed],
  );
  const toggle = (id: string, isOpen: boolean) => {
    setToggled(new Map(toggled).set(id, isOpen));
    setCurrent(id);
  };
  const showMore = (parent: string) =>
    setShown(new Map(shown).set(parent, (shown.get(parent) ?? pageSize) * 4));

  /** As in the trees of operating systems: up and down between rows, right opens, left closes. */
  const onKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    const buttons = [...(list.current?.querySelectorAll<HTMLElement>('button[data-row]') ?? [])];
    const at = buttons.findIndex((button) => button === event.target);
    const button = buttons[at];
    if (button === undefined) return;
    const row = button.dataset['row'] ?? '';
    switch (event.key) {
      case 'ArrowDown':
      case 'ArrowUp': {
        const next = buttons[at + (event.key === 'ArrowDown' ? 1 : -1)];
        next?.focus();
        if (next !== undefined) setCurrent(next.dataset['row'] ?? '');
        break;
      }
      case 'ArrowRight':
      case 'ArrowLeft':
        toggle(row, event.key === 'ArrowRight');
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const tabStop = rows.some(({ id }) => id === current) ? current : '';
  return (
    <div ref={list} onKeyDown={onKeyDown} className="flex min-w-0 flex-col leading-[1.5]">
      {rows.map((row) => (
        <Row
          key={row.id}
          row={row}
          isCurrent={row.id === tabStop}
          onToggle={toggle}
          onShowMore={showMore}
        />
      ))}
    </div>
  );
}

interface RowProps {
  readonly row: JsonRow;
  readonly isCurrent: boolean;
  readonly onToggle: (id: string, isOpen: boolean) => void;
  readonly onShowMore: (parent: string) => void;
}

/** Deeper rows are not indented further: they would leave the page. */
const maxIndentation = 16;

function Row({ row, isCurrent, onToggle, onShowMore }: RowProps) {
  const { id, depth, name, content } = row;
  const style = { paddingLeft: Math.min(depth, maxIndentation) * 14 };
  switch (content.kind) {
    case 'rest':
      return (
        <div style={style} className="py-1">
          <Button size="sm" onClick={() => onShowMore(content.parent)}>
            Show more of the {formatCount(content.count)} others
          </Button>
        </div>
      );
    case 'scalar':
      return (
        <div style={style} className="flex min-w-0 items-baseline">
          <span className={cx('shrink-0', depth > 0 && 'w-4')} />
          <Name name={name} />
          <Scalar value={content.value} />
        </div>
      );
    case 'parent': {
      const Icon = content.isOpen ? ChevronDown : ChevronRight;
      return (
        <div style={style} className="min-w-0">
          <button
            type="button"
            data-row={id}
            aria-expanded={content.isOpen}
            disabled={content.size === 0}
            tabIndex={isCurrent ? 0 : -1}
            className="flex max-w-full items-baseline rounded-sm text-left hover:bg-hover pointer-coarse:min-h-9 pointer-coarse:items-center"
            onClick={() => onToggle(id, !content.isOpen)}
          >
            <span className="w-4 shrink-0 self-center text-faint">
              {content.size === 0 ? null : <Icon aria-hidden size={12} />}
            </span>
            <Name name={name} />
            <span className="text-muted">{sizeText(content)}</span>
            {depth > maxIndentation ? (
              <span className="ml-2 text-faint">level {formatCount(depth)}</span>
            ) : null}
          </button>
        </div>
      );
    }
  }
}

function Name({ name }: { readonly name: string | number | undefined }) {
  if (name === undefined) return null;
  return (
    <span
      className={cx(
        'mr-1.5 max-w-40 shrink-0 break-words sm:max-w-80',
        typeof name === 'number' && 'text-faint',
      )}
    >
      {name === '' ? '""' : <Shortened text={String(name)} maxLength={200} />}
      <span className="text-faint">:</span>
    </span>
  );
}

function sizeText({ isArray, size }: Extract<RowContent, { kind: 'parent' }>): string {
  if (size === 0) return isArray ? '[]' : '{}';
  const count = formatCount(size);
  if (isArray) return `[${count} ${size === 1 ? 'item' : 'items'}]`;
  return `{${count} ${size === 1 ? 'field' : 'fields'}}`;
}

/** A value in JSON: what is quoted is a text, so that `"5"` and `5` differ. */
export const Scalar = memo(function Scalar({
  value,
}: {
  readonly value: string | number | boolean | null;
}) {
  if (typeof value !== 'string') return <span>{String(value)}</span>;
  const quote = <span className="text-faint">&quot;</span>;
  const isBlock = value.includes('\n');
  return (
    <span
      className={cx(
        'min-w-0 break-words whitespace-pre-wrap',
        // A line break must not look like the next field.
        isBlock && 'inline-block border-l-2 border-line-strong pl-2',
      )}
    >
      {quote}
      <SafeText text={value} maxLength={500} />
      {quote}
    </span>
  );
});
