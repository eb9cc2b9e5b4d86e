/** Tools that wait in memory for an answer, by relay. */
export class Answers {
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();

  /** Resolves with the answer, and also when the tool is stopped, be it before it began to wait. */
  async wait(approvalId: string, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.get(approvalId) ?? Promise.withResolvers<void>();
    this.#waiting.set(approvalId, waiting);
    const stop = () => this.arrived(approvalId);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    await waiting.promise;
    signal.removeEventListener('abort', stop);
  }

  /** It is in the journal. */
  arrived(approvalId: string): void {
    this.#waiting.get(approvalId)?.resolve();
    this.#waiting.delete(approvalId);
  }
}
