/** The chat loop: reads a message, shows its turn, and repeats until the user leaves. */
import type { Run, RunResult, RunStreamEvent } from '@relay/sdk';
import { CliError, exitCodes, failureOf, isApiError } from '../errors.ts';
import { runError, Transcript } from '../output/transcript.ts';
import type { Print } from '../output/print.ts';
import { escapeUnsafe } from '../output/escape.ts';
import { ApprovalPrompt } from './approval-prompt.ts';
import type { ChatClient, ChatTurn } from './client.ts';
import { TurnView } from './turn-view.ts';
import { Interrupted, type Terminal } from './terminal.ts';

export interface ConversationOptions {
  readonly print: Print;
  readonly terminal: Terminal;
  readonly client: ChatClient;
  /** For everything but the answer: tool calls, prompts, notes. */
  readonly writeLine: (line: string) => void;
}

type Done = Extract<RunStreamEvent, { type: 'done' }>;

export class Conversation {
  readonly #options: ConversationOptions;
  #wasInterrupted = false;
  #transcript: Transcript | undefined;
  #error: RunResult['error'];
  /** With a single message, an error ends the command, which prints it. */
  #isOnce = false;

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** Turns until the input ends. */
  async run(): Promise<void> {
    const { terminal, client, print, writeLine } = this.#options;
    const prompt = terminal.isInteractive ? `${print.paint('bold', 'you')} › ` : '';
    for (;;) {
      const message = await terminal.ask({ prompt }).catch(endOnInterrupt);
      if (message === undefined || /^\/(quit|exit)$/.test(message.trim())) return;
      if (message.trim() === '') continue;
      try {
        const done = await this.runTurn(() => client.send(message));
        if (done?.status === 'canceled') writeLine('(canceled)');
      } catch (error) {
        // A script ends with the error; a user can send another message.
        if (!terminal.isInteractive || !isApiError(error)) throw error;
        const { hint } = failureOf(error);
        const more = hint === undefined ? '' : ` – ${hint}`;
        writeLine(print.paint('red', `✗ ${escapeUnsafe(error.message)} [${error.code}]${more}`));
      }
    }
  }

  /** One message and its answer; throws if the run fails or is canceled. */
  async runOnce(message: string): Promise<void> {
    this.#isOnce = true;
    const done = await this.runTurn(() => this.#options.client.send(message));
    if (done === undefined || done.status === 'completed') return;
    if (done.status === 'canceled' && this.#wasInterrupted) {
      throw new CliError('interrupted', 'The run was canceled', { exit: exitCodes.interrupted });
    }
    throw runError(done.status, this.#error);
  }

  /** Shows a note during a turn, on a line of its own. */
  note(line: string): void {
    this.#transcript?.endText();
    this.#options.terminal.writeAbove(() => this.#options.writeLine(line));
  }

  showHistory(runs: readonly Run[]): void {
    const { writeLine, print } = this.#options;
    for (const { input, output } of runs) {
      const content =
        typeof input === 'string' ? input : input?.findLast((m) => m.role === 'user')?.content;
      if (typeof content === 'string')
        writeLine(print.paint('dim', `you › ${escapeUnsafe(content)}`));
      if (output !== undefined && output !== '')
        writeLine(print.paint('dim', escapeUnsafe(output)));
    }
  }

  /** Starts a turn and shows it to its end. */
  async runTurn(begin: () => Promise<ChatTurn>): Promise<Done | undefined> {
    const { print, terminal, writeLine } = this.#options;
    const transcript = new Transcript(print, { writeLine });
    this.#transcript = transcript;
    let interrupts = 0;
    let turn: ChatTurn | undefined;
    const interrupt = () => {
      interrupts += 1;
      this.#wasInterrupted = true;
      if (interrupts > 1) process.exit(130);
      this.note('(canceling; press Ctrl-C again to exit now)');
      turn?.cancel().catch((error: unknown) => this.note(`(could not cancel: ${String(error)})`));
    };
    terminal.onInterrupt = interrupt;
    try {
      turn = await begin();
      if (interrupts > 0) await turn.cancel();
      return await this.#follow(turn, interrupt, transcript);
    } finally {
      terminal.onInterrupt = () => {};
    }
  }

  async #follow(
    turn: ChatTurn,
    interrupt: () => void,
    transcript: Transcript,
  ): Promise<Done | undefined> {
    const { print, terminal, writeLine } = this.#options;
    const view = new TurnView({
      transcript: print.json
        ? { endText: () => {}, show: (event) => print.value(event) }
        : transcript,
      prompt: new ApprovalPrompt({ terminal, paint: print.paint, writeLine }),
      decide: (request, decision) => turn.decide(request, decision),
      writeLine,
      interrupt,
      undecided: (request) => turn.onUndecided(request),
    });
    let done: Done | undefined;
    for await (const event of turn) {
      if (event.type === 'approval_requested') {
        if (print.json) view.show(event);
        view.enqueue(event.id, () => turn.request(event));
        continue;
      }
      if (event.type === 'error') {
        this.#error = { ...event, message: event.error };
        if (this.#isOnce && !print.json) continue;
      }
      if (event.type === 'approval_resolved') view.dismiss(event.id);
      if (event.type === 'done') {
        done = event;
        await view.finish();
      }
      view.show(event);
    }
    await view.finish();
    return done;
  }
}

/** Ctrl-C at an empty prompt ends the chat. */
function endOnInterrupt(error: unknown): undefined {
  if (!(error instanceof Interrupted)) throw error;
}
