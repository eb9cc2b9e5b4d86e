/** Cancels the run of a turn. While the server cannot be reached, it tries again until the turn ends. */
import { relay } from '../environment.ts';
import { failureOf } from '../errors.ts';
import { untilAvailable } from '../until-available.ts';
import type { ChatTurn } from './client.ts';

export class Cancellation {
  readonly #turn: Pick<ChatTurn, 'cancel' | 'runId'>;
  readonly #note: (line: string) => void;
  readonly #stop = new AbortController();
  #isSent = false;

  constructor(turn: Pick<ChatTurn, 'cancel' | 'runId'>, note: (line: string) => void) {
    this.#turn = turn;
    this.#note = note;
    void this.#send();
  }

  /** For a person who leaves before the run has ended. */
  get leftText(): string {
    const { runId } = this.#turn;
    if (this.#isSent) {
      const show =
        runId === undefined ? '' : ` See what became of its calls: ${relay} runs show ${runId}`;
      return `The run is being canceled.${show}`;
    }
    const later = runId === undefined ? '' : ` Cancel it later with: ${relay} runs cancel ${runId}`;
    return `The server has not responded: the run is not canceled, and still waits or goes on.${later}`;
  }

  /** The turn has ended. */
  stop(): void {
    this.#stop.abort();
  }

  async #send(): Promise<void> {
    const { signal } = this.#stop;
    const onFailure = (reason: string) =>
      this.#note(`(${reason}; the cancellation is sent when the server accepts it)`);
    try {
      await untilAvailable(() => this.#turn.cancel(), { signal, onFailure });
    } catch (error) {
      if (signal.aborted) return;
      this.#note(`(could not cancel: ${failureOf(error).error})`);
    }
    this.#isSent = true;
  }
}
