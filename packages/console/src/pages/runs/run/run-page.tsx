/** One run: its timeline, its transcript as it was at any event, and its events. */
import { RelayApiError } from '@relay/sdk';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import {
  Suspense,
  useCallback,
  useDeferredValue,
  useEffect,
  useMemo,
  useState,
  useSyncExternalStore,
} from 'react';
import { Link, useSearchParams } from 'wouter';
import { client } from '../../../api/client.ts';
import { useShortcuts } from '../../../frame/shortcuts.ts';
import { SafeText } from '../../../text/safe-text.tsx';
import { buttonClass } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { lazyPart } from '../../../ui/lazy-part.ts';
import { Empty, ErrorNotice, Loading } from '../../../ui/notice.tsx';
import { formatDuration, formatTime } from '../../../ui/values.tsx';
import { EventPane } from './event-pane.tsx';
import { EventsTable } from './events-table.tsx';
import { type Disconnection, type JournalState, RunJournal } from '../../../transcript/journal.ts';
import { RunHeader } from './run-header.tsx';
import { TimelinePane } from './timeline-pane.tsx';
import { TranscriptPane } from './transcript-pane.tsx';
import { usePosition } from './use-position.ts';
import { useWidth } from './use-width.ts';

const ShortcutsHelp = lazyPart(
  async () => (await import('../../../frame/shortcuts-help.tsx')).ShortcutsHelp,
);

const shortcuts = [
  ['[', 'Cursor to the previous event'],
  [']', 'Cursor to the next event'],
  ['Home', 'Cursor to the first event'],
  ['End', 'Cursor to the end'],
  ['K', 'Select the previous event'],
  ['J', 'Select the next event'],
  ['+', 'Zoom in'],
  ['-', 'Zoom out'],
  ['0', 'Show the whole run'],
] as const;

/** Below this width the panes are tabs. */
const panesFrom = 900;

const tabNames = ['run', 'timeline', 'event', 'events'] as const;
type Tab = (typeof tabNames)[number];

export function RunPage({ id }: { readonly id: string }) {
  const [position, move] = usePosition();
  const run = useQuery({
    queryKey: ['run', id],
    queryFn: ({ signal }) => client.runs.get(id, { signal }),
    placeholderData: keepPreviousData,
  });
  const journal = useJournal(id, position.seq ?? position.event);
  const [params, setParams] = useSearchParams();
  const [frame, width] = useWidth();
  const [isHelpOpen, setHelpOpen] = useState(false);
  const isNarrow = width < panesFrom;
  const named = tabNames.find((name) => name === params.get('tab')) ?? 'run';
  // Where all panes are visible, two of the tabs are.
  const tab: Tab = isNarrow || named === 'events' ? named : 'run';

  const end = journal?.lastSeq ?? 0;
  const cursor = Math.min(position.seq ?? end, end);
  const selected = Math.min(position.event ?? cursor, end);
  const first = journal?.fold.firstSeq ?? 1;
  const moveTo = useCallback(
    (seq: number) => {
      const bounded = Math.max(first, Math.min(seq, end));
      move({ seq: bounded >= end ? undefined : bounded, event: undefined });
    },
    [first, end, move],
  );
  const select = useCallback(
    (event: number) =>
      move((before) => ({ ...before, event: Math.max(first, Math.min(event, end)) })),
    [first, end, move],
  );
  // The timeline follows the pointer; the other panes follow when there is time.
  const view = useMemo(
    () => (journal === undefined ? undefined : { journal, cursor, selected, moveTo, select }),
    [journal, cursor, selected, moveTo, select],
  );
  const later = useDeferredValue(view);
  const openTab = (next: Tab) =>
    setParams((current) => {
      const changed = new URLSearchParams(current);
      if (next === 'run') changed.delete('tab');
      else changed.set('tab', next);
      return changed;
    });

  useShortcuts({
    '[': () => moveTo(cursor - 1),
    ']': () => moveTo(cursor + 1),
    Home: () => moveTo(first),
    End: () => move({ seq: undefined, event: undefined }),
    k: () => select(selected - 1),
    j: () => select(selected + 1),
    '?': () => setHelpOpen(true),
  });

  const error = run.error ?? journal?.error;
  if (run.data === undefined) {
    if (error === null || error === undefined) return <Loading />;
    return isNotFound(error) ? (
      <Empty
        title="This run was not found"
        action={
          <Link href="/runs" className={buttonClass('plain')}>
            Show all runs
          </Link>
        }
      >
        There is no run with this id, or it belongs to another tenant.
      </Empty>
    ) : (
      <ErrorNotice
        title="The run could not be loaded"
        error={error}
        onRetry={() => void run.refetch()}
      />
    );
  }
  const tabs: readonly (readonly [Tab, string])[] = isNarrow
    ? [
        ['run', 'Transcript'],
        ['timeline', 'Timeline'],
        ['event', 'Event'],
        ['events', 'All events'],
      ]
    : [
        ['run', 'Run'],
        ['events', 'All events'],
      ];

  return (
    <div ref={frame} className="flex min-h-0 flex-1 flex-col">
      <RunHeader run={run.data} journal={journal} cursor={cursor} />
      <div
        role="tablist"
        aria-label="Parts of the run"
        className="flex gap-1 overflow-x-auto border-b border-line px-3"
      >
        {tabs.map(([name, label]) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={tab === name}
            aria-controls="run-panel"
            onClick={() => openTab(name)}
            className={cx(
              '-mb-px h-9 shrink-0 border-b-2 px-2 text-sm pointer-coarse:h-11',
              tab === name
                ? 'border-solid font-medium text-text'
                : 'border-transparent text-muted hover:text-text',
            )}
          >
            {label}
          </button>
        ))}
        {journal === undefined ? null : <Progress journal={journal} />}
      </div>
      <div
        role="tabpanel"
        id="run-panel"
        aria-labelledby={`tab-${tab}`}
        className="flex min-h-0 flex-1 flex-col"
      >
        {view === undefined || later === undefined || view.journal.fold.events.length === 0 ? (
          journal?.error === undefined ? (
            <Loading />
          ) : (
            <JournalError error={journal.error} output={run.data.output} />
          )
        ) : (
          <>
            <Disconnected disconnection={view.journal.disconnection} />
            {view.journal.error === undefined ? null : (
              <ErrorNotice
                title="The page stopped following this run"
                error={view.journal.error}
                onRetry={() => location.reload()}
              />
            )}
            {tab === 'events' ? (
              <EventsTable {...later} />
            ) : isNarrow ? (
              <>
                {tab === 'run' ? <TranscriptPane {...later} /> : null}
                {tab === 'timeline' ? <TimelinePane {...view} isTall /> : null}
                {tab === 'event' ? <EventPane {...later} /> : null}
              </>
            ) : (
              <>
                <TimelinePane {...view} />
                <div className="flex min-h-0 flex-1">
                  <TranscriptPane {...later} />
                  <aside
                    aria-label="Selected event"
                    className="flex w-[36%] max-w-[560px] min-w-[300px] flex-col border-l border-line"
                  >
                    <EventPane {...later} />
                  </aside>
                </div>
              </>
            )}
          </>
        )}
      </div>
      <Suspense>
        {isHelpOpen ? (
          <ShortcutsHelp shortcuts={shortcuts} onClose={() => setHelpOpen(false)}>
            With Ctrl the wheel zooms the timeline.
          </ShortcutsHelp>
        ) : null}
      </Suspense>
    </div>
  );
}

/** What the panes of a run have in common. */
export interface PaneProps {
  readonly journal: JournalState;
  readonly cursor: number;
  readonly selected: number;
  /** Moves the cursor; the event there is selected. */
  readonly moveTo: (seq: number) => void;
  /** Selects an event without moving the cursor. */
  readonly select: (seq: number) => void;
}

/** `around`: the event to read first. */
function useJournal(id: string, around: number | undefined): JournalState | undefined {
  const [journal, setJournal] = useState<RunJournal>();
  const [first] = useState(around);
  useEffect(() => {
    const created = new RunJournal(id);
    setJournal(created);
    created.start(first);
    return () => created.stop();
  }, [id, first]);
  return useSyncExternalStore(journal?.subscribe ?? never, () => journal?.getState());
}

const never = () => () => undefined;

function Progress({ journal }: { readonly journal: JournalState }) {
  if (journal.isWhole) return null;
  const share = Math.floor((journal.loaded / Math.max(1, journal.lastSeq)) * 100);
  return (
    <span role="status" className="ml-auto self-center text-xs text-muted">
      Reading earlier events, {share} %
    </span>
  );
}

function Disconnected({ disconnection }: { readonly disconnection: Disconnection | undefined }) {
  if (disconnection === undefined) return null;
  const { since, until } = disconnection;
  return (
    <p
      role="status"
      className="border-b border-line bg-waiting-soft px-4 py-1.5 text-sm text-waiting"
    >
      {until === undefined
        ? `Disconnected since ${formatTime(since)}. What is shown may be old; the page reconnects by itself.`
        : `This page was disconnected for ${formatDuration(until - since)} at ${formatTime(since)}. Everything that happened meanwhile is shown.`}
    </p>
  );
}

/** The journal is gone or damaged; the run itself has its answer. */
function JournalError({
  error,
  output,
}: {
  readonly error: unknown;
  readonly output: string | undefined;
}) {
  const isPruned = error instanceof RelayApiError && error.code === 'journal_pruned';
  return (
    <div className="overflow-y-auto">
      {isPruned ? (
        <Empty title="The events of this run were deleted">
          The server keeps events for a limited time. The run and its answer are kept.
        </Empty>
      ) : (
        <ErrorNotice
          title="The events of this run could not be read"
          error={error}
          onRetry={() => location.reload()}
        />
      )}
      {output === undefined ? null : (
        <pre className="px-4 font-sans text-sm break-words whitespace-pre-wrap">
          <SafeText text={output} />
        </pre>
      )}
    </div>
  );
}

function isNotFound(error: unknown): boolean {
  return error instanceof RelayApiError && (error.status === 404 || error.status === 400);
}
