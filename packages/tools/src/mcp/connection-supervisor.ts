/**
 * Keeps a server connected.
 *
 *   down ──connect──▶ up (its tools are known) ──lost──▶ down ──pause──▶ …
 *
 * - Every failure makes the next pause longer, up to a minute; a stable connection resets the pause.
 *   Errors of a server are never thrown here. A replaced connection is not a failure.
 * - The tools stay known while the server is down: a call then waits for a few seconds, and fails if
 *   the server is still down. No approval is requested of a call if the server was down for that long.
 */
import type { Tool as ListedTool } from '@modelcontextprotocol/client';
import { BackgroundLoop, type Clock, type Log, Signal } from '@relay/core';
import { defined } from '@relay/protocol';
import { type ConnectionEnd, ConnectionFailed, type McpConnection } from './connection.ts';

export interface McpLog extends Log {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

export interface SupervisorOptions {
  readonly name: string;
  readonly open: (onToolsChanged: () => void, signal: AbortSignal) => Promise<McpConnection>;
  /** Called with the tools of the server, at first and after each change. */
  readonly listed: (tools: readonly ListedTool[]) => void;
  /** Removes the secrets in the settings of the server. */
  readonly redact: (text: string) => string;
  readonly clock: Clock;
  readonly log: McpLog;
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
  /** Why there is no connection; empty if there is one. */
  #problem = 'It has not responded yet';
  /** Undefined until the first connection. */
  #downSince: number | undefined;
  /** Whether the log says that there is no connection. */
  #isReported = false;
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

  /** Why the server is not connected; undefined if it is. */
  get problem(): string | undefined {
    return this.#problem === '' ? undefined : this.#problem;
  }

  /** Why a call would fail now; undefined if it would wait or run. */
  get unavailable(): string | undefined {
    if (this.#problem === '') return undefined;
    const downMs = this.#options.clock.now() - (this.#downSince ?? -Infinity);
    return downMs < this.#timings.timeoutMs ? undefined : this.#notConnected;
  }

  get #notConnected(): string {
    return `The MCP server ${this.#options.name} is not connected: ${this.#problem}`;
  }

  /** Logs why the server is not connected, once. */
  report(fields: { readonly output?: string } = {}): void {
    if (this.#isReported || this.#problem === '') return;
    this.#isReported = true;
    const { log, name } = this.#options;
    const advice = `Relay retries; check mcpServers.${name} in relay.config`;
    log.warn(`${this.#notConnected}. ${advice}`, fields);
  }

  /** The current connection; waits for one if there is none. */
  async ready(signal: AbortSignal): Promise<McpConnection> {
    const { clock } = this.#options;
    const deadline = clock.now() + this.#timings.timeoutMs;
    for (;;) {
      signal.throwIfAborted();
      const connection = this.#connection;
      if (connection?.isOver === false) return connection;
      const left = deadline - clock.now();
      if (left <= 0 || this.#loop.signal.aborted) throw new Error(this.#notConnected);
      await this.#connected.waitFor({ clock, ms: left, signal });
    }
  }

  /** One connection; returns how long to wait before the next. */
  async #connect(): Promise<number> {
    const { clock, redact } = this.#options;
    const began = clock.now();
    const end = await this.#runConnection();
    const wasConnected = this.#connection !== undefined;
    this.#connection = undefined;
    if (!this.#loop.signal.aborted && end.kind === 'failed') {
      const problem = redact(end.problem);
      if (wasConnected) this.#downSince = clock.now();
      if (problem !== this.#problem) this.#isReported = false;
      this.#problem = problem;
      this.report(defined({ output: end.output }));
    }
    this.#tried.resolve();
    if (this.#loop.signal.aborted || end.kind === 'replaced') return 0;
    this.#failures = clock.now() - began >= this.#timings.stableAfterMs ? 1 : this.#failures + 1;
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
      if (this.#isReported) {
        log.info(`The MCP server ${name} is connected`, { tools: tools.length });
      }
      this.#isReported = false;
      this.#problem = '';
      this.#tried.resolve();
      this.#connected.notify();
      return await this.#watch(connection);
    } catch (error) {
      const failure = error instanceof ConnectionFailed ? error.failure : undefined;
      return { kind: 'failed', ...(failure ?? { problem: messageOf(error) }) };
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
