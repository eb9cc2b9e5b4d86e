/** The chat loop: reads a message, shows its turn, and repeats until the user leaves. */
import type { RunResult, RunStreamEvent } from '@relay/sdk';
import type { History } from './durable-client.ts';
import { CliError, exitCodes, failureOf, isApiError } from '../errors.ts';
import { timeoutError } from '../deadline.ts';
import { answerCommand, waitsText } from '../output/decision-text.ts';
import { formatDuration, inputText } from '../output/run-events.ts';
import { runError, Transcript } from '../output/transcript.ts';
import type { Print } from '../output/print.ts';
import type { StatusLine } from '../output/status-line.ts';
import { escapeLine, escapeUnsafe } from '../output/escape.ts';
import { ApprovalPrompt } from './approval-prompt.ts';
import type { AttachedMessage } from './attachments.ts';
import { sizeText } from './attachments.ts';
import {
  type ApprovalRequest,
  type ChatClient,
  type ChatTurn,
  type Decision,
  type MessageContent,
  Unsent,
} from './client.ts';
import type { OpenEditor } from './editor.ts';
import type { SlashCommands } from './slash-commands.ts';
import { Cancellation } from './cancellation.ts';
import { TurnView } from './turn-view.ts';
import { Interrupted, type Terminal } from './terminal.ts';
import { answerText } from './usage-text.ts';
import { relay } from '../environment.ts';
import { shortId } from '../output/short-id.ts';
import { needsKey } from '../connection.ts';

export interface ConversationOptions {
  readonly print: Print;
  readonly terminal: Terminal;
  readonly client: ChatClient;
  readonly status: StatusLine;
  readonly openEditor: OpenEditor | undefined;
  /** For everything but the answer: tool calls, prompts, notes. */
  readonly writeLine: (line: string) => void;
  /** Adds the files that a message names. */
  readonly attach: (message: string, pasted: readonly string[]) => AttachedMessage;
  /** What to do with approvals; `wait` leaves them to others and ends the command. */
  readonly approvals: 'ask' | 'wait' | 'deny';
  /** Whether to wait for another approver when the input has ended; else the run is left waiting. */
  readonly waitsForOthers: boolean;
  /** How long to wait for an answer, in seconds. */
  readonly timeout: number | undefined;
}

/** Aborting `left` leaves the turn. */
type Begin = (left: AbortController, withdrawn: AbortSignal) => Promise<ChatTurn>;
type Done = Extract<RunStreamEvent, { type: 'done' }>;

/** An approval is open, and there is no user to decide it. */
class LeftWaiting extends CliError {
  readonly request: ApprovalRequest;

  constructor(request: ApprovalRequest, runId: string | undefined) {
    const { kind, id, tool } = request;
    const decide =
      `decide with "${answerCommand(kind, id)}", then "${relay} runs tail ${runId}", which shows what ` +
      'else waits';
    const useKey = `only the chat itself can decide without a key, so it ends: ${needsKey}`;
    super('approval_pending', `${tool} ${waitsText[kind]}`, {
      exit: exitCodes.waiting,
      hint: runId === undefined ? useKey : decide,
    });
    this.request = request;
  }
}

export class Conversation {
  readonly #options: ConversationOptions;
  #wasInterrupted = false;
  #transcript: Transcript | undefined;
  /** Of the current turn. */
  #view: TurnView | undefined;
  #error: RunResult['error'];
  /** What goes on, while the server can be reached. */
  #activity = '';
  /** With a single message, an error ends the command, which prints it. */
  #isOnce = false;

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** Turns until the input ends. `commands` are those of an interactive chat. */
  async run(commands: SlashCommands | undefined): Promise<void> {
    const { terminal, print } = this.#options;
    const prompt = terminal.isInteractive ? `${print.paint('bold', 'you')} › ` : '';
    const complete = (line: string) => commands?.complete(line) ?? [[], line];
    for (;;) {
      const message = await terminal.ask({ prompt, complete }).catch(endOnInterrupt);
      if (message === undefined || /^(\/?quit|\/?exit)$/i.test(message.trim())) return;
      if (message.trim() === '') continue;
      try {
        if (commands?.matches(message) === true) await commands.run(message);
        else if (!(await this.#answer(message))) return;
      } catch (error) {
        // A script ends with the error; a user can send another message.
        const canGoOn = isApiError(error) || error instanceof CliError;
        if (error instanceof Interrupted) continue;
        if (!terminal.isInteractive || !canGoOn) throw error;
        this.#fail(error);
      }
    }
  }

  /** One message and its answer; throws if the run fails, is canceled, or waits for an approval. */
  async runOnce(content: MessageContent): Promise<void> {
    this.#isOnce = true;
    const done = await this.runTurn((left) => this.#options.client.send(content, left));
    if (done === undefined || done.status === 'completed') return;
    if (done.status === 'canceled' && this.#wasInterrupted) {
      throw new CliError('interrupted', 'The run was canceled', { exit: exitCodes.interrupted });
    }
    throw runError(done.status, this.#error);
  }

  /** Shows a note during a turn, on a line of its own. `isConnected`: it is about the connection. */
  note(line: string, isConnected?: boolean): void {
    const { terminal, status, writeLine } = this.#options;
    status.hide();
    if (isConnected !== undefined) {
      status.rename(isConnected ? this.#activity : 'waiting for the server');
    }
    this.#transcript?.breakLine();
    terminal.writeAbove(() => writeLine(escapeLine(line)));
  }

  showHistory({ runs, earlier }: History): void {
    const { writeLine, print, terminal } = this.#options;
    if (earlier > 0) {
      const messages = earlier === 1 ? '1 earlier message is' : `${earlier} earlier messages are`;
      writeLine(print.paint('dim', `(${messages} part of the conversation, but not shown)`));
    }
    for (const run of runs) {
      const { id, output = '', status } = run;
      const text = inputText(run);
      if (text !== '') writeLine(`${print.paint('bold', 'you')} › ${escapeUnsafe(text)}`);
      if (output === '') {
        if (status === 'canceled' || status === 'failed') {
          writeLine(`(${status}; "${relay} runs show ${shortId(id)}" shows its calls)`);
        }
        continue;
      }
      if (!print.isStyled || print.json) {
        writeLine(escapeUnsafe(output));
        continue;
      }
      const transcript = new Transcript(print);
      transcript.text(output);
      transcript.endText();
      if (terminal.isInteractive) writeLine('');
    }
  }

  /** Shows the attached files. */
  showFiles(files: AttachedMessage['files']): void {
    const { writeLine, print } = this.#options;
    for (const { path, bytes } of files) {
      writeLine(print.paint('dim', `+ ${escapeUnsafe(path)} (${sizeText(bytes)})`));
    }
  }

  /** Starts a turn and shows it to its end. */
  async runTurn(begin: Begin): Promise<Done | undefined> {
    const { print, terminal, writeLine, status, timeout } = this.#options;
    const transcript = new Transcript(print, { writeLine });
    this.#transcript = transcript;
    let interrupts = 0;
    let turn: ChatTurn | undefined;
    let cancellation: Cancellation | undefined;
    const left = new AbortController();
    const withdrawal = new AbortController();
    // From the start: a server may not even accept the message.
    const deadline =
      timeout === undefined
        ? undefined
        : setTimeout(() => left.abort(timeoutError(timeout, turn?.runId)), timeout * 1_000);
    const interrupt = () => {
      interrupts += 1;
      this.#wasInterrupted = true;
      if (interrupts > 1) {
        status.clear();
        if (cancellation !== undefined) writeLine(cancellation.leftText);
        process.exit(exitCodes.interrupted);
      }
      const tool = turn === undefined ? '' : 'a running tool has some seconds to finish; ';
      this.note(`(canceling; ${tool}press Ctrl-C again to exit now)`);
      withdrawal.abort();
      this.#view?.withdraw();
      if (turn !== undefined) cancellation = new Cancellation(turn, (line) => this.note(line));
    };
    terminal.onInterrupt = interrupt;
    this.#showActivity('thinking');
    try {
      turn = await begin(left, withdrawal.signal);
      if (interrupts > 0) cancellation = new Cancellation(turn, (line) => this.note(line));
      return await this.#follow(turn, left, interrupt, transcript);
    } catch (error) {
      if (!(error instanceof Unsent)) throw error;
      this.note(error.message);
      return undefined;
    } finally {
      clearTimeout(deadline);
      cancellation?.stop();
      this.#view = undefined;
      status.clear();
      transcript.endText();
      terminal.onInterrupt = () => {};
    }
  }

  /**
   * The same in a conversation. False: a person has left it, and the run waits for an approval; a script
   * fails.
   */
  async showTurn(begin: Begin): Promise<boolean> {
    const { terminal, print, writeLine } = this.#options;
    try {
      const done = await this.runTurn(begin);
      if (done?.status === 'canceled') writeLine('(canceled)');
      if (terminal.isInteractive) writeLine('');
      return true;
    } catch (error) {
      if (!(error instanceof LeftWaiting) || !terminal.isInteractive) throw error;
      const { kind, id } = error.request;
      writeLine(print.paint('dim', `${error.message}. Decide it later, here or with:`));
      writeLine(print.paint('dim', `  ${answerCommand(kind, id)}`));
      return false;
    }
  }

  /** False: the user has left the chat. */
  async #answer(message: string): Promise<boolean> {
    const { terminal, client, attach } = this.#options;
    const { content, files } = terminal.isInteractive
      ? attach(message, terminal.pasted)
      : { content: message, files: [] };
    this.showFiles(files);
    return this.showTurn((left, withdrawn) =>
      client.send(content, left, terminal.isInteractive ? withdrawn : undefined),
    );
  }

  #fail(error: unknown): void {
    const { writeLine, print } = this.#options;
    const { error: message, code, hint } = failureOf(error);
    const more = hint === undefined ? '' : ` – ${hint}`;
    writeLine(print.paint('red', `✗ ${escapeUnsafe(`${message} [${code}]${more}`)}`));
  }

  async #follow(
    turn: ChatTurn,
    left: AbortController,
    interrupt: () => void,
    transcript: Transcript,
  ): Promise<Done | undefined> {
    const { print, terminal, writeLine } = this.#options;
    const startedAt = performance.now();
    let askedMs = 0;
    /** The run waits for a decision that cannot be made: without this, the command would wait as well. */
    const orLeave = async <Value>(signal: AbortSignal, work: Promise<Value>): Promise<Value> => {
      try {
        return await work;
      } catch (error) {
        if (!signal.aborted) left.abort(error);
        throw error;
      }
    };
    const view = new TurnView({
      transcript: {
        endText: () => {
          this.#options.status.clear();
          if (!print.json) transcript.endText();
        },
        show: (event) => {
          if (print.json) print.value(event);
          else this.#show(event, transcript);
        },
      },
      prompt: {
        ask: async (request, signal, rejected) => {
          const askedAt = performance.now();
          try {
            return await this.#decision(request, signal, rejected);
          } finally {
            askedMs += performance.now() - askedAt;
          }
        },
      },
      decide: (request, decision, signal) =>
        orLeave(signal, turn.decide(request, decision, signal)),
      decision: (id) => turn.decision(id),
      writeLine,
      interrupt,
      undecided: async (request) => {
        const { runId } = turn;
        const { waitsForOthers } = this.#options;
        const isForLater = (terminal.isInteractive || !waitsForOthers) && runId !== undefined;
        if (isForLater || this.#options.approvals !== 'ask') {
          left.abort(new LeftWaiting(request, runId));
        } else await turn.onUndecided(request);
      },
      unsent: ({ tool }) => {
        this.note(`(your decision on ${tool} was not sent and is withdrawn)`);
      },
    });
    this.#view = view;
    let done: Done | undefined;
    try {
      for await (const event of turn) {
        if (event.type === 'approval_requested') {
          transcript.remember(event);
          if (print.json) view.show(event);
          view.enqueue(event.id, (signal) => orLeave(signal, turn.request(event, signal)));
          continue;
        }
        if (event.type === 'error') {
          this.#error = { ...event, message: event.error };
          if (this.#isOnce && !print.json) continue;
        }
        if (event.type === 'approval_resolved') view.dismiss(event.id, event.status);
        if (event.type === 'done') {
          done = event;
          await view.finish();
        }
        view.show(event);
      }
      await view.finish();
    } catch (error) {
      // A prompt that is still open closes with the turn.
      await view.finish().catch(() => undefined);
      throw error;
    }
    if (done !== undefined)
      await this.#showUsage(turn, done, performance.now() - startedAt - askedMs);
    return done;
  }

  #show(event: RunStreamEvent, transcript: Transcript): void {
    const { status } = this.#options;
    status.hide();
    transcript.show(event);
    const activity = transcript.isInLine ? undefined : activityAfter(event, transcript);
    if (activity === undefined) status.clear();
    else this.#showActivity(activity);
  }

  #showActivity(activity: string): void {
    this.#activity = activity;
    this.#options.status.show(activity);
  }

  async #decision(
    request: ApprovalRequest,
    signal: AbortSignal,
    rejected: Decision | undefined,
  ): Promise<Decision | undefined> {
    const { terminal, print, writeLine, openEditor, approvals } = this.#options;
    if (approvals === 'ask') {
      const prompt = new ApprovalPrompt({ terminal, paint: print.paint, writeLine, openEditor });
      return prompt.ask(request, signal, rejected);
    }
    // Whether a call has taken effect is not for a script to say.
    if (approvals === 'wait' || request.kind === 'outcome') return undefined;
    writeLine(`· ${escapeUnsafe(request.tool)} is denied (--deny)`);
    return { approved: false, reason: 'No person is present to approve it' };
  }

  /** On a terminal only. */
  async #showUsage(turn: ChatTurn, { usage, status }: Done, ms: number): Promise<void> {
    const { print, writeLine } = this.#options;
    if (!print.isStyled || print.json || status !== 'completed') return;
    const cost = await turn.cost().catch(() => undefined);
    writeLine(print.paint('dim', answerText(usage, cost, turn.isJoined ? undefined : ms)));
  }
}

/** Ctrl-C at an empty prompt ends the chat. */
function endOnInterrupt(error: unknown): undefined {
  if (!(error instanceof Interrupted)) throw error;
}

/** What goes on after an event, until the next one. */
function activityAfter(event: RunStreamEvent, transcript: Transcript): string | undefined {
  if (event.type === 'done' || event.type === 'error') return undefined;
  if (event.type === 'reset' && event.retry !== undefined) {
    const { code = 'provider_failed', delayMs } = event.retry;
    return `the provider failed (${code}); trying again in ${formatDuration(delayMs)}`;
  }
  if (event.type === 'tool_call') return `running ${event.name}`;
  const isApproved = event.type === 'approval_resolved' && event.status === 'approved';
  const tool = isApproved ? transcript.requestedTool(event.id) : undefined;
  return tool === undefined ? 'thinking' : `running ${tool}`;
}
