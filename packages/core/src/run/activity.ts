import type { Tool } from '../ports/index.ts';

/** A running model call or tool of an agent. It can be stopped, but may ignore its signal. */
export class Activity {
  readonly agentId: string;
  readonly startedAt: number;
  /** Undefined for a model call. */
  readonly tool: Pick<Tool, 'name' | 'idempotent'> | undefined;
  readonly #controller = new AbortController();
  #stopWaiting: (() => void) | undefined;

  constructor(agentId: string, startedAt = 0, tool?: Activity['tool']) {
    this.agentId = agentId;
    this.startedAt = startedAt;
    this.tool = tool;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get stopped(): boolean {
    return this.#controller.signal.aborted;
  }

  stop(reason: Error): void {
    this.#controller.abort(reason);
    this.#stopWaiting?.();
  }

  /** The value of the promise, or undefined as soon as the activity is stopped. */
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
