/**
 * Runs the client's function tools for a run.
 *
 * A call goes `received → claimed → running → posted`, each at most once in this process. It stops as
 * soon as it is *settled*: its result or the end of the run was received, or the server no longer knows
 * the call. While another client holds the claim, it is requested again, since that client may die. A
 * function whose signal was aborted may still return a result, which is posted because its side effects
 * have happened. If it throws instead, the call is left to other clients.
 *
 * A call that another client had claimed may have taken effect: it is run again only if its tool is
 * idempotent. Otherwise it fails.
 */
import { defined, type ToolClaim, type ToolResultBody } from '@relay/protocol/wire';
import { RelayApiError } from '../errors.ts';
import { type Http, messageOf, pathOf, uuid } from '../http.ts';
import { anyOf, backoff, sleep } from '../timing.ts';
import type { RunStreamEvent, Watcher } from '../streaming/run-handle.ts';
import { clientContext, type ClientTool, parseInput } from './tool.ts';

type ToolCall = Extract<RunStreamEvent, { type: 'tool_call' }>;

interface Job {
  readonly call: ToolCall;
  readonly tool: ClientTool;
  readonly stop: AbortController;
  /** Aborted by `stop`, or by the signal of the reader. */
  readonly signal: AbortSignal;
  readonly path: string;
  /** The same in each request: a claim whose response was lost is repeated. */
  readonly claimId: string;
  /** Another client may have run the call. */
  claimedBefore: boolean;
  settled: boolean;
}

export interface ToolWorkerOptions {
  readonly http: Http;
  readonly runId: string;
  readonly tools: readonly ClientTool[];
  readonly signal?: AbortSignal | undefined;
  /** The calls that this process handles, shared by all handles of a client. */
  readonly activeCalls: Set<string>;
}

/** A claim expires after 30 seconds. */
const renewMs = 10_000;
const claimRetryMs = 3_000;
/** How often a result is posted after the reader has stopped. */
const maxDetachedAttempts = 4;

export class ToolWorker implements Watcher {
  readonly #options: ToolWorkerOptions;
  readonly #tools: ReadonlyMap<string, ClientTool>;
  readonly #jobs = new Map<string, Job>();

  constructor(options: ToolWorkerOptions) {
    this.#options = options;
    this.#tools = new Map(options.tools.map((tool) => [tool.name, tool]));
  }

  onEvent(event: RunStreamEvent): void {
    if (event.type === 'tool_call') this.#start(event);
    else if (event.type === 'tool_result') this.#settle(this.#jobs.get(event.id));
    else if (event.type === 'done') for (const job of this.#jobs.values()) this.#settle(job);
  }

  #start(call: ToolCall): void {
    const tool = this.#tools.get(call.name);
    const { runId, activeCalls } = this.#options;
    const key = `${runId}:${call.id}`;
    if (tool === undefined || activeCalls.has(key)) return;
    activeCalls.add(key);
    const path = pathOf`/v1/runs/${runId}/tool-results/${call.id}`;
    const stop = new AbortController();
    const signal = anyOf(stop.signal, this.#options.signal);
    const fresh = { claimId: uuid(), claimedBefore: false, settled: false };
    const job: Job = { call, tool, path, stop, signal, ...fresh };
    this.#jobs.set(call.id, job);
    void this.#work(job, key).finally(() => this.#jobs.delete(call.id));
  }

  #settle(job: Job | undefined): void {
    if (job === undefined) return;
    job.settled = true;
    job.stop.abort(new Error('The result of this call is no longer needed'));
  }

  /** Must not throw. */
  async #work(job: Job, key: string): Promise<void> {
    // The same chunk may already contain the result, as in a replay.
    await sleep(0);
    if (job.settled || !(await this.#claim(job))) {
      this.#options.activeCalls.delete(key);
      return;
    }
    const renewing = setInterval(() => void this.#renew(job), renewMs);
    const result = await this.#run(job);
    clearInterval(renewing);
    const isLeftToOthers = result.isError === true && job.signal.aborted;
    if (!job.settled && !isLeftToOthers) await this.#post(job, result);
    // The server refuses to claim a settled call; an unsettled one must not run here again.
    if (job.settled) this.#options.activeCalls.delete(key);
  }

  async #claim(job: Job): Promise<boolean> {
    for (let attempt = 0; !job.signal.aborted; attempt += 1) {
      const outcome = await this.#request(job, '/claim', { claimId: job.claimId });
      if (outcome === 'ok') return true;
      if (outcome === 'settled') job.settled = true;
      if (outcome === 'settled' || outcome === 'refused') return false;
      const ms = outcome === 'conflict' ? claimRetryMs * (1 + Math.random()) : backoff(attempt);
      await sleep(ms, job.signal).catch(() => undefined);
    }
    return false;
  }

  async #renew(job: Job): Promise<void> {
    const outcome = await this.#request(job, '/claim', { claimId: job.claimId });
    if (outcome === 'settled') this.#settle(job);
    if (outcome === 'conflict') job.stop.abort(new Error('Another client has claimed this call'));
  }

  async #run({ tool, call, signal, claimedBefore }: Job): Promise<ToolResultBody> {
    const { runId } = this.#options;
    const idempotencyKey = `${runId}:${call.id}`;
    if (claimedBefore && !tool.idempotent) return { output: outcomeUnknown, isError: true };
    const given = clientContext({ signal, runId, toolCallId: call.id, idempotencyKey });
    try {
      const output = await tool.execute(parseInput(tool, call.input), given);
      const { context, result = null, attachments } = output;
      // A result that is not JSON is an error of the function.
      if (JSON.stringify(result) === undefined) throw new TypeError('The result is not JSON');
      if (context !== undefined && typeof context !== 'string') {
        throw new TypeError('The context of a tool’s output must be text');
      }
      if (attachments !== undefined && attachments.length > 0) {
        throw new TypeError('A client cannot post attachments: run this tool in the server');
      }
      return { output: result, ...defined({ context }) };
    } catch (error) {
      return { output: messageOf(error), isError: true };
    }
  }

  /** Posts the result until the server accepts or refuses it. */
  async #post(job: Job, posted: ToolResultBody): Promise<void> {
    let result = posted;
    let left = maxDetachedAttempts;
    const until = Date.parse(job.call.resultBy ?? '') || Date.now() + 10 * 60_000;
    for (let attempt = 0; Date.now() < until + 60_000 && left > 0; attempt += 1) {
      const outcome = await this.#request(job, '', result);
      if (outcome === 'too_large') {
        result = { output: 'The result is too large to post', isError: true };
        continue;
      }
      if (outcome !== 'retry') {
        job.settled = outcome !== 'refused';
        return;
      }
      if (this.#options.signal?.aborted === true) left -= 1;
      await sleep(backoff(attempt));
      if (job.settled) return;
    }
  }

  async #request(job: Job, step: string, body: object): Promise<Outcome> {
    try {
      const path = `${job.path}${step}`;
      const options = { body, maxRetries: 0 };
      const claim = await this.#options.http.json<Partial<ToolClaim>>('POST', path, options);
      if (claim.claimedBefore === true) job.claimedBefore = true;
      return 'ok';
    } catch (error) {
      return error instanceof RelayApiError ? outcomeOf(error) : 'refused';
    }
  }
}

const outcomeUnknown =
  'The outcome is unknown: another client started this call and may have completed it. It was not run again.';

type Outcome = 'ok' | 'settled' | 'conflict' | 'too_large' | 'retry' | 'refused';

function outcomeOf({ status, retryable }: RelayApiError): Outcome {
  if (status === 404) return 'settled';
  if (status === 409) return 'conflict';
  if (status === 413) return 'too_large';
  return retryable ? 'retry' : 'refused';
}
