/**
 * What a command says: tables and sentences for people, or with `--json` one JSON value a line.
 * Results go to standard output, everything about them to standard error.
 */
import { type Paint, paintFor, paintStatus } from './paint.ts';
import { type Column, tableOf } from './table.ts';
import { visible } from './visible.ts';
import type { Output, World } from './world.ts';

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
    else {
      const width = this.#out.isTTY === true ? (this.#out.columns ?? 80) : undefined;
      const lines = tableOf(items, columns, { paint: this.paint, width });
      this.#out.write(`${lines.join('\n')}\n`);
    }
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
}
