/**
 * Whose call a question of an MCP server belongs to. All runs of a node share one connection, and a
 * question that went to the wrong one would show a tenant what is another's. The answer finds its way
 * back in any case.
 *
 * - A server of the present protocol asks in its answer to the call: nothing is in doubt.
 * - One of before may ask in the stream of that answer. What reads it runs in the call's own
 *   asynchronous context.
 * - Else nothing says so. The calls that were under way when the question came are its candidates.
 *   If all are of one run, it is shown there. If not, it waits: a call that has asked does not end
 *   before it is answered, so that once the server has answered all others, the last one has asked.
 *   If one is given up meanwhile, or it takes too long, nobody is asked.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

export interface Asker {
  readonly runId: string;
  /** How many of its questions nobody has answered yet. */
  readonly open: number;
}

interface Doubt<Call> {
  readonly candidates: Set<Call>;
  readonly settle: (call: Call | undefined) => void;
}

const patienceMs = 30_000;

export class CallsInFlight<Call extends Asker> {
  readonly #current = new AsyncLocalStorage<Call | undefined>();
  readonly #calls = new Set<Call>();
  readonly #doubts = new Set<Doubt<Call>>();

  /** The call that the present code runs for. */
  get current(): Call | undefined {
    const call = this.#current.getStore();
    return call !== undefined && this.#calls.has(call) ? call : undefined;
  }

  async run<Value>(call: Call, work: () => Promise<Value>): Promise<Value> {
    this.#calls.add(call);
    let answered = false;
    try {
      const value = await this.#current.run(call, work);
      answered = true;
      return value;
    } finally {
      this.#calls.delete(call);
      this.#ended(call, answered);
    }
  }

  /** What lives longer than a call is not of any. */
  outside<Value>(work: () => Value): Value {
    return this.#current.run(undefined, work);
  }

  /** Undefined if that cannot be told. */
  async whose(signal: AbortSignal): Promise<Call | undefined> {
    const { current } = this;
    if (current !== undefined) return current;
    const candidates = new Set(this.#calls);
    const [first, ...others] = candidates;
    if (others.every(({ runId }) => runId === first?.runId)) {
      return [...candidates].find(({ open }) => open === 0) ?? first;
    }
    const { promise, resolve } = Promise.withResolvers<Call | undefined>();
    const doubt = { candidates, settle: resolve };
    const giveUp = () => resolve(undefined);
    const timer = setTimeout(giveUp, patienceMs);
    signal.addEventListener('abort', giveUp);
    this.#doubts.add(doubt);
    try {
      return await promise;
    } finally {
      this.#doubts.delete(doubt);
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
    }
  }

  #ended(call: Call, answered: boolean): void {
    for (const { candidates, settle } of this.#doubts) {
      if (!candidates.delete(call)) continue;
      const [last, ...others] = candidates;
      if (!answered) settle(undefined);
      else if (others.length === 0) settle(last);
    }
  }
}
