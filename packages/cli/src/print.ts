/**
 * What a command says: tables and sentences for people, or with `--json` one JSON value a line.
 * Results go to standard output, everything about them to standard error.
 */
import { type Paint, paintFor, paintStatus } from './paint.ts';
import { cutTo, visible, visibleLine, widthOf } from './visible.ts';
import type { Output, World } from './world.ts';

export interface Column<Item> {
  readonly title: string;
  readonly of: (item: Item) => string | number | undefined;
  /** A word that has a colour. */
  readonly status?: boolean;
}

export type Fields = Readonly<Record<string, string | number | undefined>>;

export class Print {
  readonly json: boolean;
  readonly paint: Paint;
  readonly #out: Output;
  readonly #err: Output;

  constructor(world: World, json: boolean) {
    this.json = json;
    this.#out = world.stdout;
    this.#err = world.stderr;
    this.paint = paintFor(world, world.stdout);
  }

  /** A value for programs. */
  value(value: unknown): void {
    this.#out.write(`${JSON.stringify(value)}\n`);
  }

  /** A sentence for people, about what was done. */
  say(text: string): void {
    if (!this.json) this.#out.write(`${visible(text)}\n`);
  }

  /** Text as it comes, already visible. */
  raw(text: string): void {
    this.#out.write(text);
  }

  /** Beside the result: what one should know. */
  note(text: string): void {
    this.#err.write(`${visible(text)}\n`);
  }

  list<Item>(items: readonly Item[], columns: readonly Column<Item>[], nothing: string): void {
    if (this.json) for (const item of items) this.value(item);
    else if (items.length === 0) this.note(nothing);
    else for (const line of this.#table(items, columns)) this.#out.write(`${line}\n`);
  }

  one(item: unknown, fields: Fields): void {
    if (this.json) {
      this.value(item);
      return;
    }
    const known = Object.entries(fields).filter(([, value]) => value !== undefined && value !== '');
    const width = Math.max(...known.map(([name]) => name.length));
    for (const [name, value] of known) {
      const [first = '', ...rest] = visible(String(value)).split('\n');
      const shown = name === 'status' ? paintStatus(this.paint, first) : first;
      this.#out.write(`${this.paint('dim', name.padEnd(width))}  ${shown}\n`);
      for (const line of rest) this.#out.write(`${' '.repeat(width)}  ${line}\n`);
    }
  }

  *#table<Item>(items: readonly Item[], columns: readonly Column<Item>[]): Generator<string> {
    const cells = items.map((item) => columns.map(({ of }) => visibleLine(String(of(item) ?? ''))));
    const widths = columns.map(({ title }, at) =>
      Math.max(widthOf(title), ...cells.map((row) => widthOf(row[at] ?? ''))),
    );
    yield this.paint(
      'dim',
      this.#row(
        columns.map(({ title }) => title.toUpperCase()),
        widths,
      ),
    );
    for (const row of cells) {
      yield this.#row(row, widths, (cell, at) =>
        columns[at]?.status === true ? paintStatus(this.paint, cell) : cell,
      );
    }
  }

  /** The last column takes what is left of the terminal; in a pipe nothing is cut. */
  #row(
    cells: readonly string[],
    widths: readonly number[],
    painted: (cell: string, at: number) => string = (cell) => cell,
  ): string {
    const room = this.#out.isTTY === true ? (this.#out.columns ?? 80) : Infinity;
    const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0);
    return cells
      .map((cell, at) => {
        if (at === cells.length - 1) return painted(cutTo(cell, Math.max(12, room - before)), at);
        return painted(cell, at) + ' '.repeat((widths[at] ?? 0) - widthOf(cell));
      })
      .join('  ')
      .trimEnd();
  }
}

/** Without fractions of a second, and in the same zone everywhere. */
export function when(time: string | undefined): string | undefined {
  return time?.replace('T', ' ').replace(/\.\d+Z$/, 'Z');
}
