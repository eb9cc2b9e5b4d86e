/** What a terminal shows: the output of its program, interpreted by a terminal emulator without a window. */
import headless, { type IBufferCell, type Terminal } from '@xterm/headless';

export interface ScreenSize {
  readonly cols: number;
  readonly rows: number;
}

/** Lines above the screen, which come back when it grows. */
const scrollback = 200;

/** Modes of the terminal that change what its keys and its mouse send, by their number (DECSET). */
const keyModes: readonly number[] = [1, 9, 66, 1000, 1002, 1003, 1004, 1006, 2004];
const bracketedPaste = 2004;
const cursorVisible = 25;

/** A repainted screen that would be longer has no colours. */
const maxPaintedChars = 256 * 1024;

export class Screen {
  readonly #terminal: Terminal;
  readonly #modes = new Set<number>([cursorVisible]);

  /** @param answer Takes what the terminal itself answers to its program, such as its cursor position. */
  constructor(size: ScreenSize, answer: (text: string) => void) {
    this.#terminal = new headless.Terminal({ ...size, scrollback, allowProposedApi: true });
    this.#terminal.onData(answer);
    const { parser } = this.#terminal;
    // `false`: the emulator interprets the sequence, too.
    parser.registerCsiHandler({ prefix: '?', final: 'h' }, (params) => {
      for (const mode of params) if (typeof mode === 'number') this.#modes.add(mode);
      return false;
    });
    parser.registerCsiHandler({ prefix: '?', final: 'l' }, (params) => {
      for (const mode of params) if (typeof mode === 'number') this.#modes.delete(mode);
      return false;
    });
    const reset = () => {
      this.#modes.clear();
      this.#modes.add(cursorVisible);
      return false;
    };
    parser.registerEscHandler({ final: 'c' }, reset);
    parser.registerCsiHandler({ intermediates: '!', final: 'p' }, reset);
  }

  get size(): ScreenSize {
    const { cols, rows } = this.#terminal;
    return { cols, rows };
  }

  /** Whether pasted text can be marked as such: then no character of it acts as a key. */
  get acceptsPaste(): boolean {
    return this.#modes.has(bracketedPaste);
  }

  /** Resolves when it is shown. */
  write(text: string): Promise<void> {
    return new Promise((resolve) => this.#terminal.write(text, resolve));
  }

  resize({ cols, rows }: ScreenSize): void {
    this.#terminal.resize(cols, rows);
  }

  /** Without colours, and without what is empty on the right and below. */
  get text(): string {
    return this.#lines()
      .map((line) => (line?.translateToString(true) ?? '').trimEnd())
      .join('\n')
      .trimEnd();
  }

  /** Output that resets any terminal of this size to what this one shows. */
  get painted(): string {
    const { active } = this.#terminal.buffer;
    const rows = this.#painted(true);
    const lines = rows.length <= maxPaintedChars ? rows : this.#painted(false);
    return [
      '\x1bc',
      active.type === 'alternate' ? '\x1b[?1049h' : '',
      lines,
      ...keyModes.filter((mode) => this.#modes.has(mode)).map((mode) => `\x1b[?${mode}h`),
      this.#modes.has(cursorVisible) ? '' : `\x1b[?${cursorVisible}l`,
      `\x1b[${active.cursorY + 1};${active.cursorX + 1}H`,
    ].join('');
  }

  #painted(hasStyles: boolean): string {
    const cell = this.#terminal.buffer.active.getNullCell();
    let painted = '';
    for (const [y, line] of this.#lines().entries()) {
      let [row, shown, style] = ['', '', ''];
      const length = line?.length ?? 0;
      for (let x = 0; x < length; x += 1) {
        if (line?.getCell(x, cell) === undefined) break;
        const next = hasStyles ? styleOf(cell) : '';
        if (next !== style) row += `\x1b[0${next}m`;
        style = next;
        // The second half of a wide character is part of the first.
        const chars = cell.getWidth() === 0 ? '' : cell.getChars() || ' ';
        row += chars;
        if (style !== '' || chars.trim() !== '') shown = row;
      }
      if (shown !== '') painted += `\x1b[${y + 1};1H${shown}\x1b[0m`;
    }
    return painted;
  }

  #lines() {
    const { active } = this.#terminal.buffer;
    return Array.from({ length: this.#terminal.rows }, (_, y) => active.getLine(active.baseY + y));
  }
}

const flags = [
  ['isBold', 1],
  ['isDim', 2],
  ['isItalic', 3],
  ['isUnderline', 4],
  ['isBlink', 5],
  ['isInverse', 7],
  ['isInvisible', 8],
  ['isStrikethrough', 9],
  ['isOverline', 53],
] as const;

/** As parameters after a reset. */
function styleOf(cell: IBufferCell): string {
  if (cell.isAttributeDefault()) return '';
  const codes: (number | string)[] = flags.flatMap(([is, code]) => (cell[is]() === 0 ? [] : code));
  if (!cell.isFgDefault()) codes.push(colourOf(cell.getFgColor(), cell.isFgRGB(), 30));
  if (!cell.isBgDefault()) codes.push(colourOf(cell.getBgColor(), cell.isBgRGB(), 40));
  return codes.map((code) => `;${code}`).join('');
}

function colourOf(colour: number, isRgb: boolean, base: 30 | 40): string {
  if (isRgb) {
    return [base + 8, 2, (colour >> 16) & 0xff, (colour >> 8) & 0xff, colour & 0xff].join(';');
  }
  if (colour < 8) return String(base + colour);
  return colour < 16 ? String(base + 60 + colour - 8) : `${base + 8};5;${colour}`;
}
