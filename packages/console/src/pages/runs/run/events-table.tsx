/** All events of a run as they are stored, with a filter by type. */
import type { StoredEvent } from '@relay/protocol/wire';
import { memo, useEffect, useMemo, useRef } from 'react';
import { VList, type VListHandle } from 'virtua';
import { useSearchParams } from 'wouter';
import { escapeMisleading } from '@relay/protocol/display';
import { cx } from '../../../ui/cx.ts';
import { Select } from '../../../ui/form.tsx';
import { formatCount } from '../../../ui/values.tsx';
import { summaryOf } from '../../../transcript/describe.ts';
import { EventPane } from './event-pane.tsx';
import type { PaneProps } from './run-page.tsx';

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hourCycle: 'h23',
});

const mostCharacters = 300;

export const EventsTable = memo(function EventsTable(props: PaneProps) {
  const { journal, selected, select } = props;
  const { fold, version } = journal;
  const [params, setParams] = useSearchParams();
  const type = params.get('type') ?? 'all';
  const list = useRef<VListHandle>(null);
  const counts = useMemo(() => countsOf(fold.events, version), [fold, version]);
  const events = useMemo(() => matching(fold.events, type, version), [fold, type, version]);
  const rows = useMemo(() => rowsOf(events), [events]);
  // The selected event is in view at first, also when the whole journal replaces its end.
  const placedFold = useRef<typeof fold>(undefined);
  useEffect(() => {
    if (placedFold.current === fold) return;
    placedFold.current = fold;
    const index = rows.findIndex(({ last }) => last.seq >= selected);
    list.current?.scrollToIndex(index === -1 ? rows.length - 1 : index, { align: 'center' });
  }, [rows, fold, selected]);

  return (
    <div className="flex min-h-0 flex-1">
      <div className="flex min-w-0 flex-1 flex-col">
        <div className="flex shrink-0 items-center gap-2 border-b border-line px-4 py-1.5">
          <Select
            aria-label="Type of event"
            className="w-auto!"
            value={type}
            onChange={({ target }) =>
              setParams(
                (current) => {
                  const next = new URLSearchParams(current);
                  if (target.value === 'all') next.delete('type');
                  else next.set('type', target.value);
                  return next;
                },
                { replace: true },
              )
            }
          >
            <option value="all">All types ({formatCount(fold.events.length)})</option>
            <option value="-text">Without pieces of text</option>
            {counts.map(([name, count]) => (
              <option key={name} value={name}>
                {name} ({formatCount(count)})
              </option>
            ))}
          </Select>
          <span className="text-xs text-muted">{formatCount(events.length)} events</span>
        </div>
        <div className="min-h-0 flex-1">
          <VList ref={list} data={rows} itemSize={28}>
            {(row) => (
              <EventRow
                key={row.first.seq}
                row={row}
                isSelected={row.first.seq <= selected && selected <= row.last.seq}
                onSelect={() => select(row.first.seq)}
              />
            )}
          </VList>
        </div>
      </div>
      <aside
        aria-label="Selected event"
        className="hidden w-[36%] max-w-[560px] min-w-[300px] flex-col border-l border-line lg:flex"
      >
        <EventPane {...props} />
      </aside>
    </div>
  );
});

/** Pieces of one text that follow each other are one row. */
interface EventsRow {
  readonly first: StoredEvent;
  readonly last: StoredEvent;
  readonly text: string;
}

function rowsOf(events: readonly StoredEvent[]): readonly EventsRow[] {
  const rows: EventsRow[] = [];
  for (const event of events) {
    const before = rows.at(-1);
    if (before !== undefined && continues(before.last, event)) {
      const text =
        before.text.length < mostCharacters ? before.text + summaryOf(event) : before.text;
      rows[rows.length - 1] = { first: before.first, last: event, text };
    } else {
      rows.push({ first: event, last: event, text: summaryOf(event) });
    }
  }
  return rows;
}

function continues(before: StoredEvent, event: StoredEvent): boolean {
  if (before.seq !== event.seq - 1) return false;
  if (event.type === 'text.appended') {
    return before.type === event.type && before.textId === event.textId;
  }
  if (event.type !== 'reasoning.appended' || before.type !== event.type) return false;
  return before.reasoningId === event.reasoningId;
}

interface EventRowProps {
  readonly row: EventsRow;
  readonly isSelected: boolean;
  readonly onSelect: () => void;
}

function EventRow({ row: { first, last, text }, isSelected, onSelect }: EventRowProps) {
  const count = last.seq - first.seq + 1;
  return (
    <button
      type="button"
      aria-current={isSelected ? 'true' : undefined}
      onClick={onSelect}
      className={cx(
        'grid h-7 w-full grid-cols-[56px_88px_minmax(0,1fr)] items-center gap-x-3 px-4 text-left text-xs sm:grid-cols-[64px_96px_170px_minmax(0,1fr)] pointer-coarse:h-11',
        isSelected ? 'bg-selected' : 'hover:bg-hover',
      )}
    >
      <span className="text-right text-muted">{first.seq}</span>
      <span className="whitespace-nowrap text-muted">{clock.format(new Date(first.at))}</span>
      <span className="truncate font-mono max-sm:hidden">
        {first.type}
        {count === 1 ? null : <span className="text-muted"> × {formatCount(count)}</span>}
      </span>
      <span className="truncate text-text">{escapeMisleading(text.slice(0, mostCharacters))}</span>
    </button>
  );
}

/** `version` says that the events have changed: they are added in place. */
function countsOf(events: readonly StoredEvent[], _version: number): [string, number][] {
  const counts = new Map<string, number>();
  for (const { type } of events) counts.set(type, (counts.get(type) ?? 0) + 1);
  return [...counts].toSorted(([one], [other]) => one.localeCompare(other));
}

function matching(
  events: readonly StoredEvent[],
  type: string,
  _version: number,
): readonly StoredEvent[] {
  if (type === 'all') return events.slice();
  if (type === '-text') return events.filter((event) => !('text' in event));
  return events.filter((event) => event.type === type);
}
