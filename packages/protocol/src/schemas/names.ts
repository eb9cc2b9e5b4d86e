/** Names that the CLI and the console list too: without zod, which would slow down their start. */

export const auditActions = [
  'run.started',
  'run.canceled',
  'call.allowed',
  'call.denied',
  'call.breached',
  'approval.voted',
  'approval.decided',
  'approval.refused',
  'approval.expired',
  'approval.closed',
  'grant.created',
  'grant.revoked',
  'policy.changed',
  'key.created',
  'key.revoked',
  'key.rotated',
  'key.refused',
  'console.link-created',
  'console.signed-in',
  'console.signed-out',
  'decision.refused',
  'credential.put',
  'credential.deleted',
  'tenant.paused',
  'tenant.resumed',
  'tenant.budgets-changed',
  'tenant.workspace-changed',
  'webhook.created',
  'webhook.deleted',
  'webhook.redelivered',
  'session.created',
  'session.attached',
  'session.taken-over',
  'session.released',
  'session.typed',
  'session.deleted',
  'message.sent',
  'message.edited',
  'message.withdrawn',
  'delivery.redelivered',
  'channel.changed',
  'channel.member-added',
  'channel.member-removed',
  'action.registered',
  'action.removed',
  'action.invoked',
  'action.denied',
  'store.key-rotated',
  'store.restored',
] as const;
export type AuditAction = (typeof auditActions)[number];

export const webhookEvents = [
  'approval.requested',
  'approval.expiring',
  'approval.expired',
  'approval.voted',
  'approval.decided',
  'run.ended',
  'session.started',
  'session.resumed',
  'session.forked',
  'session.status-changed',
  'session.released',
  'message.sent',
  'message.received',
  'delivery.failed',
] as const;
export type WebhookEvent = (typeof webhookEvents)[number];

/** Each stands for all events that begin with it. */
export const webhookEventGroups = ['session.*', 'message.*'] as const;

/** `manual` waits for a flush; each other mode names the boundary at which a message enters. */
export const deliveryModes = [
  'immediate',
  'next-message',
  'next-tool-call',
  'on-idle',
  'manual',
] as const;
export type DeliveryMode = (typeof deliveryModes)[number];

export const agentStatuses = [
  'starting',
  'active',
  'idle',
  'waiting',
  'blocked',
  'paused',
  'releasing',
  'released',
  'offline',
  'failed',
] as const;
export type AgentStatus = (typeof agentStatuses)[number];

export const approvalStatuses = ['pending', 'approved', 'denied', 'expired', 'closed'] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

export const grantScopes = ['run', 'conversation', 'session', 'tenant'] as const;
export type GrantScope = (typeof grantScopes)[number];
