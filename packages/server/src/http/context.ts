import type { Control } from '@relay/core';
import type { OutboundGuard } from '@relay/models';
import type { Limits } from '@relay/protocol';
import type { AuditSealer } from '../audit/sealer.ts';
import type { AuthContext } from './auth.ts';
import type { BudgetChecker } from '../jobs/budgets.ts';
import type { Feed } from '../streaming/feed.ts';
import type { Hub } from '../streaming/hub.ts';
import type { ServerLog } from '../observability/log.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { OpenStreams } from '../streaming/open-streams.ts';
import type { RateLimiter } from './rate-limit.ts';
import type { Vault } from '../secrets/vault.ts';
import type { WebhookSigner } from '../secrets/webhook-signer.ts';

/** How often a key may call, and an address may fail to show one. */
export interface Rates {
  readonly requests: RateLimiter;
  readonly failures: RateLimiter;
}

/** What every handler can reach. */
export interface ServerContext extends AuthContext {
  readonly control: Control;
  readonly hub: Hub;
  readonly feed: Feed;
  readonly metrics: Metrics;
  readonly log: ServerLog;
  readonly rates: Rates;
  readonly budgets: BudgetChecker;
  readonly streams: OpenStreams;
  readonly vault: Vault;
  readonly guard: OutboundGuard;
  readonly audit: AuditSealer;
  readonly signer: WebhookSigner;
  /** What every run may use at most. */
  readonly limits: Limits;
  readonly version: string;
  readonly isStopping: () => boolean;
}
