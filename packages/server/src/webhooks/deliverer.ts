/**
 * Tells webhooks what they wait for: at least once, by whichever node claims it first.
 *
 *   pending ──claim──▶ pending, for a minute nobody else's ──2xx──▶ delivered
 *      ▲                    └─ anything else: later, after ever longer pauses ─┘
 *      └─ a day after it happened ──▶ failed
 *
 * A node that dies with a claim leaves it to the next one, after that minute.
 */
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Clock, DeliveryRecord, Log, SystemStore, WebhookRecord } from '@relay/core';
import type { OutboundGuard } from '@relay/models';
import type { Signer } from './signer.ts';

const everyMs = 500;
const atOnce = 20;
const claimMs = 60_000;
const timeoutMs = 10_000;
const firstPauseMs = 5_000;
const longestPauseMs = 60 * 60_000;
const patienceMs = 24 * 60 * 60_000;

export interface DelivererOptions {
  readonly store: SystemStore;
  readonly signer: Signer;
  readonly guard: OutboundGuard;
  readonly clock: Clock;
  readonly log: Log;
  /** How people reach this server; left out: no links are sent. */
  readonly publicUrl: string | undefined;
}

type Outcome = { readonly status: number } | { readonly error: string };

export class Deliverer {
  readonly #options: DelivererOptions;
  readonly #stopped = new AbortController();
  #work: Promise<void> = Promise.resolve();

  constructor(options: DelivererOptions) {
    this.#options = options;
  }

  start(): void {
    this.#work = this.#keep();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#work;
  }

  /** Tells what is due now; how many there were. */
  async deliver(): Promise<number> {
    const { store, clock } = this.#options;
    const now = clock.now();
    const due = await store.deliveries.claim({ now, until: now + claimMs, limit: atOnce });
    await Promise.all(due.map((delivery) => this.#attempt(delivery)));
    return due.length;
  }

  async #keep(): Promise<void> {
    const { clock, log } = this.#options;
    while (!this.#stopped.signal.aborted) {
      try {
        while ((await this.deliver()) === atOnce && !this.#stopped.signal.aborted);
      } catch (error) {
        // What was claimed is tried again in a minute.
        log.warn('Webhooks could not be told', { error: String(error) });
      }
      await clock.sleep(everyMs, this.#stopped.signal);
    }
  }

  async #attempt(delivery: DeliveryRecord): Promise<void> {
    const { store, clock } = this.#options;
    const webhook = await store.deliveries.find(delivery.webhookId);
    const outcome = webhook === undefined ? gone : await this.#post(webhook, delivery);
    const now = clock.now();
    const lastStatus = 'status' in outcome ? outcome.status : null;
    const lastError = 'error' in outcome ? outcome.error : null;
    const isDone = lastStatus !== null && lastStatus >= 200 && lastStatus < 300;
    const isTired = now - delivery.at >= patienceMs;
    await store.deliveries.finish(delivery, {
      status: isDone ? 'delivered' : isTired ? 'failed' : 'pending',
      nextAt: now + pauseAfter(delivery.attempts),
      lastStatus,
      lastError,
    });
  }

  #post(webhook: WebhookRecord, delivery: DeliveryRecord): Promise<Outcome> {
    const { signer, guard, clock } = this.#options;
    const body = this.#bodyOf(webhook, delivery);
    return new Promise((resolve) => {
      const fail = (error: Error) => resolve({ error: error.message });
      try {
        const url = new URL(webhook.url);
        guard.checkUrl(url);
        const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
        const sending = send(url, {
          method: 'POST',
          agent: guard.agentFor(url),
          signal: AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(timeoutMs)]),
          headers: {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(body),
            'user-agent': 'relay',
            'relay-event': delivery.event,
            'relay-delivery': delivery.id,
            'relay-signature': signer.sign(webhook, body, clock.now()),
          },
        });
        sending.on('response', (response) => {
          // What it says is nobody's business; redirects are not followed.
          response.destroy();
          resolve({ status: response.statusCode ?? 0 });
        });
        sending.on('error', fail);
        sending.end(body);
      } catch (error) {
        fail(error as Error);
      }
    });
  }

  /** The link is made when it is sent: nothing that could decide lies in the store. */
  #bodyOf(webhook: WebhookRecord, { event, payload }: DeliveryRecord): string {
    const { signer, publicUrl } = this.#options;
    if (event !== 'relay.raised' || publicUrl === undefined || !webhook.mayDecide) return payload;
    const told = JSON.parse(payload) as { relay: { kind: string; expiresAt: string } & LinkFacts };
    if (told.relay.kind !== 'permission') return payload;
    const { id, digest } = told.relay;
    const expiresAt = Date.parse(told.relay.expiresAt);
    const token = signer.tokenFor(webhook, { id, digest, expiresAt });
    return JSON.stringify({ ...told, decisionUrl: `${publicUrl}/decide/${token}` });
  }
}

interface LinkFacts {
  readonly id: string;
  readonly digest: string;
}

const gone: Outcome = { error: 'The webhook was deleted' };

/** Longer each time, and not for all at the same moment. */
function pauseAfter(attempts: number): number {
  const pause = Math.min(firstPauseMs * 2 ** Math.min(attempts - 1, 20), longestPauseMs);
  return Math.round(pause * (0.5 + Math.random()));
}
