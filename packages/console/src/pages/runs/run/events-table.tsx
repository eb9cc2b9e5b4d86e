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
  // The selected event is in view at first, also when the whole journal replaces its end.
  const placedFold = useRef<typeof fold>(undefined);
  useEffect(() => {
    if (placedFold.current === fold) return;
    placedFold.current = fold;
    const index = events.findIndex(({ seq }) => seq >= selected);
    list.current?.scrollToIndex(index === -1 ? events.length - 1 : index, { align: 'center' });
  }, [events, fold, selected]);

  return (
    <div className="flex min-h-0 flex-1">
      <div className="flex min-w-0 flex-1 flex-col">
        <div className="flex items-center gap-2 border-b border-line px-4 py-1.5">
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
        <VList ref={list} data={events} itemSize={28} className="flex-1">
          {(event) => (
            <button
              key={event.seq}
              type="button"
              aria-current={event.seq === selected ? 'true' : undefined}
              onClick={() => select(event.seq)}
              className={cx(
                'grid h-7 w-full grid-cols-[56px_88px_minmax(0,1fr)] items-center gap-x-3 px-4 text-left text-xs sm:grid-cols-[64px_96px_170px_minmax(0,1fr)] pointer-coarse:h-11',
                event.seq === selected ? 'bg-selected' : 'hover:bg-hover',
              )}
            >
              <span className="text-right text-muted">{event.seq}</span>
              <span className="whitespace-nowrap text-muted">
                {clock.format(new Date(event.at))}
              </span>
              <span className="truncate font-mono max-sm:hidden">{event.type}</span>
              <span className="truncate text-text">
                {escapeMisleading(summaryOf(event).slice(0, mostCharacters))}
              </span>
            </button>
          )}
        </VList>
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
