/**
 * Runs the client's own functions for a run.
 *
 * A call goes `heard → claimed → running → posted`, each at most once in this process. It leaves that
 * way as soon as it is *settled*: its result or the run's end was heard, or the server says that
 * nothing is wanted any more. A claim that another client has is asked for again until then, since
 * that client may die. A function whose signal was aborted may still bring a result, which is posted:
 * what has happened has happened. If it throws instead, the call is left to others.
 */
import type { ToolClaim, ToolResultBody } from '@relay/protocol/wire';
import { RelayApiError } from './errors.ts';
import { at, type Http, messageOf } from './http.ts';
import { anyOf, backoff, pause } from './pause.ts';
import type { RunStreamEvent, Watcher } from './run-handle.ts';
import type { ClientTool } from './tool.ts';
import { uuid } from './uuid.ts';

type ToolCall = Extract<RunStreamEvent, { type: 'tool_call' }>;

interface Job {
  readonly call: ToolCall;
  readonly tool: ClientTool;
  readonly stop: AbortController;
  /** Aborted by `stop`, or by whoever follows the run. */
  readonly signal: AbortSignal;
  readonly path: string;
  readonly claimId: string;
  settled: boolean;
}

export interface ToolWorkerOptions {
  readonly http: Http;
  readonly runId: string;
  readonly tools: readonly ClientTool[];
  readonly signal?: AbortSignal | undefined;
  /** The calls that this process has taken on, whichever handle heard of them. */
  readonly taken: Set<string>;
}

/** A claim holds for 30 seconds. */
const renewMs = 10_000;
const askAgainMs = 3_000;
/** How often a result is brought once nobody follows the run any more. */
const lastAttempts = 4;

export class ToolWorker implements Watcher {
  readonly #options: ToolWorkerOptions;
  readonly #tools: ReadonlyMap<string, ClientTool>;
  readonly #jobs = new Map<string, Job>();

  constructor(options: ToolWorkerOptions) {
    this.#options = options;
    this.#tools = new Map(options.tools.map((tool) => [tool.declaration.name, tool]));
  }

  hear(event: RunStreamEvent): void {
    if (event.type === 'tool_call') this.#begin(event);
    else if (event.type === 'tool_result') this.#settle(this.#jobs.get(event.id));
    else if (event.type === 'done') for (const job of this.#jobs.values()) this.#settle(job);
  }

  #begin(call: ToolCall): void {
    const tool = this.#tools.get(call.name);
    const { runId, taken } = this.#options;
    const key = `${runId}:${call.id}`;
    if (tool === undefined || taken.has(key)) return;
    taken.add(key);
    const path = at`/v1/runs/${runId}/tool-results/${call.id}`;
    const stop = new AbortController();
    const signal = anyOf(stop.signal, this.#options.signal);
    const job: Job = { call, tool, path, stop, signal, claimId: uuid(), settled: false };
    this.#jobs.set(call.id, job);
    void this.#work(job, key).finally(() => this.#jobs.delete(call.id));
  }

  #settle(job: Job | undefined): void {
    if (job === undefined) return;
    job.settled = true;
    job.stop.abort(new Error('The result of this call is no longer wanted'));
  }

  /** May not throw. */
  async #work(job: Job, key: string): Promise<void> {
    // What comes with the same bytes may be the result: of calls in the past nobody is asked.
    await pause(0);
    if (job.settled || !(await this.#claim(job))) {
      this.#options.taken.delete(key);
      return;
    }
    const renewing = setInterval(() => void this.#renew(job), renewMs);
    const brought = await this.#run(job);
    clearInterval(renewing);
    const isLeftToOthers = brought.isError === true && job.signal.aborted;
    if (!job.settled && !isLeftToOthers) await this.#post(job, brought);
    // Once it is settled, a claim is refused; until then it may not be run here a second time.
    if (job.settled) this.#options.taken.delete(key);
  }

  async #claim(job: Job): Promise<boolean> {
    for (let attempt = 0; !job.signal.aborted; attempt += 1) {
      const answer = await this.#ask(job, '/claim', { claimId: job.claimId });
      if (answer === 'ok') return true;
      if (answer === 'settled') job.settled = true;
      if (answer === 'settled' || answer === 'refused') return false;
      const ms = answer === 'conflict' ? askAgainMs * (1 + Math.random()) : backoff(attempt);
      await pause(ms, job.signal).catch(() => undefined);
    }
    return false;
  }

  async #renew(job: Job): Promise<void> {
    const answer = await this.#ask(job, '/claim', { claimId: job.claimId });
    if (answer === 'settled') this.#settle(job);
    if (answer === 'conflict') job.stop.abort(new Error('Another client has claimed this call'));
  }

  async #run({ tool, call, signal }: Job): Promise<ToolResultBody> {
    const { runId } = this.#options;
    const idempotencyKey = `${runId}:${call.id}`;
    const context = { signal, runId, toolCallId: call.id, idempotencyKey };
    try {
      const output = (await tool.call(call.input, context)) ?? null;
      // What cannot be said as JSON is the function's failure, and is known here first.
      if (JSON.stringify(output) === undefined) throw new TypeError('The result is not JSON');
      return { output };
    } catch (error) {
      return { output: messageOf(error), isError: true };
    }
  }

  /** Brings the result until the server has it or wants none. */
  async #post(job: Job, brought: ToolResultBody): Promise<void> {
    let result = brought;
    let left = lastAttempts;
    const until = Date.parse(job.call.resultBy ?? '') || Date.now() + 10 * 60_000;
    for (let attempt = 0; Date.now() < until + 60_000 && left > 0; attempt += 1) {
      const answer = await this.#ask(job, '', result);
      if (answer === 'too_large') {
        result = { output: 'The result is too large to be sent', isError: true };
        continue;
      }
      if (answer !== 'later') {
        job.settled = answer !== 'refused';
        return;
      }
      if (this.#options.signal?.aborted === true) left -= 1;
      await pause(backoff(attempt));
      if (job.settled) return;
    }
  }

  async #ask(job: Job, step: string, body: object): Promise<Answer> {
    try {
      const wish = { body, maxRetries: 0 };
      await this.#options.http.json<ToolClaim>('POST', `${job.path}${step}`, wish);
      return 'ok';
    } catch (error) {
      return error instanceof RelayApiError ? answerOf(error) : 'refused';
    }
  }
}

type Answer = 'ok' | 'settled' | 'conflict' | 'too_large' | 'later' | 'refused';

function answerOf({ status, retryable }: RelayApiError): Answer {
  if (status === 404) return 'settled';
  if (status === 409) return 'conflict';
  if (status === 413) return 'too_large';
  return retryable ? 'later' : 'refused';
}
