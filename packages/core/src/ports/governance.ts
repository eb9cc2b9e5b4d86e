/** The audit trail, policies and webhooks of a tenant. */
import type { AuditAction, Decider, PolicyRules, WebhookEvent } from '@relay/protocol';
import type { EventRange, Listed, Page } from './runs.ts';

/** An audited action: ids, names and digests, never contents or secrets. */
export interface AuditEntry {
  readonly at: number;
  readonly who: Decider;
  readonly action: AuditAction;
  readonly what: Readonly<Record<string, AuditFact>>;
  readonly why: string | null;
}

export type AuditFact = string | number | boolean | null | readonly string[];

/**
 * An entry as it is written: its exact text, the fields it is searched by, and the proof that Relay
 * wrote it. It is stored in the commit of the action, without a `seq`, so that writers never wait for
 * each other. Sealing assigns `seq` and hash later, in batches.
 */
export interface NewAuditEntry {
  readonly id: string;
  readonly at: number;
  readonly action: string;
  readonly actor: string;
  readonly runId: string | null;
  readonly text: string;
  readonly proof: string;
}

/** A sealed entry. */
export interface AuditRecord extends NewAuditEntry {
  readonly seq: number;
  /** Covers this entry and, through the chain, all entries before it. */
  readonly hash: string;
}

/** Signs the end of a batch: the trail up to `lastSeq` is as it was written. */
export interface AuditSeal {
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly hash: string;
  readonly at: number;
  readonly proof: string;
}

export interface AuditSealing {
  readonly seal: AuditSeal;
  readonly entries: readonly Pick<AuditRecord, 'id' | 'at' | 'seq' | 'hash' | 'proof'>[];
}

/** All given conditions must hold. */
export interface AuditFilter {
  readonly action?: string;
  readonly actor?: string;
  readonly runId?: string;
  /** Written at this time or later. */
  readonly since?: number;
  /** Written before this time. */
  readonly until?: number;
}

export interface UnsealedEntry extends NewAuditEntry {
  /** It is part of the trail already: its row was stored again. */
  readonly isRepeated?: true;
}

export interface AuditTrail {
  /** For actions without a commit of their own. */
  add(entries: readonly NewAuditEntry[]): Promise<void>;
  /** Oldest first. */
  unsealed(limit: number): Promise<UnsealedEntry[]>;
  /**
   * Compare-and-set: false, and nothing stored, if another seal begins at the same `seq` or one of the
   * entries is already sealed.
   */
  seal(sealing: AuditSealing): Promise<boolean>;
  /** The last seal. */
  head(): Promise<AuditSeal | undefined>;
  /** Sealed entries by time, newest first. */
  list(filter: AuditFilter, page: Page): Promise<Listed<AuditRecord>>;
  /** Sealed entries after a `seq`, in order, unverified. */
  read(range: EventRange): Promise<AuditRecord[]>;
  /** Seals that begin after a `seq`, in order, unverified. */
  seals(range: EventRange): Promise<AuditSeal[]>;
}

/** One version of a policy. Versions are never changed. */
export interface PolicyRecord {
  readonly id: string;
  /** `null`: for all agents. */
  readonly agent: string | null;
  /** 1, 2, 3 … per agent. */
  readonly version: number;
  readonly rules: PolicyRules;
  readonly at: number;
  readonly by: Decider;
}

export interface PolicyStore {
  /** The current policies for these agents: that for all agents, then their own. */
  inForce(...agents: readonly string[]): Promise<PolicyRecord[]>;
  /** The latest version. */
  read(agent: string | null): Promise<PolicyRecord | undefined>;
  /** Compare-and-set: false if its version does not follow the latest one. */
  put(policy: PolicyRecord, audit?: readonly NewAuditEntry[]): Promise<boolean>;
  /** By version. */
  versions(agent: string | null, page: Page): Promise<PolicyRecord[]>;
}

export interface WebhookRecord {
  readonly id: string;
  readonly tenantId: string;
  readonly url: string;
  readonly events: readonly WebhookEvent[];
  readonly createdAt: number;
  readonly createdBy: Decider;
  /** Its creator may approve, so that its payloads may contain a link to decide. */
  readonly mayDecide: boolean;
  /** Only events of the session with this handle, and messages that it sends or receives. */
  readonly filterHandle: string | null;
  /** Only messages of this channel. */
  readonly filterChannel: string | null;
  /** Only messages that mention this handle. */
  readonly filterMention: string | null;
}

/** An event for webhooks, stored in the commit of what it reports, once per subscribed webhook. */
export interface Notice {
  /** Receivers recognize repeated deliveries by it. */
  readonly id: string;
  readonly event: WebhookEvent;
  readonly at: number;
  /** The JSON body, without arguments and secrets. */
  readonly payload: string;
}

export interface DeliveryRecord extends Notice {
  readonly webhookId: string;
  readonly tenantId: string;
  /** When its attempts began: with the event, or when it was requested again. */
  readonly queuedAt: number;
  readonly status: 'pending' | 'delivered' | 'failed';
  readonly attempts: number;
  readonly nextAt: number;
  /** The HTTP status of the last attempt, or why there was none. */
  readonly lastStatus: number | null;
  readonly lastError: string | null;
}

export interface WebhookStore {
  add(webhook: WebhookRecord, audit?: readonly NewAuditEntry[]): Promise<void>;
  read(webhookId: string): Promise<WebhookRecord | undefined>;
  /** By `createdAt`. */
  list(page: Page): Promise<WebhookRecord[]>;
  /** Also deletes its pending deliveries. True if it existed. */
  remove(webhookId: string, audit?: readonly NewAuditEntry[]): Promise<boolean>;
  /** By `at`, in every status. */
  deliveries(webhookId: string, page: Page): Promise<DeliveryRecord[]>;
  /**
   * Makes a delivery due, in any status; its attempts start again. `undefined`, and nothing stored, if
   * there is none.
   */
  redeliver(
    redelivery: Redelivery,
    audit?: readonly NewAuditEntry[],
  ): Promise<DeliveryRecord | undefined>;
}

export interface Redelivery {
  readonly webhookId: string;
  readonly id: string;
  readonly at: number;
}

export type DeliveryResult = Pick<DeliveryRecord, 'status' | 'nextAt' | 'lastStatus' | 'lastError'>;

export interface DeliveryClaim {
  readonly now: number;
  readonly until: number;
  readonly limit: number;
  /** Limit per webhook. Default: none. */
  readonly perWebhook?: number;
  /** Ids of webhooks and tenants to skip. */
  readonly except?: readonly string[];
}

export interface DeliverySweep {
  /** Pending deliveries whose attempts began before this time fail, except those of paused tenants. */
  readonly failBefore: number;
  /** Finished deliveries whose attempts began before this time are deleted. */
  readonly deleteBefore: number;
  /** Limit for each of the two. */
  readonly limit: number;
}

/** The deliveries of all tenants. */
export interface DeliveryQueue {
  /** Due deliveries, longest due first, locked until `until`. Each claim counts as an attempt. */
  claim(by: DeliveryClaim): Promise<DeliveryRecord[]>;
  /** The number of changed deliveries; 0 means that nothing is left. */
  sweep(by: DeliverySweep): Promise<number>;
  /** False if another node has claimed it since. */
  finish(delivery: DeliveryRecord, result: DeliveryResult): Promise<boolean>;
  find(webhookId: string): Promise<WebhookRecord | undefined>;
}
