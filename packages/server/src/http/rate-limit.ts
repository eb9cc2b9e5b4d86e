/**
 * One token bucket per caller, refilled evenly, with a capacity of one minute. Full buckets are removed,
 * so memory grows only with the active callers. See
 * `docs/decisions/2026-11-15-own-cors-and-rate-limit.md`.
 */
import { RelayError } from '@relay/protocol';
import type { FastifyReply } from 'fastify';

const minuteMs = 60_000;
const sweepMs = 10_000;

interface Bucket {
  tokens: number;
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

  /** Takes a token; without one, returns the time until the next. */
  take(caller: string, now = Date.now()): { ok: true } | { ok: false; retryAfterMs: number } {
    const bucket = this.#refill(caller, now);
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1;
      return { ok: true };
    }
    return { ok: false, retryAfterMs: ((1 - bucket.tokens) * minuteMs) / this.#perMinute };
  }

  /** Takes a token or throws `rate_limited`. */
  check(caller: string, reply: FastifyReply): void {
    const taken = this.take(caller);
    if (taken.ok) return;
    const seconds = Math.max(1, Math.ceil(taken.retryAfterMs / 1000));
    reply.header('ratelimit-limit', String(this.#perMinute));
    reply.header('ratelimit-remaining', '0');
    reply.header('ratelimit-reset', String(seconds));
    throw new RelayError('rate_limited', `Too many requests; retry in ${seconds} s`, {
      retryAfterMs: taken.retryAfterMs,
    });
  }

  #refill(caller: string, now: number): Bucket {
    this.#sweep(now);
    const bucket = this.#buckets.get(caller) ?? { tokens: this.#perMinute, at: now };
    const added = (Math.max(0, now - bucket.at) * this.#perMinute) / minuteMs;
    bucket.tokens = Math.min(this.#perMinute, bucket.tokens + added);
    bucket.at = now;
    this.#buckets.set(caller, bucket);
    return bucket;
  }

  #sweep(now: number): void {
    if (now - this.#sweptAt < sweepMs) return;
    this.#sweptAt = now;
    for (const [caller, { tokens, at }] of this.#buckets) {
      if (tokens + ((now - at) * this.#perMinute) / minuteMs >= this.#perMinute) {
        this.#buckets.delete(caller);
      }
    }
  }
}
