/** Tools that wait in memory for an answer, by relay. */
export class Answers {
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();

  wait(relayId: string): Promise<void> {
    const waiting = this.#waiting.get(relayId) ?? Promise.withResolvers<void>();
    this.#waiting.set(relayId, waiting);
    waiting.promise.catch(() => undefined);
    return waiting.promise;
  }

  /** It is in the journal. */
  arrived(relayId: string): void {
    this.#waiting.get(relayId)?.resolve();
    this.#waiting.delete(relayId);
  }

  rejectAll(error: Error): void {
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }
}
