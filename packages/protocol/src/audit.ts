/** What the audit trail tells of. */
export const auditActions = [
  'run.started',
  'run.canceled',
  'call.allowed',
  'call.denied',
  'relay.decided',
  'relay.expired',
  'relay.closed',
  'grant.created',
  'grant.revoked',
  'policy.changed',
  'key.created',
  'key.revoked',
  'credential.put',
  'credential.deleted',
  'tenant.paused',
  'tenant.resumed',
  'tenant.budgets-changed',
  'webhook.created',
  'webhook.deleted',
] as const;
export type AuditAction = (typeof auditActions)[number];
