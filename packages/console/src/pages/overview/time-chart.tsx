/** A chart over time. It is loaded when the overview needs it. */
import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import { useTheme } from '../../preferences.ts';
import { cx } from '../../ui/cx.ts';

/** A variable of the theme. Colours mean a state; other lines are neutral, and differ by their dashes. */
export type Ink = 'text' | 'faint' | 'done' | 'failed' | 'waiting' | 'ended';

export interface Line {
  readonly label: string;
  readonly ink: Ink;
  readonly isDashed?: boolean;
  /** One per time; null where nothing was measured. */
  readonly values: readonly (number | null)[];
}

export interface TimeChartProps {
  /** In milliseconds. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
  /** `bars`: stacked, the first line at the bottom. */
  readonly shape: 'bars' | 'lines';
  readonly format: (value: number) => string;
  /** The distances between two values of the axis that may be used. */
  readonly increments: number[];
  readonly formatTime: (ms: number) => string;
}

const height = 176;

const swatches: Readonly<Record<Ink, string>> = {
  text: 'border-text',
  faint: 'border-faint',
  done: 'border-done',
  failed: 'border-failed',
  waiting: 'border-waiting',
  ended: 'border-ended',
};

export function TimeChart(props: TimeChartProps) {
  const { times, lines, shape, format, increments, formatTime } = props;
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(null);
  const [at, setAt] = useState<number>();
  const theme = useTheme();
  const kind = lines.map(({ label, ink }) => `${label} ${ink}`).join();
  const data = dataOf(props);
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const drawn = new uPlot(
      optionsOf({ lines, shape, format, increments, width: element.clientWidth, onPoint: setAt }),
      latest.current,
      element,
    );
    chart.current = drawn;
    const resize = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      drawn.destroy();
      chart.current = null;
    };
    // Drawn anew for another look; new data are set below.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [theme, kind, shape]);

  useEffect(() => chart.current?.setData(latest.current), [times, lines]);

  const pointed = at === undefined ? undefined : times[at];
  return (
    <div>
      <div aria-hidden ref={place} style={{ height }} className="overflow-hidden" />
      <div aria-hidden className="mt-1 flex min-h-5 flex-wrap gap-x-4 gap-y-0.5 text-xs text-muted">
        {lines.map(({ label, ink, isDashed, values }) => {
          const value = at === undefined ? undefined : values[at];
          return (
            <span key={label} className="inline-flex items-center gap-1.5 whitespace-nowrap">
              <span
                className={cx(
                  'w-3',
                  shape === 'bars' ? 'border-[5px]' : 'border-t-2',
                  isDashed === true && 'border-dashed',
                  swatches[ink],
                )}
              />
              {label}
              {pointed === undefined ? null : (
                <strong className="font-semibold text-text">
                  {value === undefined || value === null ? '–' : format(value)}
                </strong>
              )}
            </span>
          );
        })}
        <span className="ml-auto whitespace-nowrap">
          {pointed === undefined ? '' : formatTime(pointed)}
        </span>
      </div>
    </div>
  );
}

/** In seconds; the values of bars are sums, the whole first, so that the lower ones are drawn over it. */
function dataOf({ times, lines, shape }: TimeChartProps): uPlot.AlignedData {
  const seconds = times.map((ms) => ms / 1_000);
  if (shape === 'lines') return [seconds, ...lines.map(({ values }) => [...values])];
  const sums = lines.map((_, index) =>
    times.map((__, at) =>
      lines.slice(0, index + 1).reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
    ),
  );
  return [seconds, ...sums.toReversed()];
}

interface Look extends Pick<TimeChartProps, 'lines' | 'shape' | 'format' | 'increments'> {
  readonly width: number;
  readonly onPoint: (index: number | undefined) => void;
}

function optionsOf({ lines, shape, format, increments, width, onPoint }: Look): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const axis = {
    stroke: colour('muted'),
    font: `12px ${getComputedStyle(document.body).fontFamily}`,
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
  };
  const bars = uPlot.paths.bars?.({ size: [0.7, 40, 1] });
  const series = lines.map(({ label, ink, isDashed }): uPlot.Series => {
    const stroke = colour(ink);
    if (shape === 'lines') {
      const dash = isDashed === true ? { dash: [5, 4] } : {};
      const points = { show: true, size: 4, fill: stroke, filter: pointsOf };
      return { label, stroke, width: 1.5, points, ...dash };
    }
    return {
      label,
      fill: stroke,
      stroke,
      width: 0,
      points: { show: false },
      ...(bars === undefined ? {} : { paths: bars }),
    };
  });
  return {
    width,
    height,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { show: false } },
    hooks: { setCursor: [({ cursor: { idx } }) => onPoint(idx ?? undefined)] },
    scales: {
      x: { range: ({ data: [times] }, min, max) => [min - halfOf(times), max + halfOf(times)] },
      y: { range: (_, __, max) => [0, Math.max(max * 1.1, increments[0] ?? 1)] },
    },
    axes: [
      { ...axis, grid: { show: false }, space: 64, size: 28, values: timeLabels },
      {
        ...axis,
        size: 64,
        space: 32,
        incrs: increments,
        values: (_, values) => values.map((value) => (value === 0 ? '0' : format(value))),
      },
    ],
    series: [{}, ...(shape === 'bars' ? series.toReversed() : series)],
  };
}

const mostPoints = 62;

/** All points of a short line; of a long one those that no line leads to. */
function pointsOf({ data }: uPlot, index: number): number[] {
  const values = data[index] ?? [];
  const isMissing = (at: number) => values[at] === null || values[at] === undefined;
  const isShown = (at: number) =>
    values.length <= mostPoints || (isMissing(at - 1) && isMissing(at + 1));
  return Array.from(values, (_, at) => at).filter((at) => !isMissing(at) && isShown(at));
}

/** Half the distance between two times, so that the first and the last bar are whole. */
function halfOf([first = 0, second = first + 60]: ArrayLike<number> & Iterable<number>): number {
  return (second - first) / 2;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const date = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });

/** The clock, and the date at midnight. */
function timeLabels(_: uPlot, seconds: number[]): string[] {
  return seconds.map((second) => {
    const time = new Date(second * 1_000);
    const isMidnight = time.getHours() === 0 && time.getMinutes() === 0;
    return (isMidnight ? date : clock).format(time);
  });
}
