/** What a webhook can be told of. */
export const webhookEvents = [
  'relay.raised',
  'relay.expiring',
  'relay.expired',
  'relay.decided',
  'run.ended',
] as const;
export type WebhookEvent = (typeof webhookEvents)[number];
