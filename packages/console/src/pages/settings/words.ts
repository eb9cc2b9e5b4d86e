/** Scopes, roles and events in words. */
import type { ApiKey, Role, Scope, Webhook } from '@relay/protocol/wire';

export const scopeWords: Readonly<Record<Scope, string>> = {
  read: 'Read runs, approvals, sessions and the policy',
  runs: 'Start and cancel runs, and write memories',
  worker: 'Answer tool calls of the runs of others',
  approve: 'Decide approvals and make grants',
  admin: 'Manage keys, credentials, webhooks, policy and budgets',
};

export const roleWords: Readonly<Record<Role, string>> = {
  admin: 'Administrator: manages everything, and does not approve',
  approver: 'Approver: reads, decides approvals and makes grants',
  operator: 'Operator: reads, starts and cancels runs',
  viewer: 'Viewer: reads',
};

type WebhookEvent = Webhook['events'][number];

export const eventWords: Readonly<Record<WebhookEvent, string>> = {
  'approval.requested': 'An approval is requested',
  'approval.expiring': 'An approval is about to expire',
  'approval.expired': 'An approval has expired',
  'approval.voted': 'An approver has voted',
  'approval.decided': 'An approval is decided',
  'run.ended': 'A run has ended',
  'session.started': 'A session starts',
  'session.resumed': 'A session is resumed',
  'session.forked': 'A session is forked',
  'session.status-changed': 'The status of a session changes',
  'session.released': 'A session has ended',
  'message.sent': 'A message is sent',
  'message.received': 'A message is received',
  'delivery.failed': 'A message could not be delivered',
};

export const webhookEvents = Object.keys(eventWords) as readonly WebhookEvent[];

type KeyStatus = 'active' | 'revoked' | 'expired';

export function statusOfKey(
  { revokedAt, expiresAt }: Pick<ApiKey, 'revokedAt' | 'expiresAt'>,
  now: number,
): KeyStatus {
  if (revokedAt !== undefined) return 'revoked';
  return expiresAt !== undefined && Date.parse(expiresAt) <= now ? 'expired' : 'active';
}

/** The events that have what a filter asks for; the server refuses others. */
export function hasFilter(event: WebhookEvent, filter: 'handle' | 'channel' | 'mention'): boolean {
  const isAboutMessages = event.startsWith('message.') || event === 'delivery.failed';
  return isAboutMessages || (filter === 'handle' && event.startsWith('session.'));
}
