/** The transcript as it was at the cursor. At the end of a run that goes on, it grows while it is read. */
import { memo, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { VList, type VListHandle } from 'virtua';
import type { StoredEvent } from '@relay/protocol/wire';
import { Button } from '../../../ui/button.tsx';
import { formatDateTime } from '../../../ui/values.tsx';
import type { PaneProps } from './run-page.tsx';
import { type Item, type Row, rowsAt } from '../../../transcript/transcript.ts';
import { TranscriptRow } from './transcript-row.tsx';

/** So close to the end the reader follows it. */
const endPx = 48;
/** Scrolling goes on for a while after it was begun. */
const touchMs = 1_000;

export const TranscriptPane = memo(function TranscriptPane({
  journal,
  cursor,
  selected,
  moveTo,
  select,
}: PaneProps) {
  const { fold, version } = journal;
  const isAtEnd = cursor >= journal.lastSeq;
  const list = useRef<VListHandle>(null);
  /** Items whose state is not the default one: reasoning is folded, agents are not. */
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(
    () => currentRows(fold.transcript.items, { cursor, toggled, version }),
    [fold, cursor, toggled, version],
  );
  const isFollowing = useRef(true);
  /** When the reader last touched a key, the wheel or the scroll bar. */
  const touchedAt = useRef(-Infinity);
  const touch = () => void (touchedAt.current = performance.now());
  const [isAway, setAway] = useState(false);

  // The cursor was moved: what happened last is at the end.
  const shownCursor = useRef(cursor);
  if (shownCursor.current !== cursor) {
    shownCursor.current = cursor;
    if (!isAtEnd) isFollowing.current = true;
  }
  const follow = () => {
    if (isFollowing.current) list.current?.scrollToIndex(rows.length - 1, { align: 'end' });
  };
  useLayoutEffect(follow, [rows, version]);

  // An event was selected elsewhere: its row is shown.
  const shownSelected = useRef(selected);
  useLayoutEffect(() => {
    const hasMoved = shownSelected.current !== selected;
    shownSelected.current = selected;
    if (!hasMoved || selected === cursor) return;
    const index = rowOf(rows, fold.at(selected));
    if (index === undefined) return;
    isFollowing.current = false;
    list.current?.scrollToIndex(index, { align: 'nearest' });
  }, [selected, cursor, rows, fold]);

  const onScroll = () => {
    const { current } = list;
    if (current === null) return;
    const away = current.scrollSize - current.scrollOffset - current.viewportSize > endPx;
    // What is above may have been measured, or replaced: only the reader leaves the end.
    if (!away) isFollowing.current = true;
    else if (performance.now() - touchedAt.current < touchMs) isFollowing.current = false;
    setAway(!isFollowing.current);
  };
  const toggle = (key: string) => {
    isFollowing.current = false;
    setToggled((before) => {
      const next = new Set(before);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  };
  const at = fold.at(cursor)?.at;
  const hasSelection = !isAtEnd || selected !== cursor;

  return (
    <section aria-label="Transcript" className="relative flex min-h-0 min-w-0 flex-1 flex-col">
      {isAtEnd ? null : (
        <div
          role="status"
          className="flex min-h-9 items-center gap-2 border-b border-line bg-working-soft px-4 text-sm text-working"
        >
          <span className="min-w-0 flex-1 truncate">
            As it was at event {cursor}
            {at === undefined ? '' : `, ${formatDateTime(at)}`}
          </span>
          <Button size="sm" onClick={() => moveTo(journal.lastSeq)}>
            Back to the end
          </Button>
        </div>
      )}
      <VList
        ref={list}
        data={rows}
        onScroll={onScroll}
        onResize={follow}
        onWheel={touch}
        onKeyDown={touch}
        onTouchMove={touch}
        onPointerDown={touch}
        onPointerMove={({ buttons }) => {
          if (buttons !== 0) touch();
        }}
        className="flex-1 py-2"
        tabIndex={0}
      >
        {(row) => (
          <TranscriptRow
            key={row.key}
            row={row}
            cursor={cursor}
            isSelected={hasSelection && isRowOf(row, fold.at(selected))}
            isLive={isAtEnd && !fold.timeline.isOver}
            isFolded={isFolded(row.item, toggled)}
            onToggle={() => toggle(row.item.key)}
            onSelect={select}
          />
        )}
      </VList>
      {isAway && isAtEnd ? (
        <Button
          size="sm"
          className="absolute right-4 bottom-3"
          onClick={() => {
            isFollowing.current = true;
            list.current?.scrollToIndex(rows.length - 1, { align: 'end' });
          }}
        >
          {fold.timeline.isOver ? 'To the end' : 'Follow'}
        </Button>
      ) : null}
    </section>
  );
});

/** `version` says that items have changed: they are changed in place. */
function currentRows(
  items: readonly Item[],
  options: {
    readonly cursor: number;
    readonly toggled: ReadonlySet<string>;
    readonly version: number;
  },
): Row[] {
  return rowsAt(items, options.cursor, (item) => isFolded(item, options.toggled));
}

function isFolded(item: Item, toggled: ReadonlySet<string>): boolean {
  if (item.kind === 'reasoning') return !toggled.has(item.key);
  return item.kind === 'agent' && toggled.has(item.key);
}

/** Whether a row shows what an event is about. */
function isRowOf({ item }: Row, event: StoredEvent | undefined): boolean {
  if (event === undefined) return false;
  switch (item.kind) {
    case 'tool':
      return 'toolCallId' in event && item.key === `t${event.toolCallId}`;
    case 'text':
      return event.type === 'text.appended' && event.textId === item.key;
    case 'reasoning':
      return event.type === 'reasoning.appended' && event.reasoningId === item.key;
    case 'agent':
      return item.started?.seq === event.seq || item.ended?.seq === event.seq;
    case 'start':
    case 'message':
    case 'note':
      return item.seq === event.seq;
  }
}

/** The row to show for an event; for one that has none, what came before it. */
function rowOf(rows: readonly Row[], event: StoredEvent | undefined): number | undefined {
  if (event === undefined) return undefined;
  const exact = rows.findLastIndex(
    (row) =>
      isRowOf(row, event) &&
      (row.segment === undefined ||
        !('text' in row.item) ||
        row.segment.start < row.item.text.lengthAt(event.seq)),
  );
  if (exact !== -1) return exact;
  const before = rows.findLastIndex(({ item }) => item.seq <= event.seq);
  return before === -1 ? undefined : before;
}
