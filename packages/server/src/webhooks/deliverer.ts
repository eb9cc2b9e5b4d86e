/**
 * Tells webhooks what they wait for: at least once, by whichever node claims it first.
 *
 *   pending ──claim──▶ pending, for a minute nobody else's ──2xx──▶ delivered
 *      ▲                    └─ anything else: later, after ever longer pauses ─┘
 *      └─ a day after it happened ──▶ failed
 *
 * A node that dies with a claim leaves it to the next one, after that minute. A webhook has a few calls
 * under way at a time, and none while it rests after failures: one that does not answer holds up
 * nobody, however much it is to be told.
 */
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Clock, DeliveryRecord, Log, SystemStore, WebhookRecord } from '@relay/core';
import type { OutboundGuard } from '@relay/models';
import type { Signer } from './signer.ts';

const everyMs = 500;
const atOnce = 400;
const perWebhook = 8;
/** From so many failures in a row on it rests, longer each time. */
const patientFor = 3;
const shortestRestMs = 1_000;
const longestRestMs = 60_000;
const mostResting = 1_000;
const claimMs = 60_000;
const timeoutMs = 10_000;
const firstPauseMs = 5_000;
const longestPauseMs = 60 * 60_000;
export const deliveryTimeoutMs = 24 * 60 * 60_000;

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

interface Rest {
  readonly failures: number;
  readonly until: number;
}

export class Deliverer {
  readonly #options: DelivererOptions;
  readonly #stopped = new AbortController();
  /** Calls under way, by webhook. */
  readonly #underWay = new Map<string, number>();
  readonly #resting = new Map<string, Rest>();
  readonly #attempts = new Set<Promise<void>>();
  #nap = new AbortController();
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
    await Promise.all(this.#attempts);
  }

  /** Begins to tell what is due now; how many there were. */
  async begin(): Promise<number> {
    const { store, clock } = this.#options;
    const now = clock.now();
    const limit = atOnce - this.#attempts.size;
    if (limit <= 0) return 0;
    const by = { now, until: now + claimMs, limit, perWebhook, except: this.#leftAlone(now) };
    const due = await store.deliveries.claim(by);
    for (const { webhookId } of due) this.#count(webhookId, 1);
    for (const delivery of due) {
      const attempt = this.#attempt(delivery).finally(() => this.#attempts.delete(attempt));
      this.#attempts.add(attempt);
    }
    return due.length;
  }

  /** When all that was begun is over. */
  async settled(): Promise<void> {
    await Promise.all(this.#attempts);
  }

  async #keep(): Promise<void> {
    const { clock, log } = this.#options;
    while (!this.#stopped.signal.aborted) {
      this.#nap = new AbortController();
      try {
        await this.begin();
      } catch (error) {
        log.warn('Webhooks could not be told', { error: String(error) });
      }
      await clock.sleep(everyMs, AbortSignal.any([this.#stopped.signal, this.#nap.signal]));
    }
  }

  #leftAlone(now: number): string[] {
    const resting = [...this.#resting].filter(([, { until }]) => until > now);
    return [...this.#underWay.keys(), ...resting.map(([webhookId]) => webhookId)];
  }

  #count(webhookId: string, more: number): void {
    const count = (this.#underWay.get(webhookId) ?? 0) + more;
    if (count > 0) this.#underWay.set(webhookId, count);
    else this.#underWay.delete(webhookId);
  }

  /** Never throws: what was claimed and not finished is tried again in a minute. */
  async #attempt(delivery: DeliveryRecord): Promise<void> {
    const { webhookId } = delivery;
    try {
      const isTold = await this.#tell(delivery);
      this.#rest(webhookId, isTold);
    } catch (error) {
      this.#options.log.warn('A webhook could not be told', { webhookId, error: String(error) });
    } finally {
      this.#count(webhookId, -1);
      // There may be more for it.
      if (!this.#underWay.has(webhookId)) this.#nap.abort();
    }
  }

  #rest(webhookId: string, isTold: boolean): void {
    const failures = isTold ? 0 : (this.#resting.get(webhookId)?.failures ?? 0) + 1;
    this.#resting.delete(webhookId);
    if (isTold) return;
    const beyond = failures - patientFor;
    const rest = beyond < 0 ? 0 : Math.min(shortestRestMs * 2 ** beyond, longestRestMs);
    this.#resting.set(webhookId, { failures, until: this.#options.clock.now() + rest });
    const [oldest] = this.#resting.keys();
    if (this.#resting.size > mostResting && oldest !== undefined) this.#resting.delete(oldest);
  }

  async #tell(delivery: DeliveryRecord): Promise<boolean> {
    const { store, clock } = this.#options;
    const webhook = await store.deliveries.find(delivery.webhookId);
    const outcome = webhook === undefined ? gone : await this.#post(webhook, delivery);
    const now = clock.now();
    const lastStatus = 'status' in outcome ? outcome.status : null;
    const lastError = 'error' in outcome ? outcome.error : null;
    const isDone = lastStatus !== null && lastStatus >= 200 && lastStatus < 300;
    const isOver = webhook === undefined || now - delivery.at >= deliveryTimeoutMs;
    await store.deliveries.finish(delivery, {
      status: isDone ? 'delivered' : isOver ? 'failed' : 'pending',
      nextAt: now + pauseAfter(delivery.attempts),
      lastStatus,
      lastError,
    });
    return isDone;
  }

  #post(webhook: WebhookRecord, delivery: DeliveryRecord): Promise<Outcome> {
    const { signer, guard, clock } = this.#options;
    const body = this.#bodyOf(webhook, delivery);
    return new Promise((resolve) => {
      const fail = ({ message }: Error) =>
        resolve({ error: message.replace('The provider’s URL', 'The URL') });
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
    if (event !== 'approval.requested' || publicUrl === undefined || !webhook.mayDecide)
      return payload;
    const told = JSON.parse(payload) as {
      approval: { kind: string; expiresAt: string } & LinkFacts;
    };
    if (told.approval.kind !== 'permission') return payload;
    const { id, digest } = told.approval;
    const expiresAt = Date.parse(told.approval.expiresAt);
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
