/**
 * Keeps a server connected.
 *
 *   down ──connect──▶ up (its tools are known) ──lost──▶ down ──pause──▶ …
 *
 * - Every failure makes the next pause longer, up to a minute; a stable connection resets the pause.
 *   Errors of a server are never thrown here. A replaced connection is not a failure.
 * - The tools stay known while the server is down: a call then waits for a few seconds, and fails if
 *   the server is still down.
 */
import type { Tool as ListedTool } from '@modelcontextprotocol/client';
import { BackgroundLoop, type Clock, type Log, Signal } from '@relay/core';
import type { ConnectionEnd, McpConnection } from './connection.ts';

export interface SupervisorOptions {
  readonly name: string;
  readonly open: (onToolsChanged: () => void, signal: AbortSignal) => Promise<McpConnection>;
  /** Called with the tools of the server, at first and after each change. */
  readonly listed: (tools: readonly ListedTool[]) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly timings?: RetryTimings;
}

export interface RetryTimings {
  readonly initialDelayMs: number;
  readonly maxDelayMs: number;
  /** A connection that lasted so long resets the pause. */
  readonly stableAfterMs: number;
  /** How long a call waits for a server that is down. */
  readonly timeoutMs: number;
  /** How often the tools are listed again, even without a notification. */
  readonly refreshIntervalMs: number;
}

export const defaultTimings: RetryTimings = {
  initialDelayMs: 500,
  maxDelayMs: 60_000,
  stableAfterMs: 60_000,
  timeoutMs: 5_000,
  refreshIntervalMs: 5 * 60_000,
};
/** The first pause between refreshes; it doubles while notifications keep coming. */
const refreshMs = 1_000;

export class ConnectionSupervisor {
  readonly #options: SupervisorOptions;
  readonly #timings: RetryTimings;
  readonly #loop: BackgroundLoop;
  readonly #tried = Promise.withResolvers<void>();
  #connection: McpConnection | undefined;
  #problem = 'No response yet';
  readonly #connected = new Signal();
  #refreshing: Promise<void> | undefined;
  #isStale = false;
  #failures = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#timings = options.timings ?? defaultTimings;
    const { clock, log, name } = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs: this.#timings.initialDelayMs,
      step: () => this.#connect(),
      onError: (error) => log.error(`The connection to the MCP server ${name} failed`, { error }),
    });
  }

  /** Resolves after the first attempt, whether it succeeded or not. */
  start(): Promise<void> {
    this.#loop.start();
    return this.#tried.promise;
  }

  async stop(): Promise<void> {
    const stopping = this.#loop.stop();
    await this.#connection?.close();
    await stopping;
    await this.#refreshing;
  }

  /** Whether an attempt to connect has failed, which is logged. */
  get hasFailed(): boolean {
    return this.#failures > 0;
  }

  /** The current connection; waits for one if there is none. */
  async ready(signal: AbortSignal): Promise<McpConnection> {
    const { clock, name } = this.#options;
    const deadline = clock.now() + this.#timings.timeoutMs;
    for (;;) {
      signal.throwIfAborted();
      const connection = this.#connection;
      if (connection?.isOver === false) return connection;
      const left = deadline - clock.now();
      if (left <= 0 || this.#loop.signal.aborted) {
        throw new Error(`The MCP server ${name} is not connected`);
      }
      await this.#connected.waitFor({ clock, ms: left, signal });
    }
  }

  /** One connection; returns how long to wait before the next. */
  async #connect(): Promise<number> {
    const { clock, name, log } = this.#options;
    const began = clock.now();
    const end = await this.#runConnection();
    this.#connection = undefined;
    this.#tried.resolve();
    if (this.#loop.signal.aborted || end.kind === 'replaced') return 0;
    const { problem } = end;
    this.#failures = clock.now() - began >= this.#timings.stableAfterMs ? 1 : this.#failures + 1;
    if (problem !== this.#problem) {
      log.warn(`The MCP server ${name} is not connected; retrying`, { problem });
    }
    this.#problem = problem;
    return this.#pauseAfter(this.#failures);
  }

  /** Runs one connection, and returns why it ended. */
  async #runConnection(): Promise<ConnectionEnd> {
    const { signal } = this.#loop;
    let connection: McpConnection | undefined;
    try {
      connection = await this.#options.open(() => this.#refresh(), signal);
      const tools = await connection.list(signal);
      this.#options.listed(tools);
      this.#connection = connection;
      const { log, name } = this.#options;
      if (this.#failures > 0 && this.#problem !== '') {
        log.warn(`The MCP server ${name} is connected`, { tools: tools.length });
      }
      this.#problem = '';
      this.#tried.resolve();
      this.#connected.notify();
      return await this.#watch(connection);
    } catch (error) {
      return { kind: 'failed', problem: messageOf(error) };
    } finally {
      await connection?.close();
    }
  }

  /** Returns why it ended. Refreshes the tools regularly, as notifications may get lost. */
  async #watch({ ended }: McpConnection): Promise<ConnectionEnd> {
    const { clock } = this.#options;
    for (;;) {
      const over = new AbortController();
      const pause = clock.sleep(this.#timings.refreshIntervalMs, over.signal).then(() => undefined);
      const end = await Promise.race([ended, pause]);
      over.abort();
      if (end !== undefined) return end;
      this.#refresh();
    }
  }

  /** Coalesces requests while a refresh is running. */
  #refresh(): void {
    this.#isStale = true;
    this.#refreshing ??= this.#refreshAll().finally(() => (this.#refreshing = undefined));
  }

  async #refreshAll(): Promise<void> {
    const { clock, name, log, listed } = this.#options;
    const { signal } = this.#loop;
    for (let pause = refreshMs; this.#isStale && !signal.aborted; pause *= 2) {
      this.#isStale = false;
      try {
        const tools = await this.#connection?.list(signal);
        if (tools !== undefined) listed(tools);
      } catch (error) {
        const problem = messageOf(error);
        if (!signal.aborted)
          log.warn(`The tools of the MCP server ${name} could not be listed`, { problem });
      }
      await clock.sleep(Math.min(pause, this.#timings.refreshIntervalMs), signal);
    }
  }

  #pauseAfter(failures: number): number {
    const { initialDelayMs, maxDelayMs } = this.#timings;
    const pause = Math.min(initialDelayMs * 2 ** Math.min(failures - 1, 20), maxDelayMs);
    return Math.round(pause * (0.5 + Math.random() / 2));
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
