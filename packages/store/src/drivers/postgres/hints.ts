/**
 * Hints by NOTIFY, on a connection of their own.
 *
 *   disconnected ──LISTEN answered──▶ connected ──connection lost──▶ disconnected (retried)
 *
 * - Messages of 10 ms are sent together, each once: PostgreSQL lets only one transaction at a time
 *   notify. Messages wait while disconnected; too many are replaced by one
 *   message that stands for all.
 * - After it has connected, listeners receive `undefined`: they may have missed messages.
 * - A node does not receive its own messages.
 * - An idle connection is checked every 5 s.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { HintChannel } from '../driver.ts';
import type { PostgresSession } from './session.ts';

const channel = 'relay';
const batchMs = 10;
/** PostgreSQL takes less than 8,000 bytes at once. */
const maxBytes = 7_900;
const maxPending = 2_000;
const keepAliveMs = 5_000;
const firstPauseMs = 50;
const longestPauseMs = 2_000;
const everything = '*';

export class PostgresHints implements HintChannel {
  readonly #connect: () => Promise<PostgresSession>;
  readonly #self = randomUUID();
  readonly #listeners = new Set<(message: string | undefined) => void>();
  readonly #closing = new AbortController();
  #pending = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #session: PostgresSession | undefined;
  #work: Promise<void> | undefined;

  constructor(connect: () => Promise<PostgresSession>) {
    this.#connect = connect;
  }

  send(message: string): void {
    if (this.#closing.signal.aborted || this.#pending.has(everything)) return;
    if (this.#pending.size >= maxPending) this.#pending = new Set([everything]);
    else this.#pending.add(message);
    this.#work ??= this.#stayConnected();
    this.#timer ??= setTimeout(() => this.#flush(), batchMs);
  }

  listen(listener: (message: string | undefined) => void): () => void {
    this.#listeners.add(listener);
    this.#work ??= this.#stayConnected();
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    if (this.#timer !== undefined) this.#flush();
    this.#closing.abort();
    await this.#session?.end();
    await this.#work;
  }

  /** Never rejects. */
  async #stayConnected(): Promise<void> {
    const { signal } = this.#closing;
    let pause = firstPauseMs;
    while (!signal.aborted) {
      let session: PostgresSession | undefined;
      try {
        session = await this.#connect();
        session.onNotification((payload) => this.#receive(payload));
        await session.command(`LISTEN ${channel}`);
        this.#session = session;
        pause = firstPauseMs;
        this.#emit(undefined);
        if (this.#pending.size > 0) this.#timer ??= setTimeout(() => this.#flush(), batchMs);
        await this.#watch(session);
      } catch {
        // Retried below; until then other nodes find new work by polling.
      }
      session?.destroy();
      this.#session = undefined;
      if (!signal.aborted) await sleep(pause, undefined, { signal, ref: false }).catch(() => {});
      pause = Math.min(2 * pause, longestPauseMs);
    }
  }

  async #watch(session: PostgresSession): Promise<void> {
    const { signal } = this.#closing;
    while (session.usable && !signal.aborted) {
      const pause = new AbortController();
      const slept = sleep(keepAliveMs, undefined, { signal: pause.signal, ref: false });
      await Promise.race([slept.catch(() => undefined), session.lost]);
      pause.abort();
      if (session.usable) await session.command('SELECT 1');
    }
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const session = this.#session;
    if (session === undefined) return;
    let payload = this.#self;
    const send = () => {
      if (payload === this.#self) return;
      session.query(`SELECT pg_notify(?, ?)`, [channel, payload]).catch(() => undefined);
    };
    for (const message of this.#pending) {
      if (payload.length + 1 + Buffer.byteLength(message) > maxBytes) {
        send();
        payload = this.#self;
      }
      payload += `\n${message}`;
    }
    this.#pending = new Set();
    send();
  }

  #receive(payload: string): void {
    const [sender, ...messages] = payload.split('\n');
    if (sender === this.#self) return;
    for (const message of messages) this.#emit(message === everything ? undefined : message);
  }

  #emit(message: string | undefined): void {
    for (const listener of this.#listeners) listener(message);
  }
}
