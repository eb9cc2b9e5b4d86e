/**
 * Attributes the questions of an MCP server to calls. All runs of a node share one connection, and a
 * question that is shown in the wrong run would disclose data of one tenant to another.
 *
 * - A server of the current protocol asks in its response to the call, which is unambiguous.
 * - An older server may ask in the response stream of the call. That stream is read in the call's own
 *   asynchronous context, which identifies the call.
 * - Otherwise the candidates are the calls that were active when the question came. If all are of one
 *   run, it is shown there. If not, it waits: a call that has asked does not end before it is answered,
 *   so once the server has responded to all other calls, the last one has asked. If a candidate is
 *   abandoned meanwhile, or it takes too long, the question is canceled.
 * - An abandoned call may continue at the server, and ask as long as the connection lasts. Until there
 *   is a new connection, a question is shown only in a run that all abandoned calls belong to.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

export interface PendingCall {
  readonly runId: string;
  readonly openQuestions: number;
  /** Aborted when the call is abandoned. */
  readonly signal: AbortSignal;
}

interface UnattributedQuestion<Call> {
  readonly candidates: Set<Call>;
  readonly settle: (call: Call | undefined) => void;
}

const timeoutMs = 30_000;

export class CallsInFlight<Call extends PendingCall> {
  readonly #current = new AsyncLocalStorage<Call | undefined>();
  readonly #calls = new Set<Call>();
  readonly #unattributed = new Set<UnattributedQuestion<Call>>();
  /** Runs of calls that the server may still execute; two are enough to refuse every question. */
  readonly #abandonedRuns = new Set<string>();
  #hasAskedOutsideCall = false;

  /** No call is active, and questions can be attributed again only on a new connection. */
  get needsNewConnection(): boolean {
    return this.#hasAskedOutsideCall && this.#abandonedRuns.size > 0 && this.#calls.size === 0;
  }

  /** The call whose asynchronous context this is. */
  get current(): Call | undefined {
    const call = this.#current.getStore();
    return call !== undefined && this.#calls.has(call) ? call : undefined;
  }

  async run<Value>(call: Call, work: () => Promise<Value>): Promise<Value> {
    this.#calls.add(call);
    let responded = false;
    try {
      const value = await this.#current.run(call, work);
      responded = true;
      return value;
    } catch (error) {
      // An error is a response too.
      responded = !call.signal.aborted;
      throw error;
    } finally {
      this.#calls.delete(call);
      if (!responded && this.#abandonedRuns.size < 2) this.#abandonedRuns.add(call.runId);
      this.#settle(call, responded);
    }
  }

  /** For work that outlives the call that causes it. */
  outside<Value>(work: () => Value): Value {
    return this.#current.run(undefined, work);
  }

  /** The call that a question belongs to; undefined if that is unknown. */
  async callOfQuestion(signal: AbortSignal): Promise<Call | undefined> {
    const { current } = this;
    if (current !== undefined) return current;
    this.#hasAskedOutsideCall = true;
    const candidates = new Set(this.#calls);
    const [first, ...others] = candidates;
    if (others.every(({ runId }) => runId === first?.runId)) {
      return this.#unlessAbandoned(
        [...candidates].find(({ openQuestions }) => openQuestions === 0) ?? first,
      );
    }
    const { promise, resolve } = Promise.withResolvers<Call | undefined>();
    const question = { candidates, settle: resolve };
    const giveUp = () => resolve(undefined);
    const timer = setTimeout(giveUp, timeoutMs);
    signal.addEventListener('abort', giveUp);
    this.#unattributed.add(question);
    try {
      return this.#unlessAbandoned(await promise);
    } finally {
      this.#unattributed.delete(question);
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
    }
  }

  /** Undefined if an abandoned call of another run may have asked. */
  #unlessAbandoned(call: Call | undefined): Call | undefined {
    return [...this.#abandonedRuns].every((runId) => runId === call?.runId) ? call : undefined;
  }

  #settle(call: Call, responded: boolean): void {
    for (const { candidates, settle } of this.#unattributed) {
      if (!candidates.delete(call)) continue;
      const [last, ...others] = candidates;
      if (!responded) settle(undefined);
      else if (others.length === 0) settle(last);
    }
  }
}
