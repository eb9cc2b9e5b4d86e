/**
 * Reads lines from a terminal or a pipe. One reader holds the terminal in raw mode for the whole
 * chat: text typed while an answer streams is not echoed and not lost.
 *
 * States: idle (an answer streams), prompting (the next line answers the prompt) and ended (no more
 * lines). A line typed while idle is kept for the next message. It never answers an approval prompt
 * that was not on the screen when it was typed: a `fresh` prompt discards unfinished input and skips
 * kept lines. In a pipe there is no echo, and lines are used in order.
 */
import { createInterface, type Interface } from 'node:readline';
import { Writable } from 'node:stream';
import type { CliEnvironment, Output } from '../environment.ts';

/** Ctrl-C at an empty prompt. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

export interface PromptOptions {
  readonly prompt: string;
  /** Editable text to start with. */
  readonly prefill?: string;
  /** Only text typed after the prompt appears counts. */
  readonly fresh?: boolean;
  /** Aborting it closes the prompt. */
  readonly signal?: AbortSignal;
}

interface ActivePrompt {
  readonly prompt: string;
  answer(line: string | undefined): void;
  interrupt(): void;
}

export class Terminal {
  readonly isInteractive: boolean;
  /** Ctrl-C while there is no prompt. */
  onInterrupt: () => void = () => {};
  readonly #reader: Interface;
  readonly #output: Output;
  readonly #lines: string[] = [];
  #active: ActivePrompt | undefined;
  #isEnded = false;

  constructor(environment: CliEnvironment, output: Output) {
    this.isInteractive = environment.stdin.isTTY === true;
    this.#output = output;
    this.#reader = createInterface({
      input: environment.stdin,
      output: this.#screen(),
      terminal: this.isInteractive,
      historySize: 500,
    });
    this.#reader.on('line', (line) => this.#receive(line));
    this.#reader.on('SIGINT', () => this.interrupt());
    this.#reader.on('close', () => {
      this.#isEnded = true;
      // Ctrl-D leaves the cursor on the line of the prompt.
      if (this.#active !== undefined && this.isInteractive) this.#output.write('\n');
      this.#active?.answer(undefined);
    });
  }

  /** The next line; `undefined` at the end. Throws `Interrupted`, or the signal's reason. */
  async ask(options: PromptOptions): Promise<string | undefined> {
    options.signal?.throwIfAborted();
    const { prompt, prefill = '', fresh = false } = options;
    if (fresh && this.isInteractive) this.#clearLine();
    else if (this.#lines.length > 0) {
      const line = this.#lines.shift() ?? '';
      this.#output.write(this.isInteractive ? `${prompt}${line}\n` : '');
      return line;
    }
    if (this.#isEnded) return undefined;
    return this.#show(options, () => {
      this.#reader.setPrompt(prompt);
      this.#setRowsAbove(0);
      this.#reader.prompt(true);
      if (prefill !== '' && this.isInteractive) this.#reader.write(prefill);
    });
  }

  /** Writes above an open prompt, which is shown again below. */
  writeAbove(write: () => void): void {
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

  interrupt(): void {
    if (this.#active === undefined) this.onInterrupt();
    else this.#active.interrupt();
  }

  close(): void {
    this.#reader.close();
  }

  #show({ prompt, signal }: PromptOptions, show: () => void): Promise<string | undefined> {
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        signal?.removeEventListener('abort', abort);
        this.#active = undefined;
        end();
      };
      const abort = () => {
        if (this.isInteractive) {
          this.#output.write('\n');
          this.#clearLine();
        }
        settle(() => reject(signal?.reason as Error));
      };
      signal?.addEventListener('abort', abort);
      this.#active = {
        prompt,
        answer: (line) => settle(() => resolve(line)),
        interrupt: () => {
          if (this.#reader.line !== '') {
            // As in a shell: discard the line and show the prompt again.
            this.#output.write('^C\n');
            this.#clearLine();
            this.#setRowsAbove(0);
            this.#reader.prompt();
            return;
          }
          this.#output.write('\n');
          settle(() => reject(new Interrupted()));
        },
      };
      show();
    });
  }

  #receive(line: string): void {
    if (this.#active === undefined) this.#lines.push(line);
    else this.#active.answer(line);
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
    this.#reader.write(null, { ctrl: true, name: 'e' });
    this.#reader.write(null, { ctrl: true, name: 'u' });
    this.#active = active;
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
