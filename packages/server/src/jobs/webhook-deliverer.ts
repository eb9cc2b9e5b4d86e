/**
 * Delivers webhook events at least once, by the node that claims a delivery first.
 *
 *   pending ──claim for a minute──▶ claimed ──2xx──▶ delivered
 *      ▲                               │
 *      ├── anything else: retry with backoff
 *      └── a day after the event ──▶ failed
 *
 * A delivery that is requested again is pending, as if its event were new.
 *
 * After a crash the claim expires, and another node takes the delivery over. A webhook has a few
 * requests in flight at a time, and none during its backoff: one that does not answer delays only its
 * own deliveries. A tenant with many webhooks does not use all requests. The deliveries of a paused tenant
 * wait until it is resumed.
 */
import { BackgroundLoop, type DeliveryRecord, type Engine, type WebhookRecord } from '@relay/core';
import type { GuardedFetch } from '@relay/models';
import type { WebhookSigner } from '../secrets/webhook-signer.ts';

const intervalMs = 500;
const maxBackoffMs = 10_000;
const maxInFlight = 400;
const maxInFlightPerWebhook = 8;
/** A tenant with so many gets no more until some are over, so that others always find room. */
const enoughPerTenant = 100;
/** Consecutive failures after which a webhook backs off, longer each time. */
const failuresBeforeBackoff = 3;
const minBackoffMs = 1_000;
const maxWebhookBackoffMs = 60_000;
const maxBackoffEntries = 1_000;
const claimMs = 60_000;
const requestTimeoutMs = 10_000;
const minRetryMs = 5_000;
const maxRetryMs = 60 * 60_000;
export const deliveryTimeoutMs = 24 * 60 * 60_000;

export interface WebhookDelivererOptions extends Pick<Engine, 'store' | 'clock' | 'log'> {
  readonly signer: WebhookSigner;
  readonly pausedTenants: () => Iterable<string>;
  /** For the URLs of a tenant. */
  readonly fetchFor: (tenantId: string) => GuardedFetch;
  /** The server's URL for its users. Undefined: no links are sent. */
  readonly publicUrl: string | undefined;
}

type Outcome = { readonly status: number } | { readonly error: string };

interface Backoff {
  readonly failures: number;
  readonly until: number;
}

export class WebhookDeliverer {
  readonly #options: WebhookDelivererOptions;
  readonly #loop: BackgroundLoop;
  /** By webhook and by tenant. */
  readonly #inFlight = new Map<string, number>();
  readonly #inFlightOfTenant = new Map<string, number>();
  readonly #backoffs = new Map<string, Backoff>();
  readonly #attempts = new Set<Promise<void>>();

  constructor(options: WebhookDelivererOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs,
      maxBackoffMs,
      step: async () => void (await this.begin()),
      onError: (error) => log.warn('Failed to claim webhook deliveries', { error: String(error) }),
    });
  }

  start(): void {
    this.#loop.start();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    await Promise.all(this.#attempts);
  }

  /** Starts the deliveries that are due and returns their number. */
  async begin(): Promise<number> {
    const { store, clock } = this.#options;
    const now = clock.now();
    const limit = Math.min(maxInFlight - this.#attempts.size, enoughPerTenant);
    if (limit <= 0) return 0;
    const due = await store.deliveries.claim({
      now,
      until: now + claimMs,
      limit,
      perWebhook: maxInFlightPerWebhook,
      except: this.#unavailable(now),
    });
    for (const delivery of due) this.#count(delivery, 1);
    for (const delivery of due) {
      const attempt = this.#attempt(delivery).finally(() => this.#attempts.delete(attempt));
      this.#attempts.add(attempt);
    }
    // Other tenants may have more.
    if (due.length === limit) this.#loop.wake();
    return due.length;
  }

  /** Resolves when no request is in flight. */
  async settled(): Promise<void> {
    await Promise.all(this.#attempts);
  }

  #unavailable(now: number): string[] {
    const inBackoff = [...this.#backoffs].filter(([, { until }]) => until > now);
    const busy = [...this.#inFlightOfTenant].filter(([, count]) => count >= enoughPerTenant);
    const paused = this.#options.pausedTenants();
    return [...this.#inFlight.keys(), ...paused, ...[...inBackoff, ...busy].map(([id]) => id)];
  }

  #count({ webhookId, tenantId }: DeliveryRecord, more: number): void {
    for (const [counts, id] of [
      [this.#inFlight, webhookId],
      [this.#inFlightOfTenant, tenantId],
    ] as const) {
      const count = (counts.get(id) ?? 0) + more;
      if (count > 0) counts.set(id, count);
      else counts.delete(id);
    }
  }

  /** Never throws: an unfinished claim expires and is retried. */
  async #attempt(delivery: DeliveryRecord): Promise<void> {
    const { webhookId } = delivery;
    try {
      const isDelivered = await this.#deliver(delivery);
      this.#updateBackoff(webhookId, isDelivered);
    } catch (error) {
      this.#options.log.warn('A webhook delivery failed', { webhookId, error: String(error) });
    } finally {
      this.#count(delivery, -1);
      // There may be more deliveries for it.
      if (!this.#inFlight.has(webhookId)) this.#loop.wake();
    }
  }

  #updateBackoff(webhookId: string, isDelivered: boolean): void {
    const failures = isDelivered ? 0 : (this.#backoffs.get(webhookId)?.failures ?? 0) + 1;
    this.#backoffs.delete(webhookId);
    if (isDelivered) return;
    const beyond = failures - failuresBeforeBackoff;
    const ms = beyond < 0 ? 0 : Math.min(minBackoffMs * 2 ** beyond, maxWebhookBackoffMs);
    this.#backoffs.set(webhookId, { failures, until: this.#options.clock.now() + ms });
    const [oldest] = this.#backoffs.keys();
    if (this.#backoffs.size > maxBackoffEntries && oldest !== undefined)
      this.#backoffs.delete(oldest);
  }

  async #deliver(delivery: DeliveryRecord): Promise<boolean> {
    const { store, clock } = this.#options;
    const webhook = await store.deliveries.find(delivery.webhookId);
    const outcome = webhook === undefined ? webhookDeleted : await this.#post(webhook, delivery);
    const now = clock.now();
    const lastStatus = 'status' in outcome ? outcome.status : null;
    const lastError = 'error' in outcome ? outcome.error : null;
    const isDone = lastStatus !== null && lastStatus >= 200 && lastStatus < 300;
    const isOver = webhook === undefined || now - delivery.queuedAt >= deliveryTimeoutMs;
    await store.deliveries.finish(delivery, {
      status: isDone ? 'delivered' : isOver ? 'failed' : 'pending',
      nextAt: now + retryDelay(delivery.attempts),
      lastStatus,
      lastError,
    });
    return isDone;
  }

  async #post(webhook: WebhookRecord, delivery: DeliveryRecord): Promise<Outcome> {
    const { signer, fetchFor, clock } = this.#options;
    const body = this.#bodyOf(webhook, delivery);
    const at = clock.now();
    try {
      const response = await fetchFor(delivery.tenantId)(webhook.url, {
        method: 'POST',
        body,
        signal: AbortSignal.any([this.#loop.signal, AbortSignal.timeout(requestTimeoutMs)]),
        headers: {
          'content-type': 'application/json',
          'user-agent': 'relay',
          'relay-event': delivery.event,
          'relay-delivery': delivery.id,
          'relay-signature': signer.sign(webhook, body, at),
          ...signer.standardHeaders(webhook, { id: delivery.id, body, at }),
        },
      });
      // Only the status counts; redirects are not followed.
      await response.body?.cancel();
      return { status: response.status };
    } catch (error) {
      return { error: error instanceof Error ? error.message : String(error) };
    }
  }

  /** The link is created when it is sent: the store holds nothing that could decide an approval. */
  #bodyOf(webhook: WebhookRecord, { event, payload }: DeliveryRecord): string {
    const { signer, publicUrl } = this.#options;
    if (event !== 'approval.requested' || publicUrl === undefined || !webhook.mayDecide)
      return payload;
    const message = JSON.parse(payload) as {
      approval: { id: string; kind: string; digest: string; expiresAt: string };
    };
    const { id, kind, digest, expiresAt } = message.approval;
    // The answer to a question has a schema of its own, which the page has no form for.
    if (kind === 'question') return payload;
    const token = signer.tokenFor(webhook, { id, digest, expiresAt: Date.parse(expiresAt) });
    return JSON.stringify({ ...message, decisionUrl: `${publicUrl}/decide/${token}` });
  }
}

const webhookDeleted: Outcome = { error: 'The webhook was deleted' };

/** Exponential backoff with jitter. */
function retryDelay(attempts: number): number {
  const delay = Math.min(minRetryMs * 2 ** Math.min(attempts - 1, 20), maxRetryMs);
  return Math.round(delay * (0.5 + Math.random()));
}
