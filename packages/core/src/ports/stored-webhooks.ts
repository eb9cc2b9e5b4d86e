/** Who is told what happens, and what is still to be told to them, as a store keeps it. */
import type { Decider, WebhookEvent } from '@relay/protocol';
import type { NewAudit } from './stored-audit.ts';
import type { Page } from './stored-runs.ts';

export interface WebhookRecord {
  readonly id: string;
  readonly tenantId: string;
  readonly url: string;
  readonly events: readonly WebhookEvent[];
  readonly createdAt: number;
  readonly createdBy: Decider;
  /** Whoever made it may approve: what it tells may carry a link to decide by. */
  readonly mayDecide: boolean;
}

/** Something that happened, stored in its commit once for each webhook that wants to know. */
export interface Notice {
  /** The same for the same event: receivers know by it what they have seen. */
  readonly id: string;
  readonly event: WebhookEvent;
  readonly at: number;
  /** The body, as JSON; no arguments, no secrets. */
  readonly payload: string;
}

export interface DeliveryRecord extends Notice {
  readonly webhookId: string;
  readonly status: 'pending' | 'delivered' | 'failed';
  readonly attempts: number;
  readonly nextAt: number;
  /** What the last attempt was answered, or why it was not. */
  readonly lastStatus: number | null;
  readonly lastError: string | null;
}

export interface WebhookStore {
  add(webhook: WebhookRecord, audit?: readonly NewAudit[]): Promise<void>;
  read(webhookId: string): Promise<WebhookRecord | undefined>;
  /** By `createdAt`. */
  list(page: Page): Promise<WebhookRecord[]>;
  /** True if it was there; what it had not been told yet goes with it. */
  remove(webhookId: string, audit?: readonly NewAudit[]): Promise<boolean>;
  /** By `at`; what was told, and what is still to be. */
  deliveries(webhookId: string, page: Page): Promise<DeliveryRecord[]>;
}

export interface DeliveryResult {
  readonly status: DeliveryRecord['status'];
  readonly nextAt: number;
  readonly lastStatus: number | null;
  readonly lastError: string | null;
}

export interface DeliveryClaim {
  readonly now: number;
  readonly until: number;
  readonly limit: number;
  /** Of one webhook at most; left out: as many as there are. */
  readonly perWebhook?: number;
  /** Webhooks that are left alone. */
  readonly except?: readonly string[];
}

export interface DeliverySweep {
  /** What happened before this, and could not be told yet, has failed. */
  readonly giveUpBefore: number;
  /** What happened before this is forgotten, if it was told or has failed. */
  readonly forgetBefore: number;
  /** How many of each at most. */
  readonly limit: number;
}

/** Of all tenants. */
export interface DeliveryQueue {
  /** Due ones, the longest due first; nobody else gets them before `until`. Each claim is an attempt. */
  claim(by: DeliveryClaim): Promise<DeliveryRecord[]>;
  /** How many it has changed; 0 means that nothing is left to sweep. */
  sweep(by: DeliverySweep): Promise<number>;
  /** False if somebody else has claimed it since. */
  finish(delivery: DeliveryRecord, result: DeliveryResult): Promise<boolean>;
  find(webhookId: string): Promise<WebhookRecord | undefined>;
}
