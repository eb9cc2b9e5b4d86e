/**
 * Keeps one agent running.
 *
 *   none ──connection()──▶ starting ──onConnected──▶ up ──idle──▶ none
 *                           ▲   └──────failed─────────┤
 *                           │                        lost
 *                           └────────pause────────────┘        failed, stopped: for good
 *
 * - There is never more than one process: the next is started when the one before has ended.
 * - After a loss it is started again at once, then after longer and longer pauses, if the agent can resume its
 *   session. An agent that never was up is not started again. Too many losses in a row are a failure.
 * - `onLost` and `onFailed` are called once each, in this order; not after `stop`.
 */
import type { InitializeResponse } from '@agentclientprotocol/sdk';
import { type Clock, exponentialBackoff } from '@relay/core';
import type { AgentClient, AgentConnection } from './connection.ts';
import { problemOf } from './messages.ts';

export interface AgentSupervisorOptions {
  /** Starts the process and initializes the connection. Rejects with the reason, after the process has ended. */
  readonly connect: (client: AgentClient, signal: AbortSignal) => Promise<AgentConnection>;
  readonly client: AgentClient;
  /** Creates, resumes or loads the ACP session, before anything else uses the connection. */
  readonly onConnected: (connection: AgentConnection) => Promise<void>;
  /** A connection that was up is closed, and not by `stop` or because it was idle. */
  readonly onLost: (reason: string) => void;
  /** It is not started again. */
  readonly onFailed: (reason: string) => void;
  /** Whether the ACP session survives its process. */
  readonly canResume: () => boolean;
  /** No turn, no open request, nothing queued. */
  readonly isIdle: () => boolean;
  readonly clock: Clock;
  readonly timings?: Partial<SupervisorTimings>;
}

export interface SupervisorTimings {
  /** Without a message in either direction. */
  readonly idleMs: number;
  /** How long `onConnected` may take. */
  readonly setUpMs: number;
  /** A connection that lasted so long makes earlier losses irrelevant. */
  readonly stableMs: number;
  readonly maxPauseMs: number;
  readonly maxRestarts: number;
}

const defaultTimings: SupervisorTimings = {
  idleMs: 15 * 60_000,
  setUpMs: 60_000,
  stableMs: 60_000,
  maxPauseMs: 30_000,
  maxRestarts: 5,
};
const stopped = 'The agent was stopped';
/** An agent that is not idle when it should be ended is looked at again after this part of the time. */
const checksPerIdleTime = 15;

export class AgentSupervisor {
  readonly #options: AgentSupervisorOptions;
  readonly #timings: SupervisorTimings;
  readonly #stopping = new AbortController();
  /** Initialized, and not set up yet. */
  #started: AgentConnection | undefined;
  /** Up, or on its way. */
  #connection: Promise<AgentConnection> | undefined;
  /** The process that is running. */
  #live: AgentConnection | undefined;
  /** The end of the process before. */
  #ended: Promise<unknown> = Promise.resolve();
  #wasUp = false;
  #losses = 0;
  #lastUsedAt = 0;
  #failure: string | undefined;

  constructor(options: AgentSupervisorOptions) {
    this.#options = options;
    this.#timings = { ...defaultTimings, ...options.timings };
  }

  /** Starts the first process, without `onConnected`. Rejects with the reason. */
  async start(): Promise<InitializeResponse> {
    this.#started = await this.#connect();
    return this.#started.initialized;
  }

  /** The connection that is up; starts a process if there is none. Rejects with the reason if it fails. */
  connection(): Promise<AgentConnection> {
    this.#lastUsedAt = this.#options.clock.now();
    const failure = this.#stopping.signal.aborted ? stopped : this.#failure;
    if (failure !== undefined) return Promise.reject(new Error(failure));
    return (this.#connection ??= this.#open());
  }

  /** Ends the process for good. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error(stopped));
    await this.#live?.close();
    await this.#connection?.catch(() => undefined);
    await this.#ended;
  }

  async #connect(): Promise<AgentConnection> {
    const { signal } = this.#stopping;
    await this.#ended;
    signal.throwIfAborted();
    const connecting = this.#options.connect(this.#options.client, signal);
    this.#ended = connecting.then(
      ({ closed }) => closed,
      () => undefined,
    );
    const connection = await connecting;
    this.#live = connection;
    if (signal.aborted) await connection.close();
    signal.throwIfAborted();
    return connection;
  }

  async #open(): Promise<AgentConnection> {
    for (;;) {
      try {
        const connection = await this.#setUp();
        void this.#watch(connection);
        return connection;
      } catch (error) {
        this.#stopping.signal.throwIfAborted();
        const reason = problemOf(error);
        if (!this.#wasUp) this.#fail(reason);
        await this.#recover(reason);
      }
    }
  }

  async #setUp(): Promise<AgentConnection> {
    const { clock, onConnected } = this.#options;
    const connection = this.#started ?? (await this.#connect());
    this.#started = undefined;
    const waiting = new AbortController();
    const { setUpMs } = this.#timings;
    void clock.sleep(setUpMs, waiting.signal).then(() => {
      if (waiting.signal.aborted) return;
      void connection.close(`The agent did not set up its session within ${setUpMs / 1_000} s`);
    });
    try {
      await onConnected(connection);
      return connection;
    } catch (error) {
      await connection.close(problemOf(error));
      throw new Error((await connection.closed).reason, { cause: error });
    } finally {
      waiting.abort();
    }
  }

  /** Until the connection is closed, or idle for too long. */
  async #watch(connection: AgentConnection): Promise<void> {
    const { clock } = this.#options;
    const upAt = clock.now();
    this.#wasUp = true;
    for (;;) {
      const waiting = new AbortController();
      const pause = clock.sleep(this.#untilIdle(connection), waiting.signal).then(() => undefined);
      const end = await Promise.race([connection.closed, pause]);
      waiting.abort();
      if (end !== undefined) {
        if (clock.now() - upAt >= this.#timings.stableMs) this.#losses = 0;
        this.#lost(end.reason);
        return;
      }
      if (this.#isIdle(connection)) {
        this.#connection = undefined;
        await connection.close('The agent was idle');
        return;
      }
    }
  }

  #lost(reason: string): void {
    if (this.#stopping.signal.aborted) return;
    this.#options.onLost(reason);
    this.#connection = this.#recover(reason).then(() => this.#open());
    // Without a caller, the failure is reported by `onFailed`.
    this.#connection.catch(() => undefined);
  }

  /** Waits until the agent may be started again. Rejects if it may not. */
  async #recover(reason: string): Promise<void> {
    const { clock, canResume } = this.#options;
    const { maxRestarts, maxPauseMs } = this.#timings;
    if (!canResume()) this.#fail(`${reason}. It cannot resume its session`);
    this.#losses += 1;
    if (this.#losses > maxRestarts)
      this.#fail(`${reason}. It was started ${maxRestarts} times again`);
    if (this.#losses > 1) {
      await clock.sleep(exponentialBackoff(this.#losses, maxPauseMs), this.#stopping.signal);
    }
    this.#stopping.signal.throwIfAborted();
  }

  #fail(reason: string): never {
    this.#failure = reason;
    this.#options.onFailed(reason);
    throw new Error(reason);
  }

  #idleFor({ lastActiveAt }: AgentConnection): number {
    return this.#options.clock.now() - Math.max(lastActiveAt, this.#lastUsedAt);
  }

  #isIdle(connection: AgentConnection): boolean {
    const { isIdle, canResume } = this.#options;
    return this.#idleFor(connection) >= this.#timings.idleMs && isIdle() && canResume();
  }

  #untilIdle(connection: AgentConnection): number {
    const { idleMs } = this.#timings;
    return Math.max(idleMs - this.#idleFor(connection), idleMs / checksPerIdleTime);
  }
}
