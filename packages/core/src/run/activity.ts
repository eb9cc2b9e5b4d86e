/** Something that goes on for an agent: a model call or a tool. It can be stopped, and may not listen. */
export class Activity {
  readonly agentId: string;
  readonly since: number;
  readonly #controller = new AbortController();
  #stopWaiting: (() => void) | undefined;

  constructor(agentId: string, since = 0) {
    this.agentId = agentId;
    this.since = since;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get stopped(): boolean {
    return this.#controller.signal.aborted;
  }

  stop(reason: unknown): void {
    this.#controller.abort(reason);
    this.#stopWaiting?.();
  }

  /** The next thing it brings, or undefined as soon as it is stopped. */
  unlessStopped<Value>(next: Promise<Value>): Promise<Value | undefined> {
    if (this.stopped) {
      next.catch(() => undefined);
      return Promise.resolve(undefined);
    }
    return new Promise((resolve, reject) => {
      this.#stopWaiting = () => resolve(undefined);
      next.then(resolve, reject);
    });
  }
}
