/**
 * How often somebody may call. A bucket for each caller fills up evenly and holds a minute's worth;
 * who empties it waits until there is a drop again. Buckets that are full are forgotten, so what is
 * kept grows with those who call now, not with those who ever did.
 */
import { RelayError } from '@relay/protocol';
import type { FastifyReply } from 'fastify';

const minuteMs = 60_000;
const sweepMs = 10_000;

interface Bucket {
  drops: number;
  at: number;
}

export class RateLimiter {
  readonly #perMinute: number;
  readonly #buckets = new Map<string, Bucket>();
  #sweptAt = 0;

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Takes a drop; if there is none, says how long it takes until there is. */
  take(caller: string, now = Date.now()): { ok: true } | { ok: false; retryAfterMs: number } {
    const bucket = this.#filled(caller, now);
    if (bucket.drops >= 1) {
      bucket.drops -= 1;
      return { ok: true };
    }
    return { ok: false, retryAfterMs: ((1 - bucket.drops) * minuteMs) / this.#perMinute };
  }

  /** Throws `rate_limited`, and tells the caller when to come back. */
  check(caller: string, reply: FastifyReply): void {
    const taken = this.take(caller);
    if (taken.ok) return;
    const seconds = Math.max(1, Math.ceil(taken.retryAfterMs / 1000));
    reply.header('ratelimit-limit', String(this.#perMinute));
    reply.header('ratelimit-remaining', '0');
    reply.header('ratelimit-reset', String(seconds));
    const { retryAfterMs } = taken;
    const message = `Too many requests; come back in ${seconds} s`;
    throw new RelayError('rate_limited', message, { retryAfterMs });
  }

  #filled(caller: string, now: number): Bucket {
    this.#sweep(now);
    const bucket = this.#buckets.get(caller) ?? { drops: this.#perMinute, at: now };
    const added = (Math.max(0, now - bucket.at) * this.#perMinute) / minuteMs;
    bucket.drops = Math.min(this.#perMinute, bucket.drops + added);
    bucket.at = now;
    this.#buckets.set(caller, bucket);
    return bucket;
  }

  #sweep(now: number): void {
    if (now - this.#sweptAt < sweepMs) return;
    this.#sweptAt = now;
    for (const [caller, { drops, at }] of this.#buckets) {
      if (drops + ((now - at) * this.#perMinute) / minuteMs >= this.#perMinute) {
        this.#buckets.delete(caller);
      }
    }
  }
}
