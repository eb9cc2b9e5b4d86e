/**
 * The screen of a turn: events are shown in order, and requests are asked about one at a time. While
 * somebody thinks about one, what happens elsewhere in the run waits behind the question.
 */
import type { RunStreamEvent } from '@relay/sdk';
import type { Transcript } from '../follow.ts';
import type { Asker } from './asker.ts';
import type { Decision, Request } from './request.ts';
import { Interrupted } from './terminal.ts';

export interface StageOptions {
  readonly transcript: Pick<Transcript, 'endText' | 'show'>;
  readonly asker: Pick<Asker, 'ask'>;
  /** Brings the answer back; a sentence says why it was not taken, and asks again. */
  readonly answer: (request: Request, decision: Decision) => Promise<string | undefined>;
  readonly say: (line: string) => void;
  /** Ctrl-C at a question: the run is not wanted any more. */
  readonly interrupt: () => void;
  /** Nobody is there to answer. */
  readonly unanswered: (request: Request) => Promise<void>;
}

export class Stage {
  readonly #options: StageOptions;
  readonly #backlog: RunStreamEvent[] = [];
  readonly #open = new Map<string, AbortController>();
  #asking = 0;
  #queue: Promise<void> = Promise.resolve();
  #failure: unknown;

  constructor(options: StageOptions) {
    this.#options = options;
  }

  show(event: RunStreamEvent): void {
    if (this.#asking > 0) this.#backlog.push(event);
    else this.#options.transcript.show(event);
  }

  /** `find` says what is asked, or that it is no longer open. */
  raise(id: string, find: () => Promise<Request | undefined>): void {
    const over = new AbortController();
    this.#open.set(id, over);
    this.#asking += 1;
    this.#queue = this.#queue
      .then(() => this.#handle(over.signal, find))
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => {
        this.#open.delete(id);
        this.#asking -= 1;
        if (this.#asking > 0) return;
        for (const event of this.#backlog.splice(0)) this.#options.transcript.show(event);
      });
  }

  /** Somebody else has answered, or the run is over. */
  close(id: string): void {
    this.#open.get(id)?.abort(new Gone());
  }

  /** After the last event: nothing is left open, and nothing unsaid. */
  async finish(): Promise<void> {
    for (const over of this.#open.values()) over.abort(new Gone());
    await this.#queue;
    if (this.#failure !== undefined) throw this.#failure;
  }

  async #handle(signal: AbortSignal, find: () => Promise<Request | undefined>): Promise<void> {
    const { asker, transcript, answer, say, interrupt, unanswered } = this.#options;
    if (signal.aborted) return;
    const request = await find();
    if (request === undefined || signal.aborted) return;
    transcript.endText();
    try {
      for (;;) {
        const decision = await asker.ask(request, signal);
        if (decision === undefined) {
          await unanswered(request);
          return;
        }
        const refusal = await answer(request, decision);
        if (refusal === undefined) return;
        say(refusal);
      }
    } catch (error) {
      if (error instanceof Gone) say('  (it is no longer asked)');
      else if (error instanceof Interrupted) interrupt();
      else throw error;
    }
  }
}

class Gone extends Error {}
