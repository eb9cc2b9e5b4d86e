/** A run as it happens, on a terminal, in a file or for a program. */
import type { RunHandle, RunResult, RunStreamEvent } from '@relay/sdk';
import { CliError, exitCodes } from './failures.ts';
import type { Print } from './print.ts';
import { visible, visibleLine } from './visible.ts';

/** Shows events of a run; text is one flow, everything else a line of its own. */
export class Transcript {
  readonly #print: Print;
  readonly #aside: (line: string) => void;
  #isInText = false;
  #half = '';
  /** Whether this turn has said anything that could be taken back. */
  #hasSpoken = false;

  constructor(print: Print, options: { readonly aside?: (line: string) => void } = {}) {
    this.#print = print;
    this.#aside = options.aside ?? ((line) => print.raw(`${line}\n`));
  }

  text(text: string): void {
    const whole = this.#half + text;
    // A character may come in two halves, and neither shows without the other.
    const isCut = /[\uD800-\uDBFF]$/.test(whole);
    this.#half = isCut ? whole.slice(-1) : '';
    this.#print.raw(visible(isCut ? whole.slice(0, -1) : whole));
    this.#isInText = true;
    this.#hasSpoken = true;
  }

  line(text: string): void {
    this.endText();
    this.#aside(text);
  }

  endText(): void {
    if (this.#isInText) this.#print.raw(`${visible(this.#half)}\n`);
    this.#half = '';
    this.#isInText = false;
  }

  show(event: RunStreamEvent): void {
    const { paint } = this.#print;
    switch (event.type) {
      case 'token':
        this.text(event.text);
        break;
      case 'reset':
        if (this.#hasSpoken) {
          this.line(paint('dim', '· that answer was broken off and is said again:'));
        }
        this.#hasSpoken = false;
        break;
      case 'tool_call':
        this.#hasSpoken = false;
        this.line(paint('cyan', `→ ${visibleLine(event.name)} ${shortJson(event.input)}`));
        break;
      case 'tool_result':
        this.line(paint('dim', `← ${shortJson(event.output)}`));
        break;
      case 'approval_requested':
        this.line(paint('yellow', `? ${event.tool} waits for a person (approval ${event.id})`));
        break;
      case 'approval_expiring':
        this.line(paint('yellow', `! approval ${event.id} expires at ${event.expiresAt}`));
        break;
      case 'approval_resolved':
        this.line(paint('dim', `· ${event.status}`));
        break;
      case 'error':
        this.line(paint('red', `✗ ${visibleLine(event.error)} [${event.code}]`));
        break;
      case 'done':
        this.endText();
        break;
    }
  }
}

const longest = 400;

function shortJson(value: unknown): string {
  const text = visibleLine(JSON.stringify(value) ?? '');
  return text.length <= longest ? text : `${text.slice(0, longest)}…`;
}

/** Until it is over; throws if it did not end well, so that scripts notice. */
export async function followRun(print: Print, run: RunHandle): Promise<void> {
  const transcript = new Transcript(print);
  for await (const event of run) {
    if (print.json) print.value(event);
    // The command itself ends with this error, and says it.
    else if (event.type !== 'error') transcript.show(event);
  }
  const result = await run.result();
  if (!print.json) print.note(`The run is ${result.status}.`);
  if (result.status !== 'completed') throw endedBadly(result);
}

export function endedBadly({ status, error }: RunResult): CliError {
  if (status === 'canceled') {
    return new CliError('run_canceled', 'The run was canceled', { exit: exitCodes.runFailed });
  }
  const message = error?.message ?? 'The run failed';
  return new CliError(error?.code ?? 'run_failed', message, { exit: exitCodes.runFailed });
}
