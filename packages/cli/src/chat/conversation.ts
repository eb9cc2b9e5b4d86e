/** The chat itself: a message, a turn, the next message, until somebody leaves. */
import type { Run, RunResult, RunStreamEvent } from '@relay/sdk';
import { CliError, exitCodes, failureOf } from '../failures.ts';
import { endedBadly, Transcript } from '../follow.ts';
import type { Print } from '../print.ts';
import { visible } from '../visible.ts';
import { Asker } from './asker.ts';
import type { Partner, Turn } from './partner.ts';
import { Stage } from './stage.ts';
import { Interrupted, type Terminal } from './terminal.ts';

export interface ConversationOptions {
  readonly print: Print;
  readonly terminal: Terminal;
  readonly partner: Partner;
  /** Beside the answer: calls, requests, notes. */
  readonly aside: (line: string) => void;
}

type Done = Extract<RunStreamEvent, { type: 'done' }>;

export class Conversation {
  readonly #options: ConversationOptions;
  #wasInterrupted = false;
  #transcript: Transcript | undefined;
  #error: RunResult['error'];
  /** One message only: what goes wrong is the end of the command, which says it. */
  #isOnce = false;

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** Turns until there are no more messages. */
  async talk(): Promise<void> {
    const { terminal, partner, print } = this.#options;
    const prompt = terminal.isInteractive ? `${print.paint('bold', 'you')} › ` : '';
    for (;;) {
      const message = await terminal.ask({ prompt }).catch(leaving);
      if (message === undefined || /^\/(quit|exit)$/.test(message.trim())) return;
      if (message.trim() === '') continue;
      try {
        const done = await this.take(() => partner.say(message));
        if (done?.status === 'canceled') this.#options.aside('(canceled)');
      } catch (error) {
        // In a script a turn that cannot be had is the end; a person may say something else.
        if (!terminal.isInteractive || !isRefusal(error)) throw error;
        const { hint } = failureOf(error);
        const more = hint === undefined ? '' : ` – ${hint}`;
        const said = `✗ ${visible(error.message)} [${error.code}]${more}`;
        this.#options.aside(print.paint('red', said));
      }
    }
  }

  /** One message and its answer; throws if the run does not end well. */
  async once(message: string): Promise<void> {
    this.#isOnce = true;
    const done = await this.take(() => this.#options.partner.say(message));
    if (done === undefined || done.status === 'completed') return;
    if (done.status === 'canceled' && this.#wasInterrupted) {
      throw new CliError('interrupted', 'The run was canceled', { exit: exitCodes.interrupted });
    }
    throw endedBadly({
      ...done,
      id: '',
      ...(this.#error === undefined ? {} : { error: this.#error }),
    });
  }

  /** What one should know in the middle of a turn, on a line of its own. */
  note(line: string): void {
    this.#transcript?.endText();
    this.#options.terminal.beside(() => this.#options.aside(line));
  }

  /** What was said before, shortly. */
  recall(runs: readonly Run[]): void {
    const { aside, print } = this.#options;
    for (const { input, output } of runs) {
      const content =
        typeof input === 'string' ? input : input?.findLast((m) => m.role === 'user')?.content;
      if (typeof content === 'string') aside(print.paint('dim', `you › ${visible(content)}`));
      if (output !== undefined && output !== '') aside(print.paint('dim', visible(output)));
    }
  }

  /** A turn on the screen, from its first event to its last. */
  async take(begin: () => Promise<Turn>): Promise<Done | undefined> {
    const { print, terminal, aside } = this.#options;
    const transcript = new Transcript(print, { aside });
    this.#transcript = transcript;
    let interrupted = 0;
    let turn: Turn | undefined;
    const interrupt = () => {
      interrupted += 1;
      this.#wasInterrupted = true;
      if (interrupted > 1) process.exit(130);
      this.note('(canceling; Ctrl-C again leaves at once)');
      turn
        ?.cancel()
        .catch((error: unknown) => this.note(`(it could not be canceled: ${String(error)})`));
    };
    terminal.onInterrupt = interrupt;
    try {
      turn = await begin();
      if (interrupted > 0) await turn.cancel();
      return await this.#watch(turn, interrupt, transcript);
    } finally {
      terminal.onInterrupt = () => {};
    }
  }

  async #watch(
    turn: Turn,
    interrupt: () => void,
    transcript: Transcript,
  ): Promise<Done | undefined> {
    const { print, terminal, aside } = this.#options;
    const asker = new Asker({ terminal, paint: print.paint, say: aside });
    const stage = new Stage({
      transcript: print.json
        ? { endText: () => {}, show: (event) => print.value(event) }
        : transcript,
      asker,
      answer: (request, decision) => turn.answer(request, decision),
      say: aside,
      interrupt,
      unanswered: (request) => turn.leaveOpen(request),
    });
    let done: Done | undefined;
    for await (const event of turn) {
      if (event.type === 'approval_requested') {
        if (print.json) stage.show(event);
        stage.raise(event.id, () => turn.request(event));
        continue;
      }
      if (event.type === 'error') {
        this.#error = { ...event, message: event.error };
        if (this.#isOnce && !print.json) continue;
      }
      if (event.type === 'approval_resolved') stage.close(event.id);
      if (event.type === 'done') {
        done = event;
        await stage.finish();
      }
      stage.show(event);
    }
    await stage.finish();
    return done;
  }
}

/** Ctrl-C at an empty prompt is a way to leave. */
function leaving(error: unknown): undefined {
  if (!(error instanceof Interrupted)) throw error;
}

function isRefusal(error: unknown): error is Error & { readonly code: string } {
  return error instanceof Error && error.name === 'RelayApiError';
}
