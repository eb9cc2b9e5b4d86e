/** What a webhook can be told of. */
export const webhookEvents = [
  'approval.requested',
  'approval.expiring',
  'approval.expired',
  'approval.decided',
  'run.ended',
] as const;
export type WebhookEvent = (typeof webhookEvents)[number];
