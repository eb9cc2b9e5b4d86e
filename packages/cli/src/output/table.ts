/**
 * A text table. In a pipe it has all columns and full times, and nothing is cut. On a terminal it
 * fits the width: ids are shortened, times become ages, empty columns are dropped, then minor ones, and the last column
 * is cut to the remaining width. If even that is too narrow, items are stacked.
 */
import { type Paint, paintStatus } from './paint.ts';
import { cutTo, escapeLine, widthOf } from './escape.ts';
import { shortId } from './short-id.ts';

export interface Column<Item> {
  readonly title: string;
  readonly value: (item: Item) => string | number | undefined;
  /** Coloured by its value. */
  readonly status?: boolean;
  /** An id, of which a terminal shows the end: commands take that too. */
  readonly id?: boolean;
  /** A time in ISO 8601. */
  readonly time?: boolean;
  /** Dropped first on a narrow terminal. */
  readonly minor?: boolean;
}

export interface TableOptions {
  readonly paint: Paint;
  /** The width of the terminal; undefined if the output is not one. */
  readonly width: number | undefined;
  readonly now?: number;
}

interface Rendered {
  readonly title: string;
  readonly cells: readonly string[];
  readonly width: number;
  readonly status: boolean;
  readonly minor: boolean;
}

/** A narrower last column would not be readable. */
const minLastWidth = 16;
const gap = 2;

export function tableOf<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
  options: TableOptions,
): string[] {
  const { paint, width = Infinity } = options;
  const all = columns.map((column) => rendered(items, column, options));
  const shown = options.width === undefined ? all : visibleColumns(all, width);
  if (offsetOfLast(shown) + lastWidth(shown.at(-1)) > width) return stacked(shown, paint, width);
  const line = (cells: readonly string[], painted: (cell: string, at: number) => string) =>
    cells
      .map((cell, at) => {
        if (at === cells.length - 1) return painted(cutTo(cell, width - offsetOfLast(shown)), at);
        return painted(cell, at) + ' '.repeat((shown[at]?.width ?? 0) - widthOf(cell));
      })
      .join(' '.repeat(gap))
      .trimEnd();
  const titles = shown.map(({ title }) => title.toUpperCase());
  return [
    paint(
      'dim',
      line(titles, (cell) => cell),
    ),
    ...items.map((_, row) =>
      line(
        shown.map(({ cells }) => cells[row] ?? ''),
        (cell, at) => (shown[at]?.status === true ? paintStatus(paint, cell) : cell),
      ),
    ),
  ];
}

function rendered<Item>(
  items: readonly Item[],
  { title, value, status = false, id = false, time = false, minor = false }: Column<Item>,
  { width, now = Date.now() }: TableOptions,
): Rendered {
  const cells = items.map((item) => {
    const text = String(value(item) ?? '');
    if (id && width !== undefined) return shortId(text);
    if (!time || text === '') return escapeLine(text);
    return width === undefined ? (formatTime(text) ?? '') : age(text, now);
  });
  const widest = Math.max(widthOf(title), ...cells.map(widthOf));
  return { title, cells, width: widest, status, minor };
}

function visibleColumns(all: readonly Rendered[], width: number): readonly Rendered[] {
  const isEmpty = ({ cells }: Rendered) => cells.every((cell) => cell === '');
  const shown = all.filter((column, at) => at === 0 || !isEmpty(column));
  while (offsetOfLast(shown) + lastWidth(shown.at(-1)) > width) {
    const dropped = shown.findLastIndex(({ minor }) => minor);
    if (dropped === -1) break;
    shown.splice(dropped, 1);
  }
  return shown;
}

function offsetOfLast(columns: readonly Rendered[]): number {
  return columns.slice(0, -1).reduce((sum, { width }) => sum + width + gap, 0);
}

function lastWidth(last: Rendered | undefined): number {
  return Math.min(last?.width ?? 0, minLastWidth);
}

/** One item over three lines: its first cell, the others, and the last cell. */
function stacked(columns: readonly Rendered[], paint: Paint, width: number): string[] {
  const [first, ...rest] = columns;
  const last = rest.pop();
  return (first?.cells ?? []).flatMap((head, row) => {
    const between = rest
      .map(({ cells, status }) => ({ cell: cells[row] ?? '', status }))
      .filter(({ cell }) => cell !== '')
      .map(({ cell, status }) => (status ? paintStatus(paint, cell) : cell))
      .join(' '.repeat(gap));
    const end = cutTo(last?.cells[row] ?? '', width - gap);
    return [head, ...[between, end].filter((line) => line !== '').map((line) => `  ${line}`)];
  });
}

/** Without the rounding errors of a sum. */
export function formatCost(dollars: number | undefined): string | undefined {
  return dollars === undefined ? undefined : `$${Number(dollars.toPrecision(10))}`;
}

/** A UTC time without fractions of a second. */
export function formatTime(time: string | undefined): string | undefined {
  return time?.replace('T', ' ').replace(/\.\d+Z$/, 'Z');
}

const units = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
  ['s', 1],
] as const;

/** `4m ago`, `in 30d`. */
export function age(time: string, now: number): string {
  const seconds = Math.round((Date.parse(time) - now) / 1_000);
  // 23h 59m are 1d, not 24h.
  const isReached = ([, length]: (typeof units)[number], at: number) => {
    const smaller = units[at + 1]?.[1] ?? 1;
    return Math.round(Math.abs(seconds) / smaller) * smaller >= length;
  };
  const [unit, length] = units.find(isReached) ?? ['s', 1];
  const count = Math.round(Math.abs(seconds) / length);
  if (count === 0) return 'now';
  return seconds > 0 ? `in ${count}${unit}` : `${count}${unit} ago`;
}
