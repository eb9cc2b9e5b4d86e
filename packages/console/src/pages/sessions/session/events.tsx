/** The journal of a session as it is stored. */
import type { StoredSessionEvent } from '@relay/sdk';
import { ChevronRight } from 'lucide-react';
import { useMemo } from 'react';
import { Json } from '../../../text/json.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { cx } from '../../../ui/cx.ts';
import { Select } from '../../../ui/form.tsx';
import { Empty, Loading } from '../../../ui/notice.tsx';
import { useFilters } from '../../../ui/use-filters.ts';
import { formatCount, Time } from '../../../ui/values.tsx';
import { Older } from './conversation.tsx';
import type { Journal } from './journal.ts';
import { TailList } from '../../../ui/tail-list.tsx';

export function Events({ journal }: { readonly journal: Journal }) {
  const { search, setFilter } = useFilters();
  const type = search.get('type') ?? '';
  const selected = Number(search.get('seq') ?? 0);
  const { events, isLoading } = journal;
  const types = useMemo(() => [...new Set(events.map((event) => event.type))].toSorted(), [events]);
  const shown = useMemo(
    () => (type === '' ? events : events.filter((event) => event.type === type)),
    [events, type],
  );
  if (events.length === 0 && isLoading) return <Loading />;
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex shrink-0 items-center gap-3 border-b border-line px-4 py-1.5 text-xs text-muted">
        <Select
          aria-label="Type of events"
          className="w-52!"
          value={type}
          onChange={(event) => setFilter('type', event.target.value)}
        >
          <option value="">All types</option>
          {types.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </Select>
        {formatCount(shown.length)} events{journal.isComplete ? '' : ' loaded'}
      </div>
      <div className="min-h-0 flex-1">
        {shown.length === 0 ? (
          <Empty title="No event of this type">Load older ones, or choose another type.</Empty>
        ) : (
          <TailList
            label="Events"
            items={shown}
            keyOf={({ seq }) => seq}
            top={<Older journal={journal} />}
          >
            {(event) => (
              <EventRow
                event={event}
                isOpen={event.seq === selected}
                onToggle={() => setFilter('seq', event.seq === selected ? '' : String(event.seq))}
              />
            )}
          </TailList>
        )}
      </div>
    </div>
  );
}

interface EventRowProps {
  readonly event: StoredSessionEvent;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function EventRow({ event, isOpen, onToggle }: EventRowProps) {
  const { seq, at, type, ...rest } = event;
  return (
    <div className="border-b border-line">
      <button
        type="button"
        aria-expanded={isOpen}
        className={cx(
          'flex h-9 w-full items-center gap-3 px-4 text-left text-xs pointer-coarse:h-11',
          isOpen ? 'bg-selected' : 'hover:bg-hover',
        )}
        onClick={onToggle}
      >
        <ChevronRight
          aria-hidden
          size={12}
          className={cx('shrink-0 text-faint', isOpen && 'rotate-90')}
        />
        <span className="w-12 shrink-0 text-right text-muted">{seq}</span>
        <span className="hidden w-28 shrink-0 text-muted sm:inline">
          <Time at={at} />
        </span>
        <span className="w-36 shrink-0 truncate font-mono">
          <SafeText text={type} />
        </span>
        <span className="min-w-0 flex-1 truncate font-mono text-muted">
          <SafeText text={JSON.stringify(rest).slice(0, 300)} />
        </span>
      </button>
      {isOpen ? (
        <div className="max-h-[60vh] overflow-auto bg-surface px-4 py-2">
          <Json value={event} />
        </div>
      ) : null}
    </div>
  );
}
