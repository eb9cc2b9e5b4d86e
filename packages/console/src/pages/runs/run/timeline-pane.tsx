/** The waterfall of a run, with the cursor that moves through its events. */
import {
  Archive,
  ArrowRightLeft,
  CircleCheck,
  CircleX,
  Flag,
  Gauge,
  Hand,
  type LucideIcon,
  Mail,
  Maximize2,
  RefreshCw,
  Strikethrough,
  Unplug,
  ZoomIn,
  ZoomOut,
} from 'lucide-react';
import {
  type KeyboardEvent,
  type PointerEvent as ReactPointerEvent,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { useShortcuts } from '../../../frame/shortcuts.ts';
import { Button, IconButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { toneText, type Tone } from '../../../ui/state.tsx';
import { formatDateTime, formatDuration, useNow } from '../../../ui/values.tsx';
import type { PaneProps } from './run-page.tsx';
import {
  type Bar,
  barsOf,
  type Lane,
  type Marker,
  type Scale,
  scaleOf,
  type Span,
} from '../../../transcript/timeline.ts';
import { useWidth } from './use-width.ts';

const trackHeight = 20;
const axisHeight = 18;
const markersHeight = 22;
const labelWidth = 112;
const mostZoom = 4_096;
const whole = new Intl.NumberFormat();

export function TimelinePane(props: PaneProps & { readonly isTall?: boolean }) {
  const { journal, cursor, moveTo, select, isTall = false } = props;
  const { fold } = journal;
  const { timeline } = fold;
  const tick = useNow();
  const now = timeline.isOver ? timeline.endAt : Math.max(tick, timeline.endAt);
  const [frame, frameWidth] = useWidth();
  const [zoom, setZoom] = useState(1);
  const [left, setLeft] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const viewWidth = Math.max(120, frameWidth - labelWidth - 24);
  const width = viewWidth * zoom;
  const scale = scaleOf(timeline, { width, now });
  const view = { from: left - 50, to: left + viewWidth + 50, now };

  // A point of time stays where it is when the scale changes.
  const anchor = useRef<{ readonly time: number; readonly at: number } | undefined>(undefined);
  const zoomBy = useCallback(
    (factor: number, at?: number) => {
      const { current } = scroller;
      if (current === null) return;
      const x = at ?? viewWidth / 2;
      anchor.current = { time: scale.time(current.scrollLeft + x), at: x };
      setZoom((zoomed) => Math.min(mostZoom, Math.max(1, zoomed * factor)));
    },
    [scale, viewWidth],
  );
  useLayoutEffect(() => {
    if (anchor.current === undefined || scroller.current === null) return;
    scroller.current.scrollLeft = scale.x(anchor.current.time) - anchor.current.at;
    anchor.current = undefined;
  }, [scale]);
  useWheelZoom(scroller, zoomBy);
  useShortcuts({ '+': () => zoomBy(2), '-': () => zoomBy(0.5), '0': () => setZoom(1) });

  const cursorAt = Date.parse(fold.at(cursor)?.at ?? '') || timeline.endAt;
  const isAtEnd = cursor >= journal.lastSeq;
  // At the end nothing was selected.
  const selected = isAtEnd && props.selected === cursor ? 0 : props.selected;
  const cursorX = isAtEnd ? scale.width : scale.x(cursorAt);
  // The slider is as wide as the lanes, and shows the whole run.
  const sliderX = (cursorX / Math.max(1, scale.width)) * viewWidth;
  const toTime = (x: number) => {
    const isEnd = x >= viewWidth - 1;
    moveTo(isEnd ? journal.lastSeq : fold.seqAt(scale.time((x / viewWidth) * scale.width)));
  };
  const onSliderKey = (event: KeyboardEvent<HTMLInputElement>) => {
    const next = seqAfterKey(event.key, cursor, fold.firstSeq, journal.lastSeq);
    if (next === undefined) return;
    event.preventDefault();
    moveTo(next);
  };
  const startAt = timeline.startAt ?? 0;
  const heights = timeline.lanes.map((lane) => Math.max(1, lane.tracks.length) * trackHeight + 6);
  const height = axisHeight + markersHeight + heights.reduce((sum, each) => sum + each, 0);

  const scrub = (event: ReactPointerEvent<HTMLDivElement>) => {
    if (event.buttons !== 1) return;
    const box = event.currentTarget.getBoundingClientRect();
    const x = event.clientX - box.left;
    moveTo(x >= scale.width - 1 ? journal.lastSeq : fold.seqAt(scale.time(x)));
  };

  return (
    <section
      ref={frame}
      aria-label="Timeline"
      className={cx('flex flex-col border-b border-line bg-surface', isTall && 'min-h-0 flex-1')}
    >
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1 px-3 py-1">
        <span className="mr-auto text-xs whitespace-nowrap text-muted">
          Event {whole.format(cursor)} of {whole.format(journal.lastSeq)}
          <span className="max-sm:hidden" title={formatDateTime(cursorAt)}>
            {' '}
            · +{formatDuration(cursorAt - startAt)}
          </span>
        </span>
        <Button kind="quiet" size="sm" disabled={isAtEnd} onClick={() => moveTo(journal.lastSeq)}>
          {timeline.isOver ? 'To the end' : 'Live'}
        </Button>
        <IconButton label="Zoom out (-)" disabled={zoom <= 1} onClick={() => zoomBy(0.5)}>
          <ZoomOut aria-hidden size={16} />
        </IconButton>
        <IconButton label="Zoom in (+)" disabled={zoom >= mostZoom} onClick={() => zoomBy(2)}>
          <ZoomIn aria-hidden size={16} />
        </IconButton>
        <IconButton label="Show the whole run (0)" disabled={zoom === 1} onClick={() => setZoom(1)}>
          <Maximize2 aria-hidden size={16} />
        </IconButton>
      </div>
      <input
        type="range"
        aria-label="Position in the run"
        aria-valuetext={`Event ${cursor} of ${journal.lastSeq}`}
        min={0}
        max={viewWidth}
        step="any"
        value={sliderX}
        onChange={({ target }) => toTime(Number(target.value))}
        onKeyDown={onSliderKey}
        className="shrink-0 accent-(--working) pointer-coarse:h-11"
        // The middle of its handle, which is 16 px wide, is above the cursor.
        style={{ marginLeft: labelWidth + 12 - 8, width: viewWidth + 16 }}
      />
      <div
        className={cx('flex overflow-y-auto px-3 pb-1', isTall ? 'min-h-0 flex-1' : 'max-h-[34vh]')}
      >
        <div
          className="shrink-0"
          style={{ width: labelWidth, paddingTop: axisHeight + markersHeight }}
        >
          {timeline.lanes.map((lane, index) => (
            <div
              key={lane.agentId}
              title={lane.name}
              style={{ height: heights[index], paddingLeft: lane.depth * 10 }}
              className="truncate pr-2 text-xs leading-5 text-muted"
            >
              {lane.depth === 0 ? '' : '└ '}
              {lane.name}
            </div>
          ))}
        </div>
        <div
          ref={scroller}
          tabIndex={-1}
          onScroll={({ currentTarget }) => setLeft(currentTarget.scrollLeft)}
          className="min-w-0 flex-1 overflow-x-auto overflow-y-hidden"
        >
          <div
            data-testid="timeline"
            className="relative cursor-ew-resize touch-pan-x select-none"
            style={{ width: Math.max(1, scale.width), height }}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              scrub(event);
            }}
            onPointerMove={scrub}
          >
            <Ticks scale={scale} startAt={startAt} view={view} />
            <Folds scale={scale} view={view} height={height} />
            <Markers
              markers={timeline.markers}
              scale={scale}
              view={view}
              selected={selected}
              select={select}
            />
            <Lanes
              lanes={timeline.lanes}
              heights={heights}
              pending={timeline.pending()}
              scale={scale}
              view={view}
              selected={selected}
              select={select}
            />
            <div
              aria-hidden
              className="pointer-events-none absolute top-0 bottom-0 w-0.5 bg-working"
              style={{ left: Math.max(0, cursorX - 1) }}
            />
          </div>
        </div>
      </div>
    </section>
  );
}

/** Where a key on the slider leads: events are close together in time, so it moves by events. */
function seqAfterKey(key: string, cursor: number, first: number, last: number) {
  switch (key) {
    case 'ArrowLeft':
    case 'ArrowDown':
      return cursor - 1;
    case 'ArrowRight':
    case 'ArrowUp':
      return cursor + 1;
    case 'PageDown':
      return cursor - Math.ceil((last - first) / 10);
    case 'PageUp':
      return cursor + Math.ceil((last - first) / 10);
    case 'Home':
      return first;
    case 'End':
      return last;
    default:
      return undefined;
  }
}

interface View {
  readonly from: number;
  readonly to: number;
  readonly now: number;
}

/** The wheel scrolls; with Ctrl, or by pinching, it zooms. */
function useWheelZoom(
  scroller: React.RefObject<HTMLDivElement | null>,
  zoomBy: (factor: number, at: number) => void,
): void {
  const latest = useRef(zoomBy);
  latest.current = zoomBy;
  useEffect(() => {
    const { current } = scroller;
    if (current === null) return undefined;
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const at = event.clientX - current.getBoundingClientRect().left;
      latest.current(Math.exp(-event.deltaY / 200), at);
    };
    current.addEventListener('wheel', onWheel, { passive: false });
    return () => current.removeEventListener('wheel', onWheel);
  }, [scroller]);
}

const tickDistance = 110;

function Ticks({
  scale,
  startAt,
  view,
}: {
  readonly scale: Scale;
  readonly startAt: number;
  readonly view: View;
}) {
  const first = Math.max(0, Math.floor(view.from / tickDistance));
  const last = Math.floor(Math.min(view.to, scale.width - 40) / tickDistance);
  const xs: number[] = [];
  for (let index = first; index <= last; index += 1) {
    const x = index * tickDistance;
    if (!scale.folds.some((piece) => x + 60 > piece.x && x < piece.x + piece.width)) xs.push(x);
  }
  let previous = '';
  return xs.map((x) => {
    const label = `+${tickLabel(scale.time(x) - startAt, scale.time(x + 1) - scale.time(x))}`;
    if (label === previous) return null;
    previous = label;
    return (
      <span
        key={x}
        aria-hidden
        className="absolute top-0 border-l border-line pl-1 text-xs leading-4 text-faint"
        style={{ left: x, height: axisHeight }}
      >
        {label}
      </span>
    );
  });
}

/** As precise as neighbours need to differ. */
function tickLabel(ms: number, perPx: number): string {
  const step = perPx * tickDistance;
  if (ms < 1_000 || step >= 1_000) return formatDuration(ms);
  const [seconds, rest] = [Math.floor(ms / 1_000) * 1_000, ms % 1_000];
  return seconds < 60_000
    ? `${(ms / 1_000).toFixed(step < 10 ? 3 : 2)} s`
    : `${formatDuration(seconds)} ${Math.round(rest)} ms`;
}

const foldWords = {
  queued: 'The run was queued',
  waiting: 'Nothing happened: the run waited',
  stopped: 'No server worked on the run',
  silent: 'Nothing happened',
} as const;

function Folds({
  scale,
  view,
  height,
}: {
  readonly scale: Scale;
  readonly view: View;
  readonly height: number;
}) {
  return scale.folds
    .filter(({ x, width }) => x + width >= view.from && x <= view.to)
    .map(({ x, width, gap }) => {
      const length = formatDuration(gap.to - gap.from);
      return (
        <div
          key={gap.from}
          role="img"
          aria-label={`${foldWords[gap.reason]} for ${length}`}
          title={`${foldWords[gap.reason]} for ${length}, from ${formatDateTime(gap.from)} to ${formatDateTime(gap.to)}`}
          className="absolute top-0 flex justify-center overflow-hidden border-x border-dashed border-line-strong bg-sunken text-xs leading-4 whitespace-nowrap text-muted"
          style={{ left: x, width, height }}
        >
          {width > 60 ? `⋯ ${length} ⋯` : '⋯'}
        </div>
      );
    });
}

const markerLooks: Readonly<Record<Marker['kind'], { icon: LucideIcon; tone: Tone }>> = {
  requested: { icon: Hand, tone: 'waiting' },
  decided: { icon: CircleCheck, tone: 'done' },
  crash: { icon: Unplug, tone: 'failed' },
  retry: { icon: RefreshCw, tone: 'failed' },
  discarded: { icon: Strikethrough, tone: 'ended' },
  compacted: { icon: Archive, tone: 'ended' },
  handoff: { icon: ArrowRightLeft, tone: 'working' },
  limit: { icon: Gauge, tone: 'failed' },
  message: { icon: Mail, tone: 'working' },
  error: { icon: CircleX, tone: 'failed' },
  ended: { icon: Flag, tone: 'ended' },
};

const markerWidth = 18;

interface Selection {
  readonly selected: number;
  readonly select: (seq: number) => void;
}

/** Marks that would cover each other are one, with their number. */
function Markers({
  markers,
  scale,
  view,
  selected,
  select,
}: Selection & {
  readonly markers: readonly Marker[];
  readonly scale: Scale;
  readonly view: View;
}) {
  const groups: { x: number; readonly marks: Marker[] }[] = [];
  for (const marker of markers) {
    const x = Math.min(scale.x(marker.at), scale.width - markerWidth);
    if (x < view.from || x > view.to) continue;
    const last = groups.at(-1);
    if (last !== undefined && x < last.x + markerWidth) last.marks.push(marker);
    else groups.push({ x, marks: [marker] });
  }
  return groups.map(({ x, marks }) => {
    // The worst of them is shown: it matters most.
    const shown = marks.find(({ kind }) => markerLooks[kind].tone === 'failed') ?? marks[0];
    if (shown === undefined) return null;
    const { icon: Icon, tone } = markerLooks[shown.kind];
    const label = marks.map((mark) => mark.label).join('\n');
    return (
      <button
        key={shown.seq}
        type="button"
        tabIndex={-1}
        aria-label={label}
        title={label}
        onPointerDown={(event) => event.stopPropagation()}
        onClick={() => select(shown.seq)}
        className={cx(
          'absolute z-10 flex items-center rounded-sm bg-surface p-0.5 text-xs',
          toneText[tone],
          marks.some(({ seq }) => seq === selected) && 'outline-2 outline-focus',
        )}
        style={{ left: Math.max(0, x - 2), top: axisHeight }}
      >
        <Icon aria-hidden size={14} />
        {marks.length > 1 ? marks.length : null}
      </button>
    );
  });
}

const barLooks: Readonly<Record<Span['kind'], string>> = {
  turn: 'bg-working-soft border-working text-working',
  tool: 'bg-ended-soft border-ended text-text',
  wait: 'bg-waiting-soft border-waiting text-waiting border-dashed',
};

function lookOfBar({ kind, state }: Span): string {
  return state === 'failed' && kind !== 'wait'
    ? 'bg-failed-soft border-failed text-failed'
    : barLooks[kind];
}

function Lanes({
  lanes,
  heights,
  pending,
  scale,
  view,
  selected,
  select,
}: Selection & {
  readonly lanes: readonly Lane[];
  readonly heights: readonly number[];
  readonly pending: readonly { readonly lane: Lane; readonly from: number }[];
  readonly scale: Scale;
  readonly view: View;
}) {
  const tops = useMemo(() => {
    let top = axisHeight + markersHeight;
    return heights.map((height) => (top += height) - height);
  }, [heights]);
  return lanes.map((lane, index) => {
    const top = tops[index] ?? 0;
    const open = pending.find((each) => each.lane === lane);
    return (
      <div key={lane.agentId} role="group" aria-label={`Lane of ${lane.name}`}>
        {lane.tracks.map((track, nth) =>
          barsOf(track, scale, view).map((bar) => (
            <TimelineBar
              key={bar.span.seq}
              bar={bar}
              scale={scale}
              view={view}
              top={top + nth * trackHeight}
              selected={selected}
              select={select}
            />
          )),
        )}
        {open === undefined ? null : (
          <div
            role="img"
            aria-label={`${lane.name} waits for the model`}
            title="Waits for the model"
            className="absolute rounded-sm border border-dashed border-working"
            style={{
              left: scale.x(open.from),
              width: Math.max(3, scale.x(view.now) - scale.x(open.from)),
              top,
              height: trackHeight - 3,
            }}
          />
        )}
      </div>
    );
  });
}

function TimelineBar({
  bar,
  scale,
  view,
  top,
  selected,
  select,
}: Selection & {
  readonly bar: Bar;
  readonly scale: Scale;
  readonly view: View;
  readonly top: number;
}) {
  const { span, count } = bar;
  const from = Math.max(bar.x, view.from);
  const width = Math.min(bar.x + bar.width, view.to) - from;
  const length = formatDuration((span.to ?? view.now) - span.from);
  const label = count > 1 ? `${count} × ${span.kind}` : `${span.label}, ${length}`;
  const isSelected = selected >= span.seq && selected <= (span.endSeq ?? Infinity) && count === 1;
  // Until the first output of a turn the bar is light.
  const quiet = span.firstAt === undefined || count > 1 ? 0 : scale.x(span.firstAt) - from;
  return (
    <button
      type="button"
      tabIndex={-1}
      aria-label={label}
      title={label}
      onPointerDown={(event) => event.stopPropagation()}
      onClick={() => select(span.seq)}
      className={cx(
        'absolute overflow-hidden rounded-sm border text-left text-xs leading-4 whitespace-nowrap',
        lookOfBar(span),
        isSelected && 'z-[5] outline-2 outline-focus',
      )}
      style={{ left: from, width, top, height: trackHeight - 3 }}
    >
      {quiet > 1 ? (
        <span
          aria-hidden
          className="absolute inset-y-0 left-0 bg-surface opacity-70"
          style={{ width: Math.min(quiet, width) }}
        />
      ) : null}
      {width > 36 ? <span className="relative px-1">{count > 1 ? label : span.label}</span> : null}
    </button>
  );
}
