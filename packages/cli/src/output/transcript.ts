/** Prints the events of a run as they arrive. */
import { describeFlags } from '@relay/protocol/display';
import type { RunHandle, RunResult, RunStreamEvent } from '@relay/sdk';
import { CliError, exitCodes } from '../errors.ts';
import { answerCommand, waitsText } from './decision-text.ts';
import { deniedByText } from './rule-text.ts';
import { MarkdownWriter } from './markdown.ts';
import type { Print } from './print.ts';
import { escapeUnsafe, escapeLine } from './escape.ts';
import { formatTime } from './table.ts';

type ApprovalRequested = Extract<RunStreamEvent, { type: 'approval_requested' }>;

/** A model that writes no text for this long has made a pause. */
const pauseMs = 150;

/**
 * Prints text continuously, and every other event on a line of its own. On a terminal the text is
 * rendered as Markdown. Elsewhere, where nothing can be taken back, it is printed when it is complete.
 */
export class Transcript {
  readonly #print: Print;
  readonly #writeLine: (line: string) => void;
  readonly #markdown: MarkdownWriter | undefined;
  #isInText = false;
  #pause: NodeJS.Timeout | undefined;
  readonly #isLive: boolean;
  /** Text that is not printed yet: half of a surrogate pair, or all that a `reset` event would discard. */
  #held = '';
  /** Whether there is text that a `reset` event would discard. */
  #hasText = false;

  readonly #requests = new Map<string, ApprovalRequested>();
  /** The calls without a result: their names. */
  readonly #calls = new Map<string, string>();
  /** Of the calls that run together: results and decisions then say whose they are. */
  #areSeveral = false;

  constructor(print: Print, options: { readonly writeLine?: (line: string) => void } = {}) {
    this.#print = print;
    this.#isLive = print.terminalColumns !== undefined;
    this.#writeLine = options.writeLine ?? ((line) => print.raw(`${line}\n`));
    if (!print.isStyled) return;
    const write = (text: string) => print.raw(text);
    this.#markdown = new MarkdownWriter({
      paint: print.paint,
      write,
      columns: () => print.columns,
    });
  }

  /** Whether the cursor is behind text. */
  get isInLine(): boolean {
    return this.#isLive && this.#isInText && this.#markdown?.isAtLineStart !== true;
  }

  /** So that something else can be shown on a line of its own, in the middle of a text. */
  breakLine(): void {
    if (this.#isLive) this.endText();
  }

  /** Of the approvals that were shown, here or in a prompt. */
  remember(request: ApprovalRequested): void {
    this.#requests.set(request.id, request);
  }

  requestedTool(approvalId: string): string | undefined {
    return this.#requests.get(approvalId)?.tool;
  }

  #whose(name: string | undefined): string {
    return this.#areSeveral && name !== undefined ? `${escapeLine(name)} ` : '';
  }

  text(text: string): void {
    this.#isInText = true;
    this.#hasText = true;
    if (this.#markdown !== undefined) {
      this.#markdown.push(text);
      clearTimeout(this.#pause);
      this.#pause = setTimeout(() => this.#markdown?.settle(), pauseMs).unref();
      return;
    }
    if (!this.#isLive) {
      this.#held += text;
      return;
    }
    const whole = this.#held + text;
    const isCut = /^[\uD800-\uDBFF]$/.test(whole.slice(-1));
    this.#held = isCut ? whole.slice(-1) : '';
    this.#print.raw(escapeUnsafe(isCut ? whole.slice(0, -1) : whole));
  }

  line(text: string): void {
    this.endText();
    this.#writeLine(text);
  }

  endText(): void {
    clearTimeout(this.#pause);
    if (this.#markdown !== undefined) this.#markdown.end();
    else if (this.#isInText) this.#print.raw(`${escapeUnsafe(this.#held)}\n`);
    this.#held = '';
    this.#isInText = false;
  }

  show(event: RunStreamEvent): void {
    const { paint } = this.#print;
    switch (event.type) {
      case 'token':
        this.text(event.text);
        break;
      case 'reset':
        if (!this.#isLive) {
          this.#held = '';
          this.#isInText = false;
        } else if (this.#hasText) {
          this.line(paint('dim', '· the answer was interrupted and starts again:'));
        }
        this.#hasText = false;
        break;
      case 'message':
        this.#hasText = false;
        this.line(paint('cyan', `@ ${escapeLine(event.from.name)}: ${shortJson(event.content)}`));
        break;
      case 'tool_call':
        this.#hasText = false;
        this.#calls.delete(event.id);
        this.#areSeveral = this.#calls.size > 0;
        this.#calls.set(event.id, event.name);
        this.line(paint('cyan', `→ ${escapeLine(event.name)} ${shortJson(event.input)}`));
        break;
      case 'tool_result': {
        const whose = this.#whose(this.#calls.get(event.id));
        this.#calls.delete(event.id);
        if (event.rule === undefined) {
          this.line(paint('dim', `← ${whose}${shortJson(event.output)}`));
        } else this.line(paint('red', `✗ ${whose}${deniedByText(event.rule)}`));
        break;
      }
      case 'approval_requested':
        this.remember(event);
        this.line(paint('yellow', requestText(event)));
        for (const warning of describeFlags(event.display?.flags ?? [])) {
          this.line(paint('red', `  ! Warning: the request ${escapeLine(warning)}`));
        }
        break;
      case 'approval_expiring':
        this.line(
          paint('yellow', `! approval ${event.id} expires at ${formatTime(event.expiresAt)}`),
        );
        break;
      case 'approval_resolved': {
        const { kind, tool } = this.#requests.get(event.id) ?? {};
        const isAnswer = kind === 'question' && event.status === 'approved';
        const what = isAnswer ? 'answered' : (event.outcome ?? event.status);
        this.line(paint('dim', `· ${this.#whose(tool)}${what}`));
        // The call was shown with its original arguments.
        if (event.executedParams !== undefined && !isAnswer) {
          this.line(
            paint('cyan', `→ changed by the approver to ${shortJson(event.executedParams)}`),
          );
        }
        break;
      }
      case 'error':
        this.line(paint('red', `✗ ${escapeLine(event.error)} [${event.code}]`));
        break;
      case 'agent_switch':
        this.line(paint('dim', `· ${escapeLine(event.agentName)} continues`));
        break;
      case 'run':
      case 'handoff':
        break;
      case 'done': {
        this.endText();
        const cut = unfinishedNote(event.finishReason);
        if (cut !== undefined) this.line(paint('yellow', cut));
        break;
      }
    }
  }
}

type FinishReason = NonNullable<RunResult['finishReason']>;

const unfinished: Readonly<Record<FinishReason, string | undefined>> = {
  stop: undefined,
  length: '(cut at the token limit)',
  refusal: '(the model refused)',
  content_filter: '(blocked by the provider’s content filter)',
  context_exceeded: '(cut: the context window is full)',
};

/** What to say of an answer that is not whole. */
function unfinishedNote(reason: FinishReason | undefined): string | undefined {
  return reason === undefined ? undefined : unfinished[reason];
}

function requestText({ kind, tool, id }: ApprovalRequested) {
  const name = escapeLine(tool);
  if (kind !== 'outcome') return `? ${name} ${waitsText[kind]} (id ${id})`;
  return `? ${name} was started before a crash or a stop of the server and may have taken effect: ${answerCommand(kind, id)}`;
}

const maxJsonLength = 400;

function shortJson(value: unknown): string {
  const text = escapeLine(JSON.stringify(value) ?? '');
  return text.length <= maxJsonLength ? text : `${text.slice(0, maxJsonLength)}…`;
}

/** Follows a run to its end; throws if it fails or is canceled. */
export async function followRun(print: Print, run: RunHandle): Promise<void> {
  const transcript = new Transcript(print);
  try {
    for await (const event of run) {
      if (print.json) print.value(event);
      // The command fails with this error, which prints it.
      else if (event.type !== 'error') transcript.show(event);
    }
  } finally {
    transcript.endText();
  }
  const result = await run.result();
  if (!print.json) print.note(`The run is ${result.status}.`);
  if (result.status !== 'completed') throw runError(result.status, result.error);
}

export function runError(status: RunResult['status'], error: RunResult['error']): CliError {
  if (status === 'canceled') {
    return new CliError('run_canceled', 'The run was canceled', { exit: exitCodes.runFailed });
  }
  const message = error?.message ?? 'The run failed';
  return new CliError(error?.code ?? 'run_failed', message, { exit: exitCodes.runFailed });
}
