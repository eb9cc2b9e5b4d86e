/**
 * Lines from a person or a pipe. One reader holds the terminal for the whole chat, in raw mode: what
 * is typed while an answer streams does not show and is not lost.
 *
 * States: `silent` (an answer streams), `asking` (a prompt is shown and the next line is its answer),
 * `ended` (no more lines will come). A line that comes while silent waits for the next message. It
 * never answers a question that was not on the screen when it was typed: such a question throws away
 * what was typed before it. In a pipe nobody sees anything, and lines are taken as they come.
 */
import { createInterface, type Interface } from 'node:readline';
import { Writable } from 'node:stream';
import type { Output, World } from '../world.ts';

/** Ctrl-C while something was asked. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

export interface Asking {
  readonly prompt: string;
  /** What stands there already, to be changed. */
  readonly prefill?: string;
  /** Only what is typed from now on counts. */
  readonly fresh?: boolean;
  /** Aborted when the answer is no longer wanted. */
  readonly signal?: AbortSignal;
}

interface Waiting {
  readonly prompt: string;
  answer(line: string | undefined): void;
  interrupt(): void;
}

export class Terminal {
  readonly isInteractive: boolean;
  /** Ctrl-C while nothing is asked. */
  onInterrupt: () => void = () => {};
  readonly #reader: Interface;
  readonly #output: Output;
  readonly #waitingLines: string[] = [];
  #waiting: Waiting | undefined;
  #isEnded = false;

  constructor(world: World, output: Output) {
    this.isInteractive = world.stdin.isTTY === true;
    this.#output = output;
    this.#reader = createInterface({
      input: world.stdin,
      output: this.#screen(),
      terminal: this.isInteractive,
      historySize: 500,
    });
    this.#reader.on('line', (line) => this.#take(line));
    this.#reader.on('SIGINT', () => this.interrupt());
    this.#reader.on('close', () => {
      this.#isEnded = true;
      // Ctrl-D leaves the cursor behind the prompt.
      if (this.#waiting !== undefined && this.isInteractive) this.#output.write('\n');
      this.#waiting?.answer(undefined);
    });
  }

  /** The next line; `undefined` when there are no more. Throws `Interrupted`, or the signal's reason. */
  async ask(asking: Asking): Promise<string | undefined> {
    asking.signal?.throwIfAborted();
    const { prompt, prefill = '', fresh = false } = asking;
    if (fresh && this.isInteractive) this.#clearLine();
    else if (this.#waitingLines.length > 0) {
      const line = this.#waitingLines.shift() ?? '';
      this.#output.write(this.isInteractive ? `${prompt}${line}\n` : '');
      return line;
    }
    if (this.#isEnded) return undefined;
    return this.#show(asking, () => {
      this.#reader.setPrompt(prompt);
      this.#beginsAbove(0);
      this.#reader.prompt(true);
      if (prefill !== '' && this.isInteractive) this.#reader.write(prefill);
    });
  }

  /** Lets something be said while a question is on the screen, which is shown again below it. */
  beside(say: () => void): void {
    if (this.#waiting === undefined || !this.isInteractive) {
      say();
      return;
    }
    this.#output.write('\n');
    say();
    this.#beginsAbove(0);
    this.#reader.prompt(true);
  }

  interrupt(): void {
    if (this.#waiting === undefined) this.onInterrupt();
    else this.#waiting.interrupt();
  }

  close(): void {
    this.#reader.close();
  }

  #show({ prompt, signal }: Asking, show: () => void): Promise<string | undefined> {
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        signal?.removeEventListener('abort', abort);
        this.#waiting = undefined;
        end();
      };
      const abort = () => {
        this.#output.write('\n');
        this.#clearLine();
        settle(() => reject(signal?.reason as Error));
      };
      signal?.addEventListener('abort', abort);
      this.#waiting = {
        prompt,
        answer: (line) => settle(() => resolve(line)),
        interrupt: () => {
          if (this.#reader.line !== '') {
            // As in a shell: the line is given up, the question stays.
            this.#output.write('^C\n');
            this.#clearLine();
            this.#beginsAbove(0);
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

  #take(line: string): void {
    if (this.#waiting === undefined) this.#waitingLines.push(line);
    else this.#waiting.answer(line);
  }

  /**
   * How many rows above the cursor the line begins that the reader is about to draw again. It counts
   * also what it has drawn where nobody saw it, and would wipe out what stands there now.
   */
  #beginsAbove(rows: number): void {
    (this.#reader as Interface & { prevRows?: number }).prevRows = rows;
  }

  #clearLine(): void {
    const shown = this.#waiting;
    this.#waiting = undefined;
    this.#reader.write(null, { ctrl: true, name: 'e' });
    this.#reader.write(null, { ctrl: true, name: 'u' });
    this.#waiting = shown;
  }

  /** The reader writes only while something is asked. */
  #screen(): Writable {
    const output = this.#output;
    const screen = new Writable({
      write: (chunk: Buffer, _, done) => {
        if (this.#waiting !== undefined && this.isInteractive) output.write(chunk);
        done();
      },
    });
    Object.defineProperty(screen, 'columns', { get: () => output.columns });
    output.on('resize', () => {
      // The terminal has wrapped the line anew.
      if (this.#waiting !== undefined) this.#beginsAbove(this.#reader.getCursorPos().rows);
      screen.emit('resize');
    });
    return screen;
  }
}
