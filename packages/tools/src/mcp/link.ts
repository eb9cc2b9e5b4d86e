/**
 * A server that is kept connected.
 *
 *   down ──connect──▶ up (its tools are known) ──lost──▶ down ──pause──▶ …
 *
 * - Every failure makes the next pause longer, up to a minute; a connection that held for a while
 *   begins anew. Nothing that a server does is thrown here. A renewal is no failure.
 * - What it offered last stays known while it is down: a call then waits for a moment, and is an error
 *   after it.
 */
import type { Tool as ListedTool } from '@modelcontextprotocol/client';
import type { Clock, Log } from '@relay/core';
import { type McpConnection, renewal } from './connection.ts';

export interface LinkOptions {
  readonly name: string;
  readonly open: (changed: () => void, signal: AbortSignal) => Promise<McpConnection>;
  /** It has said what it offers. */
  readonly listed: (tools: readonly ListedTool[]) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly pauses?: Pauses;
}

export interface Pauses {
  readonly firstMs: number;
  readonly mostMs: number;
  /** After so long a connection counts as good. */
  readonly calmMs: number;
  /** How long a call waits for a server that is down. */
  readonly deliveryTimeoutMs: number;
  /** How often a server is asked for its tools that does not say that they have changed. */
  readonly lookMs: number;
}

export const usualPauses: Pauses = {
  firstMs: 500,
  mostMs: 60_000,
  calmMs: 60_000,
  deliveryTimeoutMs: 5_000,
  lookMs: 5 * 60_000,
};
/** A server that says every moment that its tools have changed is asked ever more seldom. */
const refreshMs = 1_000;

export class McpLink {
  readonly #options: LinkOptions;
  readonly #pauses: Pauses;
  readonly #stopped = new AbortController();
  readonly #tried = Promise.withResolvers<void>();
  #connection: McpConnection | undefined;
  #problem = 'It has not answered yet';
  readonly #waiting = new Set<() => void>();
  #refreshing: Promise<void> | undefined;
  #isStale = false;
  #work: Promise<void> = Promise.resolve();

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#pauses = options.pauses ?? usualPauses;
  }

  /** Resolves when it has been tried once, whatever came of it. */
  start(): Promise<void> {
    this.#work = this.#keep();
    return this.#tried.promise;
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#connection?.close();
    await this.#work;
    await this.#refreshing;
  }

  /** The connection that there is, or will be in a moment. */
  async ready(signal: AbortSignal): Promise<McpConnection> {
    const { clock, name } = this.#options;
    const deadline = clock.now() + this.#pauses.deliveryTimeoutMs;
    for (;;) {
      signal.throwIfAborted();
      const connection = this.#connection;
      if (connection?.isOver === false) return connection;
      const left = deadline - clock.now();
      if (left <= 0 || this.#stopped.signal.aborted) {
        throw new Error(`The MCP server ${name} is not connected`);
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add(resolve);
      await Promise.race([promise, clock.sleep(left, signal)]);
      this.#waiting.delete(resolve);
    }
  }

  async #keep(): Promise<void> {
    const { clock, name, log } = this.#options;
    const { signal } = this.#stopped;
    for (let failures = 0; !signal.aborted;) {
      const began = clock.now();
      const problem = await this.#live();
      this.#connection = undefined;
      this.#tried.resolve();
      if (signal.aborted) return;
      if (problem === renewal) continue;
      failures = clock.now() - began >= this.#pauses.calmMs ? 1 : failures + 1;
      if (problem !== this.#problem) {
        log.warn(`The MCP server ${name} is not connected; it is tried again`, { problem });
      }
      this.#problem = problem;
      await clock.sleep(this.#pauseAfter(failures), signal);
    }
  }

  /** One connection from beginning to end; what ended it. */
  async #live(): Promise<string> {
    const { signal } = this.#stopped;
    let connection: McpConnection | undefined;
    try {
      connection = await this.#options.open(() => this.#refresh(), signal);
      this.#options.listed(await connection.list(signal));
      this.#connection = connection;
      this.#problem = '';
      this.#tried.resolve();
      for (const wake of this.#waiting) wake();
      return await this.#watch(connection);
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    } finally {
      await connection?.close();
    }
  }

  /** Why it ended. A server may have forgotten whom to tell that its tools have changed. */
  async #watch({ ended }: McpConnection): Promise<string> {
    const { clock } = this.#options;
    for (;;) {
      const over = new AbortController();
      const pause = clock.sleep(this.#pauses.lookMs, over.signal).then(() => undefined);
      const why = await Promise.race([ended, pause]);
      over.abort();
      if (why !== undefined) return why;
      this.#refresh();
    }
  }

  /** Once more at most, however often it is asked for meanwhile. */
  #refresh(): void {
    this.#isStale = true;
    this.#refreshing ??= this.#refreshAll().finally(() => (this.#refreshing = undefined));
  }

  async #refreshAll(): Promise<void> {
    const { clock, name, log, listed } = this.#options;
    const { signal } = this.#stopped;
    for (let pause = refreshMs; this.#isStale && !signal.aborted; pause *= 2) {
      this.#isStale = false;
      try {
        const tools = await this.#connection?.list(signal);
        if (tools !== undefined) listed(tools);
      } catch (error) {
        const problem = error instanceof Error ? error.message : String(error);
        if (!signal.aborted)
          log.warn(`The tools of the MCP server ${name} are not told`, { problem });
      }
      await clock.sleep(Math.min(pause, this.#pauses.lookMs), signal);
    }
  }

  #pauseAfter(failures: number): number {
    const { firstMs, mostMs } = this.#pauses;
    const pause = Math.min(firstMs * 2 ** Math.min(failures - 1, 20), mostMs);
    return Math.round(pause * (0.5 + Math.random() / 2));
  }
}
