/**
 * The output of one turn: events are shown in order, and approvals are prompted for one at a time.
 * While a prompt is open, later events wait behind it.
 */
import type { RunStreamEvent } from '@relay/sdk';
import type { Transcript } from '../output/transcript.ts';
import type { ApprovalPrompt } from './approval-prompt.ts';
import type { ApprovalRequest, ChatTurn, Decision } from './client.ts';
import { Interrupted } from './terminal.ts';

export interface TurnViewOptions {
  readonly transcript: Pick<Transcript, 'endText' | 'show'>;
  readonly prompt: Pick<ApprovalPrompt, 'ask'>;
  /** Sends the decision until the signal is aborted; returns why it was rejected, which prompts again. */
  readonly decide: ChatTurn['decide'];
  /** Who decided an approval elsewhere, what and when. */
  readonly decision: ChatTurn['decision'];
  readonly writeLine: (line: string) => void;
  /** Ctrl-C at a prompt. */
  readonly interrupt: () => void;
  /** The input has ended without a decision. */
  readonly undecided: (request: ApprovalRequest) => Promise<void>;
  /** A decision was withdrawn before the server received it. */
  readonly unsent: (request: ApprovalRequest) => void;
}

type LoadRequest = (signal: AbortSignal) => Promise<ApprovalRequest | undefined>;

export class TurnView {
  readonly #options: TurnViewOptions;
  readonly #backlog: RunStreamEvent[] = [];
  readonly #open = new Map<string, AbortController>();
  #promptCount = 0;
  #queue: Promise<void> = Promise.resolve();
  #failure: unknown;

  constructor(options: TurnViewOptions) {
    this.#options = options;
  }

  show(event: RunStreamEvent): void {
    if (this.#promptCount > 0) this.#backlog.push(event);
    else this.#options.transcript.show(event);
  }

  /** Queues a prompt. `load` returns undefined if the approval is no longer pending. */
  enqueue(id: string, load: LoadRequest): void {
    const dismissal = new AbortController();
    this.#open.set(id, dismissal);
    this.#promptCount += 1;
    this.#queue = this.#queue
      .then(() => this.#handle(dismissal.signal, load))
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => {
        this.#open.delete(id);
        this.#promptCount -= 1;
        if (this.#promptCount === 0) this.#showBacklog();
      });
  }

  #showBacklog(): void {
    for (const event of this.#backlog.splice(0)) this.#options.transcript.show(event);
  }

  /** The approval has been decided elsewhere, or is over. */
  dismiss(id: string, status: string): void {
    this.#open.get(id)?.abort(new Dismissed(status));
  }

  /** The run is to be canceled: a decision that the server has not received is no longer sent. */
  withdraw(): void {
    for (const dismissal of this.#open.values()) dismissal.abort(new Withdrawn());
  }

  /** Dismisses open prompts and shows the remaining events. */
  async finish(): Promise<void> {
    for (const dismissal of this.#open.values())
      dismissal.abort(new Dismissed('no longer pending'));
    await this.#queue;
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #handle(signal: AbortSignal, load: LoadRequest): Promise<void> {
    const { prompt, transcript, decide, decision, writeLine, interrupt, undecided, unsent } =
      this.#options;
    if (signal.aborted) return;
    let current = await unlessAborted(signal, load(signal));
    if (current === undefined || signal.aborted) return;
    // Such as what came of the decision before this one.
    this.#showBacklog();
    transcript.endText();
    const { id } = current;
    try {
      for (let rejected: Decision | undefined; current !== undefined;) {
        const request = current;
        const given = await prompt.ask(request, signal, rejected);
        if (given === undefined) {
          await undecided(request);
          return;
        }
        const rejection = await decide(request, given, signal).catch((error: unknown) => {
          if (!signal.aborted) throw error;
          // Otherwise it was decided, which may have been by a request that failed.
          if (signal.reason instanceof Withdrawn) unsent(request);
        });
        if (rejection === undefined) return;
        writeLine(rejection);
        rejected = given;
        // Another approver may have changed or decided it.
        current = await unlessAborted(signal, load(signal));
        signal.throwIfAborted();
        if (current === undefined) throw new Dismissed('no longer pending');
      }
    } catch (error) {
      if (error instanceof Dismissed) {
        const text = await decision(id).catch(() => undefined);
        writeLine(`  (${text ?? error.message})`);
      } else if (error instanceof Interrupted) interrupt();
      else if (!(error instanceof Withdrawn)) throw error;
    }
  }
}

class Dismissed extends Error {}
class Withdrawn extends Error {}

/** Undefined if it fails after the approval was decided. */
async function unlessAborted<Value>(
  signal: AbortSignal,
  value: Promise<Value>,
): Promise<Value | undefined> {
  try {
    return await value;
  } catch (error) {
    if (!signal.aborted) throw error;
    return undefined;
  }
}
