/**
 * What is going on at present: a spinner, its name and its seconds, below the output. The line exists
 * only while the cursor is at the start of a line, and whoever writes hides it before.
 */
import { type CliEnvironment, type Output, terminalWidth } from '../environment.ts';
import { cutTo, escapeLine } from './escape.ts';
import { isStyled, type Paint, paintFor } from './paint.ts';

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const frameMs = 100;
const eraseLine = '\r\u001B[K';

export class StatusLine {
  readonly #output: Output;
  readonly #paint: Paint;
  readonly #isEnabled: boolean;
  #label = '';
  #since = 0;
  #frame = 0;
  #isDrawn = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(environment: CliEnvironment, output: Output, options: { readonly isOff: boolean }) {
    this.#output = output;
    this.#paint = paintFor(environment, output);
    this.#isEnabled = !options.isOff && isStyled(environment, output);
  }

  /** It appears with the next frame: what ends at once is never shown. */
  show(label: string): void {
    if (!this.#isEnabled) return;
    if (label !== this.#label) this.#since = performance.now();
    this.#label = label;
    this.#timer ??= setInterval(() => this.#draw(), frameMs).unref();
  }

  /** Of what is shown, if anything is. */
  rename(label: string): void {
    if (this.#timer !== undefined) this.show(label);
  }

  /** Until the next frame. */
  hide(): void {
    if (this.#isDrawn) this.#output.write(eraseLine);
    this.#isDrawn = false;
  }

  clear(): void {
    this.hide();
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#label = '';
  }

  #draw(): void {
    this.#frame = (this.#frame + 1) % frames.length;
    const seconds = Math.floor((performance.now() - this.#since) / 1_000);
    const time = seconds === 0 ? '' : ` ${seconds}s`;
    const text = cutTo(
      `${frames[this.#frame]} ${escapeLine(this.#label)}${time}`,
      this.#columns - 1,
    );
    this.#output.write(eraseLine + this.#paint('dim', text));
    this.#isDrawn = true;
  }

  get #columns(): number {
    return terminalWidth(this.#output);
  }
}
