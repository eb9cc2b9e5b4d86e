/**
 * Hints by NOTIFY, on a connection of their own.
 *
 *   apart ──connected, LISTEN answered──▶ joined ──the connection is lost──▶ apart (tried again)
 *
 * - What is told within 10 ms goes out together, each word once: PostgreSQL lets only one transaction
 *   at a time notify. A word that is told while apart waits; too many become "look at everything".
 * - Whoever has just joined may have missed some, and is told so.
 * - A node does not hear itself.
 * - A connection that nothing comes from is asked for a sign of life now and then.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { HintChannel } from '../driver.ts';
import type { PostgresSession } from './session.ts';

const channel = 'relay';
const gatherMs = 10;
/** PostgreSQL takes less than 8,000 bytes at once. */
const maxBytes = 7_900;
const maxPending = 2_000;
const signOfLifeMs = 5_000;
const firstPauseMs = 50;
const longestPauseMs = 2_000;
const everything = '*';

export class PostgresHints implements HintChannel {
  readonly #connect: () => Promise<PostgresSession>;
  readonly #self = randomUUID();
  readonly #listeners = new Set<(word: string | undefined) => void>();
  readonly #closing = new AbortController();
  #pending = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #session: PostgresSession | undefined;
  #work: Promise<void> | undefined;

  constructor(connect: () => Promise<PostgresSession>) {
    this.#connect = connect;
  }

  tell(word: string): void {
    if (this.#closing.signal.aborted || this.#pending.has(everything)) return;
    if (this.#pending.size >= maxPending) this.#pending = new Set([everything]);
    else this.#pending.add(word);
    this.#work ??= this.#stayJoined();
    this.#timer ??= setTimeout(() => this.#flush(), gatherMs);
  }

  listen(heard: (word: string | undefined) => void): () => void {
    this.#listeners.add(heard);
    this.#work ??= this.#stayJoined();
    return () => this.#listeners.delete(heard);
  }

  async close(): Promise<void> {
    if (this.#timer !== undefined) this.#flush();
    this.#closing.abort();
    await this.#session?.end();
    await this.#work;
  }

  /** Never rejects. */
  async #stayJoined(): Promise<void> {
    const { signal } = this.#closing;
    let pause = firstPauseMs;
    while (!signal.aborted) {
      let session: PostgresSession | undefined;
      try {
        session = await this.#connect();
        session.onNotification((payload) => this.#heard(payload));
        await session.command(`LISTEN ${channel}`);
        this.#session = session;
        pause = firstPauseMs;
        this.#emit(undefined);
        if (this.#pending.size > 0) this.#timer ??= setTimeout(() => this.#flush(), gatherMs);
        await this.#watch(session);
      } catch {
        // Tried again below; until then others find what is new by looking around.
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
      const slept = sleep(signOfLifeMs, undefined, { signal: pause.signal, ref: false });
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
    for (const word of this.#pending) {
      if (payload.length + 1 + Buffer.byteLength(word) > maxBytes) {
        send();
        payload = this.#self;
      }
      payload += `\n${word}`;
    }
    this.#pending = new Set();
    send();
  }

  #heard(payload: string): void {
    const [sender, ...words] = payload.split('\n');
    if (sender === this.#self) return;
    for (const word of words) this.#emit(word === everything ? undefined : word);
  }

  #emit(word: string | undefined): void {
    for (const heard of this.#listeners) heard(word);
  }
}
