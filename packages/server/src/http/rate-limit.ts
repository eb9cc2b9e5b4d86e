/**
 * One token bucket per caller, refilled evenly, with a capacity of one minute. Full buckets are removed,
 * so memory grows only with the active callers. See
 * `docs/decisions/2026-11-15-own-cors-and-rate-limit.md`.
 */
import { RelayError } from '@relay/protocol';
import type { FastifyReply } from 'fastify';

const minuteMs = 60_000;
const sweepMs = 10_000;

/** A limit as its error names it: what it counts, and the setting that changes it. */
interface LimitName {
  readonly what: string;
  readonly setting: string;
}

interface Bucket {
  tokens: number;
  at: number;
}

export class RateLimiter {
  readonly #perMinute: number;
  readonly #name: LimitName;
  readonly #buckets = new Map<string, Bucket>();
  #sweptAt = 0;

  constructor(perMinute: number, name: LimitName = { what: 'requests', setting: 'rateLimit' }) {
    this.#perMinute = perMinute;
    this.#name = name;
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

  /** Takes what has been used already. The bucket may be overdrawn: the next caller waits for it. */
  charge(caller: string, amount: number, now = Date.now()): void {
    this.#refill(caller, now).tokens -= amount;
  }

  isExhausted(caller: string, now = Date.now()): boolean {
    return this.#buckets.has(caller) && this.#refill(caller, now).tokens < 1;
  }

  /** Takes a token or throws `rate_limited`. */
  check(caller: string, reply: FastifyReply): void {
    const taken = this.take(caller);
    if (taken.ok) return;
    const seconds = Math.max(1, Math.ceil(taken.retryAfterMs / 1000));
    reply.header('ratelimit-limit', String(this.#perMinute));
    reply.header('ratelimit-remaining', '0');
    reply.header('ratelimit-reset', String(seconds));
    const { what, setting } = this.#name;
    const limit = `at most ${this.#perMinute} ${what} per minute (${setting})`;
    throw new RelayError('rate_limited', `Too many requests: ${limit}; retry in ${seconds} s`, {
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

interface Holder {
  readonly tenantId: string;
  readonly actor: { readonly id: string; readonly type: string };
}

export interface ConcurrencyLimits {
  readonly perKey: { readonly most: number; readonly setting: string };
  readonly perTenant: { readonly most: number; readonly setting: string };
  readonly perNode: { readonly most: number; readonly setting: string };
}

const retryStreamsMs = 5_000;

/** What callers hold at the same time on this node: open streams, or bytes of requests. */
export class ConcurrencyLimiter {
  readonly #what: string;
  readonly #limits: ConcurrencyLimits;
  readonly #held = new Map<string, number>();

  constructor(what: string, limits: ConcurrencyLimits) {
    this.#what = what;
    this.#limits = limits;
  }

  /** Returns the function that releases the amount; throws `too_many_open` if it is not available. */
  acquire({ tenantId, actor }: Holder, amount = 1): () => void {
    const { perKey, perTenant, perNode } = this.#limits;
    // Callers without a key share the limit of one. The operator's own programs have only the node's.
    const isOperator = tenantId === '';
    const scopes = [
      ...(isOperator ? [] : [{ id: `key ${tenantId} ${actor.id}`, of: 'this key', ...perKey }]),
      ...(isOperator ? [] : [{ id: `tenant ${tenantId}`, of: 'this tenant', ...perTenant }]),
      { id: 'node', of: 'this node', ...perNode },
    ];
    const full = scopes.find(({ id, most }) => (this.#held.get(id) ?? 0) + amount > most);
    if (full !== undefined) {
      const { most, of, setting } = full;
      const message = `Too many ${this.#what} are open: at most ${most} of ${of} (${setting}); close some, or retry later`;
      throw new RelayError('too_many_open', message, { retryAfterMs: retryStreamsMs });
    }
    for (const { id } of scopes) this.#held.set(id, (this.#held.get(id) ?? 0) + amount);
    let released = false;
    return () => {
      if (released) return;
      released = true;
      for (const { id } of scopes) {
        const left = (this.#held.get(id) ?? 0) - amount;
        if (left > 0) this.#held.set(id, left);
        else this.#held.delete(id);
      }
    };
  }
}
