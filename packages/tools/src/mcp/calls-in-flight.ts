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
 * - A call that we have given up may go on at the server, and ask for as long as the connection lasts.
 *   So only runs are asked then to which all such calls belong, until the connection is a new one.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

export interface Asker {
  readonly runId: string;
  /** How many of its questions nobody has answered yet. */
  readonly open: number;
  /** Aborted when nobody waits for the server's answer any more. */
  readonly signal: AbortSignal;
}

interface Doubt<Call> {
  readonly candidates: Set<Call>;
  readonly settle: (call: Call | undefined) => void;
}

const deliveryTimeoutMs = 30_000;

export class CallsInFlight<Call extends Asker> {
  readonly #current = new AsyncLocalStorage<Call | undefined>();
  readonly #calls = new Set<Call>();
  readonly #doubts = new Set<Doubt<Call>>();
  /** Runs of calls that the server may still be at. Of more than two the others need not be known. */
  readonly #givenUp = new Set<string>();
  #hasAskedBeside = false;

  /** Nothing is under way, and only a new connection lets everybody be asked again. */
  get isSpent(): boolean {
    return this.#hasAskedBeside && this.#givenUp.size > 0 && this.#calls.size === 0;
  }

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
    } catch (error) {
      // An error is an answer too.
      answered = !call.signal.aborted;
      throw error;
    } finally {
      this.#calls.delete(call);
      if (!answered && this.#givenUp.size < 2) this.#givenUp.add(call.runId);
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
    this.#hasAskedBeside = true;
    const candidates = new Set(this.#calls);
    const [first, ...others] = candidates;
    if (others.every(({ runId }) => runId === first?.runId)) {
      return this.#unlessGivenUp([...candidates].find(({ open }) => open === 0) ?? first);
    }
    const { promise, resolve } = Promise.withResolvers<Call | undefined>();
    const doubt = { candidates, settle: resolve };
    const giveUp = () => resolve(undefined);
    const timer = setTimeout(giveUp, deliveryTimeoutMs);
    signal.addEventListener('abort', giveUp);
    this.#doubts.add(doubt);
    try {
      return this.#unlessGivenUp(await promise);
    } finally {
      this.#doubts.delete(doubt);
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
    }
  }

  /** Undefined if a call of another run may have asked, to which nobody listens any more. */
  #unlessGivenUp(call: Call | undefined): Call | undefined {
    return [...this.#givenUp].every((runId) => runId === call?.runId) ? call : undefined;
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
