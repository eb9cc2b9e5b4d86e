/**
 * The output of a command: tables and sentences, or with `--json` one JSON value per line. Results
 * go to standard output, notes about them to standard error.
 */
import { type CliEnvironment, type Output, terminalWidth } from '../environment.ts';
import { isStyled, type Paint, paintFor, paintStatus } from './paint.ts';
import { type Column, tableOf } from './table.ts';
import { escapeUnsafe, safeJson, wrapTo } from './escape.ts';
import type { Taken } from '../command.ts';

export type Fields = Readonly<Record<string, string | number | undefined>>;

/** `20 of 133; more: --limit 40` */
function moreText({ items, total, totalIsMinimum }: Taken<unknown>): string {
  const shown = items.length;
  const of =
    total === undefined
      ? `The first ${shown}`
      : `${shown} of ${totalIsMinimum === true ? 'more than ' : ''}${total.toLocaleString('en')}`;
  return `${of}; more: --limit ${shown * 2}`;
}

export class Print {
  readonly json: boolean;
  readonly paint: Paint;
  /** Whether results go to a terminal that shows styles. */
  readonly isStyled: boolean;
  readonly #out: Output;
  readonly #err: Output;

  constructor(environment: CliEnvironment, json: boolean) {
    this.json = json;
    this.#out = environment.stdout;
    this.#err = environment.stderr;
    this.paint = paintFor(environment, environment.stdout);
    this.isStyled = isStyled(environment, environment.stdout);
  }

  /** The width of the terminal. */
  get columns(): number {
    return terminalWidth(this.#out);
  }

  /** Undefined if the output is not a terminal. */
  get terminalColumns(): number | undefined {
    return this.#out.isTTY === true ? this.columns : undefined;
  }

  /** Sentences for `result`: a terminal shows them broken between words. */
  wrapped(text: string): string {
    return wrapTo(text, this.terminalColumns ?? Infinity).join('\n');
  }

  /** The JSON value, whether or not `--json` is set. */
  value(value: unknown): void {
    this.#out.write(`${safeJson(value)}\n`);
  }

  /** The outcome of an action: `value` with `--json`, otherwise `text`. */
  result(value: unknown, text: string): void {
    if (this.json) this.value(value);
    else this.line(text);
  }

  /** A newly created secret, with a note that says what it is. */
  secret(value: unknown, note: string, secret: string): void {
    if (!this.json) this.note(note);
    this.result(value, secret);
  }

  /** A line of text; nothing with `--json`. */
  line(text: string): void {
    if (!this.json) this.#out.write(`${escapeUnsafe(text)}\n`);
  }

  /** Text that is already safe to show. */
  raw(text: string): void {
    this.#out.write(text);
  }

  /** A note on standard error. */
  note(text: string): void {
    this.#err.write(`${escapeUnsafe(text)}\n`);
  }

  /** On a terminal a note says if there are more items than these. */
  list<Item>(
    listed: readonly Item[] | Taken<Item>,
    columns: readonly Column<Item>[],
    emptyNote?: string,
  ): void {
    const taken = 'items' in listed ? listed : { items: listed, hasMore: false };
    const { items } = taken;
    if (this.json) for (const item of items) this.value(item);
    else if (items.length === 0) {
      if (emptyNote !== undefined) this.note(emptyNote);
    } else {
      const width = this.terminalColumns;
      const lines = tableOf(items, columns, { paint: this.paint, width });
      this.#out.write(`${lines.join('\n')}\n`);
      if (taken.hasMore && width !== undefined) this.note(moreText(taken));
    }
  }

  /** One item, field by field; empty fields are left out. */
  record(item: unknown, fields: Fields): void {
    if (this.json) {
      this.value(item);
      return;
    }
    const known = Object.entries(fields).filter(([, value]) => value !== undefined && value !== '');
    const width = Math.max(...known.map(([name]) => name.length));
    for (const [name, value] of known) {
      const room = (this.terminalColumns ?? Infinity) - width - 2;
      const [first = '', ...rest] = wrapTo(escapeUnsafe(String(value)), room);
      const shown = name === 'status' ? paintStatus(this.paint, first) : first;
      this.#out.write(`${this.paint('dim', name.padEnd(width))}  ${shown}\n`);
      for (const line of rest) this.#out.write(`${' '.repeat(width)}  ${line}\n`);
    }
  }
}
