/** Tools that wait in memory for an answer, by relay. */
export class Answers {
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();

  /** Resolves with the answer, and also when the tool is stopped, be it before it began to wait. */
  async wait(relayId: string, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.get(relayId) ?? Promise.withResolvers<void>();
    this.#waiting.set(relayId, waiting);
    const stop = () => this.arrived(relayId);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    await waiting.promise;
    signal.removeEventListener('abort', stop);
  }

  /** It is in the journal. */
  arrived(relayId: string): void {
    this.#waiting.get(relayId)?.resolve();
    this.#waiting.delete(relayId);
  }
}
