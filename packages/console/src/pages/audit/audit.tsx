/** Who did what, when and why, and the proof that nothing was changed or removed. */
import { type AuditEntry, type AuditQuery, defined } from '@relay/protocol/wire';
import { useQuery } from '@tanstack/react-query';
import { Download, ListFilter } from 'lucide-react';
import { useEffect, useId, useRef, useState } from 'react';
import { VList, type VListHandle } from 'virtua';
import { Link } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { useListing } from '../../api/listing.ts';
import { Person } from '../../api/people.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { Button, buttonClass } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Input, Select } from '../../ui/form.tsx';
import { PageHeader, Split } from '../../ui/layout.tsx';
import { Empty, ErrorNotice, Loading } from '../../ui/notice.tsx';
import { useFilters } from '../../ui/use-filters.ts';
import { formatTime, shortId, Time } from '../../ui/values.tsx';
import { EntryDetail } from './entry-detail.tsx';
import { Verification } from './verification.tsx';
import { actions, actionWords, actorName, fromLocal, summaryOf, toLocal } from './words.ts';

const filterNames = ['action', 'actor', 'since', 'until', 'runId'] as const;

export function Audit() {
  const mayRead = useMay('admin');
  return (
    <>
      <PageHeader title="Audit">
        {mayRead ? (
          <a href="/v1/audit/export" download="audit.jsonl" className={buttonClass('plain')}>
            <Download aria-hidden size={14} /> Export
          </a>
        ) : null}
      </PageHeader>
      {mayRead ? (
        <Trail />
      ) : (
        <Empty title="The audit trail is not available">
          It says who did what in this tenant. To read it, sign in with a key that has the scope
          admin.
        </Empty>
      )}
    </>
  );
}

function queryOf(search: URLSearchParams): AuditQuery {
  const value = (name: string) => search.get(name) ?? undefined;
  return defined({
    action: actions.find((action) => action === value('action')),
    actor: value('actor'),
    since: value('since'),
    until: value('until'),
    runId: value('runId'),
  });
}

function Trail() {
  const { search, clearFilters } = useFilters();
  const query = queryOf(search);
  const entries = useListing(['audit', query], (options) =>
    client.audit.list({ ...query, limit: 200 }, options),
  );
  // One entry instead of all pages that were read: the feed says that there may be newer ones.
  const latest = useQuery({
    queryKey: ['audit-latest', query],
    queryFn: ({ signal }) => client.audit.list({ ...query, limit: 1 }, { signal }).page(),
    staleTime: 0,
  });
  const { items } = entries;
  const newest = items?.[0]?.seq ?? 0;
  const newer = (latest.data?.items[0]?.seq ?? 0) - newest;
  const seq = search.get('seq');
  const selected = items?.find((entry) => String(entry.seq) === seq);
  const isFiltered = filterNames.some((name) => search.has(name));
  const addressOf = (entry: number | undefined) => {
    const next = new URLSearchParams(search);
    if (entry === undefined) next.delete('seq');
    else next.set('seq', String(entry));
    return `/audit?${next.toString()}`;
  };

  return (
    <>
      {/* On a phone an entry has the page for itself. */}
      <div className={cx('shrink-0', seq !== null && 'max-[899px]:hidden')}>
        <Verification />
        <Filters />
      </div>
      <Split
        back={addressOf(undefined)}
        placeholder={<Empty title="Choose an entry">It shows what was recorded, and why.</Empty>}
        list={
          items === undefined ? (
            entries.error === null ? (
              <Loading lines={10} />
            ) : (
              <ErrorNotice
                title="The trail could not be loaded"
                error={entries.error}
                onRetry={entries.reload}
              />
            )
          ) : (
            <>
              {newer > 0 ? (
                <div role="status" className="border-b border-line p-2 text-center">
                  <Button size="sm" onClick={entries.reload}>
                    Show newer entries
                  </Button>
                </div>
              ) : null}
              {items.length === 0 ? (
                <Empty
                  title={isFiltered ? 'No entry matches the filters' : 'The trail is empty'}
                  action={
                    isFiltered ? (
                      <Button onClick={clearFilters}>Remove the filters</Button>
                    ) : undefined
                  }
                >
                  Every decision and every change of permissions has an entry.
                </Empty>
              ) : (
                <Entries
                  items={items}
                  selected={selected}
                  addressOf={addressOf}
                  onEnd={entries.hasMore && !entries.isLoadingMore ? entries.loadMore : undefined}
                />
              )}
            </>
          )
        }
        detail={
          selected !== undefined ? (
            <EntryDetail entry={selected} />
          ) : seq !== null && items !== undefined ? (
            <Empty
              title={`Entry ${seq} is not among the entries shown`}
              action={
                entries.hasMore ? (
                  <Button disabled={entries.isLoadingMore} onClick={entries.loadMore}>
                    Load older entries
                  </Button>
                ) : undefined
              }
            >
              It is older, or does not match the filters.
            </Empty>
          ) : undefined
        }
      />
    </>
  );
}

interface EntriesProps {
  readonly items: readonly AuditEntry[];
  readonly selected: AuditEntry | undefined;
  readonly addressOf: (seq: number) => string;
  /** Called near the end of the list; undefined: there is no more, or it is being loaded. */
  readonly onEnd: (() => void) | undefined;
}

/** Pages are loaded before their end is seen. */
const ahead = 40;

function Entries({ items, selected, addressOf, onEnd }: EntriesProps) {
  const list = useRef<VListHandle>(null);
  return (
    <VList
      ref={list}
      role="group"
      aria-label="Audit entries"
      className="min-h-0 flex-1"
      data={items}
      onScroll={() => {
        const handle = list.current;
        if (handle === null || onEnd === undefined) return;
        const last = handle.findItemIndex(handle.scrollOffset + handle.viewportSize);
        if (last > items.length - ahead) onEnd();
      }}
    >
      {(entry) => (
        <Link
          key={entry.seq}
          href={addressOf(entry.seq)}
          aria-current={entry === selected ? 'true' : undefined}
          className={cx(
            'flex min-h-11 flex-col justify-center border-b border-line px-4 py-1.5 text-sm',
            entry === selected ? 'bg-selected' : 'hover:bg-hover',
          )}
        >
          <span className="flex min-w-0 items-baseline gap-2">
            <span className="min-w-0 truncate font-medium">{actionWords[entry.action]}</span>
            <span className="ml-auto shrink-0 text-xs text-muted" title={formatTime(entry.at)}>
              <Time at={entry.at} />
            </span>
          </span>
          <span className="flex min-w-0 items-baseline gap-2 text-xs text-muted">
            <span className="max-w-[40%] shrink-0 truncate">
              <Person id={actorName(entry.who)} />
            </span>
            <span className="min-w-0 flex-1 truncate">
              <SafeText text={summaryOf(entry)} maxLength={200} />
            </span>
            <span className="shrink-0 font-mono text-faint">{entry.seq}</span>
          </span>
        </Link>
      )}
    </VList>
  );
}

function Filters() {
  const { search, setFilter, clearFilters } = useFilters('seq');
  const [isOpen, setOpen] = useState(false);
  const count = filterNames.filter((name) => search.has(name)).length;
  return (
    <div className="border-b border-line px-4 py-2">
      <Button className="w-full sm:hidden" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <ListFilter aria-hidden size={14} /> Filters{count === 0 ? '' : ` (${count})`}
      </Button>
      <div
        className={cx('flex-wrap items-end gap-2 max-sm:mt-2 sm:flex', isOpen ? 'flex' : 'hidden')}
      >
        <Labelled label="Action" className="w-full sm:w-52">
          {(id) => (
            <Select
              id={id}
              value={search.get('action') ?? ''}
              onChange={(event) => setFilter('action', event.target.value)}
            >
              <option value="">Every action</option>
              {actions.map((action) => (
                <option key={action} value={action}>
                  {actionWords[action]}
                </option>
              ))}
            </Select>
          )}
        </Labelled>
        <TextFilter
          label="Actor id"
          value={search.get('actor') ?? ''}
          onChange={(value) => setFilter('actor', value)}
        />
        <TextFilter
          label="Run id"
          value={search.get('runId') ?? ''}
          onChange={(value) => setFilter('runId', value)}
        />
        <Labelled label="From" className="w-full sm:w-auto">
          {(id) => (
            <Input
              id={id}
              type="datetime-local"
              value={toLocal(search.get('since'))}
              onChange={(event) => setFilter('since', fromLocal(event.target.value))}
            />
          )}
        </Labelled>
        <Labelled label="Until" className="w-full sm:w-auto">
          {(id) => (
            <Input
              id={id}
              type="datetime-local"
              value={toLocal(search.get('until'))}
              onChange={(event) => setFilter('until', fromLocal(event.target.value))}
            />
          )}
        </Labelled>
        {count === 0 ? null : (
          <Button kind="quiet" onClick={clearFilters}>
            Remove the filters
          </Button>
        )}
      </div>
    </div>
  );
}

interface LabelledProps {
  readonly label: string;
  readonly className?: string;
  readonly children: (id: string) => React.ReactNode;
}

function Labelled({ label, className, children }: LabelledProps) {
  const id = useId();
  return (
    <div className={cx('flex flex-col gap-0.5', className)}>
      <label htmlFor={id} className="text-xs text-muted">
        {label}
      </label>
      {children(id)}
    </div>
  );
}

interface TextFilterProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** Applies when it is complete: half of an id is refused by the server. */
function TextFilter({ label, value, onChange }: TextFilterProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <Labelled label={label} className="w-full sm:w-40">
      {(id) => (
        <Input
          id={id}
          className="font-mono"
          autoComplete="off"
          spellCheck={false}
          placeholder={value === '' ? 'any' : shortId(value)}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onBlur={() => onChange(text.trim())}
          onKeyDown={(event) => {
            if (event.key === 'Enter') onChange(text.trim());
          }}
        />
      )}
    </Labelled>
  );
}
