/**
 * Reads messages and answers from a terminal or a pipe. One reader holds the terminal in raw mode for
 * the whole chat: text typed while an answer streams is not echoed and not lost.
 *
 * States: idle (an answer streams), prompting (the next line answers the prompt), suspended (another
 * program has the terminal) and ended (no more lines). A line typed while idle is kept for the next
 * message. It never answers an approval prompt that was not on the screen when it was typed: a `fresh`
 * prompt discards unfinished input and kept lines, which may have been meant as an answer. If the
 * `fresh` prompt before it was closed, what is typed now may still be meant for that one, so that the
 * next one first discards input for a moment. In a pipe there is no echo, and lines are used in order.
 *
 * On a terminal a message can have several lines: those of a pasted text, and those that end with a
 * backslash or with Alt-Enter. All but the last are in `#earlier` until the message is complete.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { createInterface, type Interface, type Key } from 'node:readline';
import { Writable } from 'node:stream';
import type { CliEnvironment, Output } from '../environment.ts';
import { escapeUnsafe } from '../output/escape.ts';

/** Ctrl-C at an empty prompt. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

/** The candidates for the end of a line, and the part of the line that they replace. */
export type Completion = [candidates: string[], replaced: string];

export interface PromptOptions {
  readonly prompt: string;
  /** Editable text to start with. */
  readonly prefill?: string;
  /** Only text typed after the prompt appears counts, and all of it is one line. */
  readonly fresh?: boolean;
  /** Ctrl-C ends the prompt even if something was typed. */
  readonly cancelable?: boolean;
  /** Aborting it closes the prompt. */
  readonly signal?: AbortSignal;
  /** For the Tab key. */
  readonly complete?: (line: string) => Completion;
}

interface ActivePrompt {
  readonly options: PromptOptions;
  answer(line: Line | undefined): void;
  interrupt(): void;
}

interface Line {
  readonly text: string;
  readonly pasted: readonly string[];
}

const continuation = '… ';
const bracketedPaste = { on: '\u001B[?2004h', off: '\u001B[?2004l' };
/** Shift-Enter and Ctrl-Enter, of the terminals that report them. */
const modifiedEnter = /^.\[(?:13;[25]u|27;[25];13~)$/;

const historySize = 500;
const discardMs = 1_000;
const discardNote = '  What was shown before is closed: input of the next second is ignored.';

export interface TerminalTiming {
  readonly wait: (ms: number, signal: AbortSignal | undefined) => Promise<unknown>;
}

const realTime: TerminalTiming = { wait: (ms, signal) => delay(ms, undefined, { signal }) };

export class Terminal {
  readonly isInteractive: boolean;
  /** Ctrl-C while there is no prompt. */
  onInterrupt: () => void = () => {};
  /** The input has ended, as by Ctrl-D. */
  onEnd: () => void = () => {};
  readonly #reader: Interface;
  readonly #stdin: CliEnvironment['stdin'];
  readonly #output: Output;
  readonly #lines: Line[] = [];
  #earlier: string[] = [];
  #active: ActivePrompt | undefined;
  #isEnded = false;
  /** Of the reader, which would add each line of a message, and answers. */
  #history: string[] = [];
  /** The newest first. */
  readonly #messages: string[] = [];
  readonly #timing: TerminalTiming;
  /** A `fresh` prompt was closed, and no prompt was answered since. */
  #wasClosed = false;
  #isDiscarding = false;
  #isPasting = false;
  /** The next line goes on: Alt-Enter. */
  #isContinued = false;
  /** Of the message that is being typed. */
  #pasted: string[] = [];
  #lastPasted: readonly string[] = [];
  /** Of all messages: what can come back from the history. */
  readonly #everPasted: string[] = [];
  /** Written while another program has the terminal. */
  #deferred: (() => void)[] | undefined;
  readonly #leave = () => this.#setPasteMode(false);

  constructor(environment: CliEnvironment, output: Output, timing = realTime) {
    this.#timing = timing;
    this.isInteractive = environment.stdin.isTTY === true;
    this.#stdin = environment.stdin;
    this.#output = output;
    this.#reader = createInterface({
      input: environment.stdin,
      output: this.#screen(),
      terminal: this.isInteractive,
      historySize,
      completer: (line: string) => this.#complete(line),
    });
    this.#reader.on('line', (line) => this.#receive(line));
    this.#reader.on('SIGINT', () => this.interrupt());
    this.#reader.on('history', (history: string[]) => {
      this.#history = history;
      this.#setHistory();
    });
    this.#reader.on('close', () => {
      this.#isEnded = true;
      this.#leave();
      // Ctrl-D leaves the cursor on the line of the prompt.
      if (this.#active !== undefined && this.isInteractive) this.#output.write('\n');
      this.#active?.answer(undefined);
      this.onEnd();
    });
    if (!this.isInteractive) return;
    environment.stdin.on('keypress', this.#onKey);
    this.#setPasteMode(true);
    process.once('exit', this.#leave);
  }

  /** The texts that were pasted into the last line that `ask` returned. */
  get pasted(): readonly string[] {
    return this.#lastPasted;
  }

  /** The next line; `undefined` at the end. Throws `Interrupted`, or the signal's reason. */
  async ask(options: PromptOptions): Promise<string | undefined> {
    const { prompt, prefill = '', fresh = false, signal } = options;
    if (signal?.aborted === true && fresh) this.#wasClosed = true;
    signal?.throwIfAborted();
    if (fresh && this.isInteractive) this.#discardTyped();
    if (fresh && this.isInteractive && this.#wasClosed) await this.#discardInput(signal);
    const kept = this.#lines.shift();
    if (kept !== undefined) {
      this.#output.write(this.isInteractive ? `${prompt}${shownLines(kept.text)}\n` : '');
      return this.#return(kept);
    }
    if (this.#isEnded) return undefined;
    const line = await this.#show(options, () => {
      this.#begin(prompt);
      if (prefill !== '' && this.isInteractive) this.#reader.write(prefill);
    });
    return line === undefined ? undefined : this.#return(line);
  }

  #discardTyped(): void {
    this.#clearLine();
    for (const { text } of this.#lines.splice(0)) {
      this.#output.write(
        `  Ignored, because it was typed before this request: ${firstLine(text)}\n`,
      );
    }
  }

  async #discardInput(signal: AbortSignal | undefined): Promise<void> {
    this.#isDiscarding = true;
    this.#output.write(`${discardNote}\n`);
    await this.#timing.wait(discardMs, signal).catch(() => undefined);
    this.#isDiscarding = false;
    this.#lines.splice(0);
    this.#clearLine();
    signal?.throwIfAborted();
    this.#wasClosed = false;
  }

  /** The next `fresh` prompt ignores input for a moment, as after one that was closed. */
  ignoreNextInput(): void {
    this.#wasClosed = true;
  }

  /** Writes above an open prompt, which is shown again below. */
  writeAbove(write: () => void): void {
    if (this.#deferred !== undefined) {
      this.#deferred.push(write);
      return;
    }
    if (this.#active === undefined || !this.isInteractive) {
      write();
      return;
    }
    this.#output.write('\n');
    write();
    this.#setRowsAbove(0);
    this.#reader.prompt(true);
  }

  /** Changes the open prompt when it is shown next. False if something was typed at it. */
  replacePrompt(prompt: string): boolean {
    if (this.#active === undefined || this.#reader.line !== '') return false;
    this.#reader.setPrompt(prompt);
    return true;
  }

  /** Gives the terminal to another program, such as an editor. */
  async suspend<Result>(run: () => Promise<Result>): Promise<Result> {
    this.#deferred = [];
    this.#reader.pause();
    this.#stdin.setRawMode?.(false);
    this.#setPasteMode(false);
    try {
      return await run();
    } finally {
      this.#stdin.setRawMode?.(true);
      this.#setPasteMode(true);
      this.#reader.resume();
      const deferred = this.#deferred;
      this.#deferred = undefined;
      for (const write of deferred) write();
    }
  }

  interrupt(): void {
    // The other program receives it as well.
    if (this.#deferred !== undefined) return;
    if (this.#active === undefined) this.onInterrupt();
    else this.#active.interrupt();
  }

  close(): void {
    this.#reader.close();
    this.#stdin.off('keypress', this.#onKey);
    process.off('exit', this.#leave);
  }

  #return({ text, pasted }: Line): string {
    this.#lastPasted = pasted;
    return text;
  }

  /** Shows the prompt, and before it the lines of a message that was begun while there was none. */
  #begin(prompt: string): void {
    if (this.#earlier.length > 0) {
      this.#output.write(`${prompt}${shownLines(this.#earlier.join('\n'))}\n`);
    }
    this.#reader.setPrompt(this.#earlier.length > 0 ? continuation : prompt);
    this.#setRowsAbove(0);
    this.#reader.prompt(true);
  }

  #show(options: PromptOptions, show: () => void): Promise<Line | undefined> {
    const { prompt, signal, fresh = false, cancelable = false } = options;
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        signal?.removeEventListener('abort', abort);
        this.#active = undefined;
        end();
      };
      const abort = () => {
        this.#wasClosed = fresh;
        if (this.isInteractive) {
          this.#output.write('\n');
          this.#clearLine();
        }
        settle(() => reject(signal?.reason as Error));
      };
      signal?.addEventListener('abort', abort);
      this.#active = {
        options,
        answer: (line) => {
          this.#wasClosed = false;
          settle(() => resolve(line));
        },
        interrupt: () => {
          if (!cancelable && (this.#reader.line !== '' || this.#earlier.length > 0)) {
            // As in a shell: discard the line and show the prompt again.
            this.#output.write('^C\n');
            this.#clearLine();
            this.#begin(prompt);
            return;
          }
          this.#output.write('\n');
          this.#clearLine();
          settle(() => reject(new Interrupted()));
        },
      };
      show();
    });
  }

  #receive(line: string): void {
    if (this.isInteractive && this.#goesOn(line)) {
      this.#isContinued = false;
      if (this.#active === undefined) return;
      this.#reader.setPrompt(continuation);
      this.#setRowsAbove(0);
      this.#reader.prompt();
      return;
    }
    // A message of several lines that was brought back has these breaks.
    const text = [...this.#earlier, line.replaceAll('\r', '\n')].join('\n');
    this.#remember(text);
    const received = { text, pasted: this.#pasted };
    this.#earlier = [];
    this.#pasted = [];
    if (this.#active === undefined) this.#lines.push(received);
    else this.#active.answer(received);
  }

  /** Only messages are worth repeating, as a whole. */
  #remember(text: string): void {
    if (this.#active?.options.fresh === true || this.#isDiscarding || text.trim() === '') return;
    if (this.#messages[0] !== text) this.#messages.unshift(text);
    this.#messages.splice(historySize);
    this.#setHistory();
  }

  #setHistory(): void {
    this.#history.splice(0, this.#history.length, ...this.#messages);
  }

  /** Whether the message has more lines. */
  #goesOn(line: string): boolean {
    if (this.#isPasting || this.#isContinued) this.#earlier.push(line);
    else if (this.#active?.options.fresh !== true && /(?<!\\)(?:\\\\)*\\$/.test(line)) {
      this.#earlier.push(line.slice(0, -1));
    } else return false;
    return true;
  }

  readonly #onKey = (text: string | undefined, key: Key): void => {
    if (key.name === 'paste-start') {
      this.#isPasting = true;
      this.#pasted.push('');
    } else if (key.name === 'paste-end') {
      this.#isPasting = false;
      this.#everPasted.push(...this.#pasted.slice(-1).filter((pasted) => pasted.includes('@')));
    } else if (this.#isPasting) {
      const pasted = this.#pasted.pop() ?? '';
      this.#pasted.push(pasted + (text === '\r' ? '\n' : (text ?? '')));
    } else if (isRecall(key)) this.#pasted = [...this.#everPasted];
    else if (isModifiedEnter(key) && this.#active?.options.fresh !== true) {
      this.#isContinued = true;
      this.#reader.write(null, { name: 'return' });
    }
  };

  #complete(line: string): Completion {
    if (this.#isPasting) {
      // The last tab of a pasted chunk: the others are text for the reader.
      this.#reader.write('\t');
      return [[], line];
    }
    return this.#active?.options.complete?.(line) ?? [[], line];
  }

  /**
   * Sets how many rows above the cursor the reader starts to redraw its line. Its own count includes
   * output that was suppressed, and would erase other text.
   */
  #setRowsAbove(rows: number): void {
    (this.#reader as Interface & { prevRows?: number }).prevRows = rows;
  }

  #clearLine(): void {
    const active = this.#active;
    this.#active = undefined;
    this.#earlier = [];
    this.#pasted = [];
    this.#reader.write(null, { ctrl: true, name: 'e' });
    this.#reader.write(null, { ctrl: true, name: 'u' });
    this.#active = active;
  }

  #setPasteMode(isOn: boolean): void {
    if (this.isInteractive) this.#output.write(isOn ? bracketedPaste.on : bracketedPaste.off);
  }

  /** Suppresses what the reader writes while there is no prompt. */
  #screen(): Writable {
    const output = this.#output;
    const screen = new Writable({
      write: (chunk: Buffer, _, done) => {
        if (this.#active !== undefined && this.isInteractive) output.write(chunk);
        done();
      },
    });
    Object.defineProperty(screen, 'columns', { get: () => output.columns });
    output.on('resize', () => {
      // The terminal has wrapped the line again.
      if (this.#active !== undefined) this.#setRowsAbove(this.#reader.getCursorPos().rows);
      screen.emit('resize');
    });
    return screen;
  }
}

function firstLine(text: string): string {
  const [first = '', ...more] = escapeUnsafe(text).split('\n');
  return more.length === 0 ? first : `${first} …`;
}

function shownLines(text: string): string {
  return text.replaceAll('\n', `\n${continuation}`);
}

/** Keys that bring back earlier text: the history, what was cut, and undo. */
function isRecall({ name = '', ctrl = false, meta = false, sequence = '' }: Key): boolean {
  if (name === 'up' || name === 'down') return true;
  if (ctrl && ['p', 'n', 'y'].includes(name)) return true;
  return (meta && name === 'y') || sequence === '\u001E' || sequence === '\u001F';
}

function isModifiedEnter({ name, meta, sequence = '' }: Key): boolean {
  return (meta === true && (name === 'return' || name === 'enter')) || modifiedEnter.test(sequence);
}
