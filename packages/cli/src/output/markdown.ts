/**
 * Renders Markdown on a terminal while it arrives. Nothing that is on the screen changes later, so that
 * there is no flicker: text is held back only until its look is certain. That is the end of a word, of a
 * marked span (`**bold**`), or of a table. A mark that is never closed is shown as it is.
 *
 * Lines stay lines; words are wrapped below the start of their text.
 */
import { escapeLine, escapeUnsafe, widthOf } from './escape.ts';
import type { Paint, Style } from './paint.ts';

export interface MarkdownOptions {
  readonly paint: Paint;
  readonly write: (text: string) => void;
  /** The columns of the terminal at present. */
  readonly columns: () => number;
}

type Styles = readonly Style[];

/** Longer lines are hard to read. */
const maxWidth = 100;
/** A longer span is not waited for, and its marks are text. So the cost grows with the text and no faster. */
const maxSpanLength = 1_000;
/** In columns. Text that is further to the right has no room. */
const maxIndent = 40;

export class MarkdownWriter {
  readonly #options: MarkdownOptions;
  /** Of the current line: what is not written yet. */
  #held = '';
  /** Line breaks that are written before the next text, so that none is left at the end. */
  #breaks = 0;
  #column = 0;
  /** The current line has begun: its kind is known. */
  #isOpen = false;
  #indent = '';
  /** Spaces before the next word. */
  #gap = '';
  #styles: Styles = [];
  /** The marker that closes the code block. */
  #fence: string | undefined;
  #table: string[] = [];

  constructor(options: MarkdownOptions) {
    this.#options = options;
  }

  /** Whether the cursor is at the start of a line. */
  get isAtLineStart(): boolean {
    return this.#column === 0;
  }

  push(text: string): void {
    const lines = text.split('\n');
    for (const [at, part] of lines.entries()) {
      this.#held += part;
      if (at < lines.length - 1) this.#endLine();
      else this.#advance();
    }
  }

  /** Writes the last word although it could go on, because no more text comes for a while. */
  settle(): void {
    if (!this.#isOpen || this.#held === '' || spanMarks.test(this.#held)) return;
    this.#words(this.#held, []);
    this.#held = '';
  }

  /** Writes what is held back. The next text begins a new document. */
  end(): void {
    if (this.#held !== '' || this.#isOpen) this.#endLine();
    this.#flushTable();
    if (this.#column > 0) this.#options.write('\n');
    this.#breaks = 0;
    this.#column = 0;
    this.#fence = undefined;
  }

  get #width(): number {
    return Math.min(this.#options.columns(), maxWidth);
  }

  /** Writes as much of an unfinished line as is certain. */
  #advance(): void {
    if (!this.#isOpen && !this.#open(false)) return;
    this.#writeSpans(false);
  }

  #endLine(): void {
    if (this.#fence !== undefined) this.#endCodeLine(this.#fence);
    else if (this.#isOpen || this.#open(true)) {
      this.#writeSpans(true);
      this.#break();
    }
    this.#held = '';
    this.#isOpen = false;
    this.#styles = [];
    this.#indent = '';
    this.#gap = '';
  }

  #endCodeLine(fence: string): void {
    const isEnd = this.#held.trim().startsWith(fence) && /^\s*[`~]+\s*$/.test(this.#held);
    if (isEnd) this.#fence = undefined;
    else {
      this.#put(`  ${this.#options.paint('cyan', escapeUnsafe(this.#held.trimEnd()))}`, 1);
      this.#break();
    }
  }

  /**
   * Recognises what kind of line this is, and writes its beginning. False if that is not certain yet, or
   * if the line is complete: a rule, a fence, or a part of a table.
   */
  #open(isWhole: boolean): boolean {
    if (this.#fence !== undefined) return false;
    const line = this.#held;
    const [, space = '', rest = ''] = /^(\s*)(.*)$/s.exec(line) ?? [];
    if (rest.startsWith('|')) {
      if (isWhole) this.#table.push(line);
      return false;
    }
    // One that could still become a marker.
    if (!isWhole && /^(#{0,6}|[-*+_]{0,3}|>|\d{1,9}[.)]?|[`~]+.*|[-*+] \[?[ xX]?\]?)$/.test(rest)) {
      return false;
    }
    this.#flushTable();
    if (rest === '') {
      this.#break();
      return false;
    }
    const fence = /^(`{3,}|~{3,})[^`]*$/.exec(rest)?.[1];
    if (fence !== undefined && isWhole) {
      this.#fence = fence;
      return false;
    }
    const { paint } = this.#options;
    if (/^([-*_])(\s*\1){2,}\s*$/.test(rest)) {
      if (isWhole) {
        this.#put(paint('dim', '─'.repeat(Math.min(this.#width, 40))), 1);
        this.#break();
      }
      return false;
    }
    this.#isOpen = true;
    // Only spaces: other white space moves the cursor.
    this.#indent = ' '.repeat(Math.min(space.replaceAll('\t', '    ').length, maxIndent));
    const heading = /^(#{1,6})\s+/.exec(rest);
    const quote = /^(?:>\s?)+/.exec(rest);
    const item = /^([-*+]|\d{1,9}[.)])\s+(\[[ xX]\]\s+)?/.exec(rest);
    const [marker = ''] = heading ?? quote ?? item ?? [];
    this.#held = rest.slice(marker.length);
    if (heading !== null) this.#styles = heading[1] === '#' ? ['bold', 'underline'] : ['bold'];
    if (quote !== null) {
      const depth = quote[0].replaceAll(/[^>]/g, '').length;
      this.#indent += '│ '.repeat(Math.min(depth, maxIndent / 2));
    }
    const start = item === null ? '' : bulletOf(item[1] ?? '', item[2]);
    const isQuote = quote !== null;
    const shown = isQuote ? paint('dim', this.#indent) : `${this.#indent}${start}`;
    this.#put(shown, widthOf(this.#indent) + widthOf(start));
    if (!isQuote) this.#indent += ' '.repeat(widthOf(start));
    return true;
  }

  #writeSpans(isWhole: boolean): void {
    for (;;) {
      const span = nextSpan(this.#held, isWhole);
      if (span === undefined) return;
      this.#held = this.#held.slice(span.length);
      for (const { text, styles } of span.pieces) this.#words(text, styles);
    }
  }

  /** Wraps at words. A space is written with the word after it. */
  #words(text: string, styles: Styles): void {
    const { paint, write } = this.#options;
    for (const [, space = '', word = ''] of text.matchAll(/(\s*)(\S*)/g)) {
      this.#gap += ' '.repeat(space.length);
      if (word === '') continue;
      const shown = escapeLine(word);
      const columns = widthOf(shown);
      const painted = [...this.#styles, ...styles].reduce((sum, style) => paint(style, sum), shown);
      const isFirst = this.#column <= widthOf(this.#indent);
      if (!isFirst && this.#column + this.#gap.length + columns > this.#width) {
        write(`\n${this.#indent}`);
        this.#column = widthOf(this.#indent);
        this.#gap = '';
      }
      this.#put(this.#gap + painted, this.#gap.length + columns);
      this.#gap = '';
    }
  }

  #put(text: string, columns: number): void {
    if (text === '') return;
    this.#options.write('\n'.repeat(this.#breaks) + text);
    if (this.#breaks > 0) this.#column = 0;
    this.#breaks = 0;
    this.#column += columns;
  }

  /** Several empty lines become one, and those at the start none. */
  #break(): void {
    if (this.#column > 0) this.#breaks = Math.min(this.#breaks + 1, 2);
  }

  #flushTable(): void {
    const rows = this.#table;
    if (rows.length === 0) return;
    this.#table = [];
    const { paint } = this.#options;
    for (const line of tableLines(rows, { width: this.#width, paint })) {
      this.#put(line === '' ? ' ' : line, 1);
      this.#break();
    }
  }
}

function bulletOf(marker: string, box: string | undefined): string {
  if (box !== undefined) return /x/i.test(box) ? '☑ ' : '☐ ';
  return /\d/.test(marker) ? `${marker} ` : '• ';
}

interface Piece {
  readonly text: string;
  readonly styles: Styles;
}

interface Span {
  /** How much of the source it takes. */
  readonly length: number;
  readonly pieces: readonly Piece[];
}

const spanMarks = /[`*_~[!<\\]/;

/** The first span of the text; undefined if more of it is needed. */
function nextSpan(text: string, isWhole: boolean): Span | undefined {
  if (text === '') return undefined;
  const start = text.search(spanMarks);
  const plain = (length: number): Span => ({
    length,
    pieces: [{ text: text.slice(0, length), styles: [] }],
  });
  if (start !== 0) {
    const end = start === -1 ? text.length : start;
    if (isWhole || start !== -1) return plain(end);
    // The last word can grow, and a surrogate pair can be cut.
    const words = lastBreak(text);
    if (words > 0) return plain(words);
    const isCut = /[\ud800-\udbff]/.test(text.charAt(maxSpanLength - 1));
    return text.length > maxSpanLength ? plain(maxSpanLength - Number(isCut)) : undefined;
  }
  const marked = markedSpan(text.slice(0, maxSpanLength));
  if (marked !== undefined && (isWhole || !canGrow(text, marked))) return marked;
  if (isWhole || text.length > maxSpanLength) return plain(markLength(text));
  return opensSpan(text) ? undefined : plain(markLength(text));
}

/** The length of the part that ends with a whole word. Wide characters are words of their own. */
function lastBreak(text: string): number {
  const space = afterLast(text, /\s/);
  const wide = afterLast(text, /[\u1100-\uffdc]/);
  return Math.max(space, /[\ud800-\udfff]/.test(text.slice(space, wide)) ? 0 : wide);
}

function afterLast(text: string, pattern: RegExp): number {
  let end = text.length;
  while (end > 0 && !pattern.test(text.charAt(end - 1))) end -= 1;
  return end;
}

/** `*a*` could become the start of `*a**`; only the end of a run of marks shows what it closes. */
function canGrow(text: string, { length }: Span): boolean {
  const last = text[length - 1] ?? '';
  return length === text.length && /[*_`~]/.test(last);
}

function markLength(text: string): number {
  return /^(`+|\*+|_+|~+|.)/su.exec(text)?.[0].length ?? 1;
}

/** Whether the mark at the start can be closed by text that has not arrived. */
function opensSpan(text: string): boolean {
  return /^(`|\*{1,3}(?![\s*])|\*{1,3}$|_{1,3}(?![\s_])|_{1,3}$|~~?(?!\s)|!?\[[^\]]*($|\]$|\]\([^)\s]*$)|!$|<$|<https?:|<h[tps]*$|\\$)/.test(
    text,
  );
}

/** A complete span at the start of the text. */
function markedSpan(text: string): Span | undefined {
  const [first] = text;
  if (first === '\\') {
    const [whole, char = ''] = /^\\([\\`*_{}[\]()#+\-.!|~<>])/.exec(text) ?? [];
    return whole === undefined ? undefined : { length: 2, pieces: [{ text: char, styles: [] }] };
  }
  if (first === '`') {
    const [whole, , code = ''] = /^(`+)(?!`)(.*?[^`])\1(?!`)/s.exec(text) ?? [];
    if (whole === undefined) return undefined;
    return { length: whole.length, pieces: [{ text: code.trim(), styles: ['cyan'] }] };
  }
  if (first === '<') {
    const [whole, url = ''] = /^<(https?:[^\s<>]*)>/.exec(text) ?? [];
    if (whole === undefined) return undefined;
    return { length: whole.length, pieces: [{ text: url, styles: ['underline'] }] };
  }
  if (first === '[' || first === '!') {
    const [whole, label = '', url = ''] =
      /^!?\[([^\]]*)\]\(([^)\s]*)(?:\s[^)]*)?\)/.exec(text) ?? [];
    if (whole === undefined) return undefined;
    return { length: whole.length, pieces: linkPieces(label, url) };
  }
  for (const [pattern, styles] of emphases) {
    const [whole, , content = ''] = pattern.exec(text) ?? [];
    if (whole !== undefined) return { length: whole.length, pieces: nested(content, styles) };
  }
  return undefined;
}

const emphases: readonly (readonly [RegExp, Styles])[] = [
  [/^(\*\*\*)(?=\S)(.*?\S)\*\*\*(?!\*)/s, ['bold', 'italic']],
  [/^(\*\*)(?=[^\s*])(.*?\S)\*\*(?!\*)/s, ['bold']],
  [/^(\*)(?=[^\s*])((?:[^*]|\*\*[^*]*\*\*)*?[^\s*])\*(?!\*)/s, ['italic']],
  [/^(__)(?=[^\s_])(.*?\S)__(?!\w)/s, ['bold']],
  [/^(_)(?=[^\s_])(.*?[^\s_])_(?!\w)/s, ['italic']],
  [/^(~~)(?=\S)(.*?\S)~~/s, ['strikethrough']],
];

function nested(content: string, styles: Styles): Piece[] {
  return piecesOf(content).map((piece) => ({ ...piece, styles: [...piece.styles, ...styles] }));
}

/** The address is always visible: the text of a link can say anything. */
function linkPieces(label: string, url: string): Piece[] {
  if (label === '' || label === url) return [{ text: url, styles: ['underline'] }];
  return [...nested(label, ['underline']), { text: ` (${url})`, styles: ['dim'] }];
}

/** All spans of a text. */
function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  for (let rest = text; rest !== '';) {
    const span = nextSpan(rest, true);
    if (span === undefined) break;
    pieces.push(...span.pieces);
    rest = rest.slice(span.length);
  }
  return pieces;
}

interface TableOptions {
  readonly width: number;
  readonly paint: Paint;
}

/** Aligned columns under a bold header; as it is if it is not a table. */
function tableLines(rows: readonly string[], { width, paint }: TableOptions): string[] {
  const isTable = /^[\s:|-]+$/.test(rows[1] ?? '') && (rows[1] ?? '').includes('-');
  if (!isTable) return rows.map((row) => escapeLine(row));
  const cells = rows.filter((_, at) => at !== 1).map((row) => cellsOf(row).map(piecesOf));
  const count = Math.max(...cells.map((row) => row.length));
  const textOf = (pieces: readonly Piece[] = []) =>
    pieces.map(({ text }) => escapeLine(text)).join('');
  const widths = Array.from({ length: count }, (_, at) =>
    Math.max(1, ...cells.map((row) => widthOf(textOf(row[at])))),
  );
  const total = widths.reduce((sum, each) => sum + each + 2, -2);
  const shownCell = (pieces: readonly Piece[] = [], styles: Styles = []) =>
    pieces
      .map(({ text, styles: own }) =>
        [...own, ...styles].reduce((shown, style) => paint(style, shown), escapeLine(text)),
      )
      .join('');
  const [header = [], ...body] = cells;
  // Too wide for columns: one cell per line, with its title.
  if (total > width) {
    return body.flatMap((row, at) => [
      ...(at === 0 ? [] : ['']),
      ...row.map((cell, column) => `${shownCell(header[column], ['bold'])}: ${shownCell(cell)}`),
    ]);
  }
  const line = (row: readonly Piece[][], styles: Styles) =>
    widths
      .map((columns, at) => {
        const cell = shownCell(row[at], styles);
        return at === count - 1 ? cell : cell + ' '.repeat(columns - widthOf(textOf(row[at])));
      })
      .join('  ')
      .trimEnd();
  return [
    line(header, ['bold']),
    paint('dim', widths.map((columns) => '─'.repeat(columns)).join('  ')),
    ...body.map((row) => line(row, [])),
  ];
}

function cellsOf(row: string): string[] {
  const inner = row
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '');
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
}
