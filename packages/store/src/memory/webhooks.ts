import type {
  DeliveryQueue,
  DeliveryRecord,
  DeliveryResult,
  NewAudit,
  Notice,
  Page,
  WebhookRecord,
  WebhookStore,
} from '@relay/core';
import { putAudit, refuseTakenAudit } from './audit.ts';
import { keyOf, newestFirst, refuseTaken, stored } from './state.ts';
import type { MemoryState } from './state.ts';

/** Call it with the change that they tell of. */
export function putNotices(
  state: MemoryState,
  tenantId: string,
  notices: readonly Notice[] = [],
): void {
  if (notices.length === 0) return;
  const own = [...state.webhooks.values()].filter((webhook) => webhook.tenantId === tenantId);
  for (const notice of notices) {
    for (const { id: webhookId, events } of own) {
      if (!events.includes(notice.event)) continue;
      state.deliveries.set(keyOf(webhookId, notice.id), {
        ...stored(notice),
        webhookId,
        status: 'pending',
        attempts: 0,
        nextAt: notice.at,
        lastStatus: null,
        lastError: null,
      });
    }
  }
}

export class MemoryWebhookStore implements WebhookStore {
  readonly #state: MemoryState;
  readonly #tenantId: string;

  constructor(state: MemoryState, tenantId: string) {
    this.#state = state;
    this.#tenantId = tenantId;
  }

  async add(webhook: WebhookRecord, audit?: readonly NewAudit[]): Promise<void> {
    refuseTaken(this.#state.webhooks, webhook.id);
    refuseTakenAudit(this.#state, audit);
    this.#state.webhooks.set(webhook.id, stored({ ...webhook, tenantId: this.#tenantId }));
    putAudit(this.#state, this.#tenantId, audit);
  }

  async read(webhookId: string): Promise<WebhookRecord | undefined> {
    const webhook = this.#state.webhooks.get(webhookId);
    return webhook?.tenantId === this.#tenantId ? stored(webhook) : undefined;
  }

  async list(page: Page): Promise<WebhookRecord[]> {
    const places = [...this.#state.webhooks.values()]
      .filter(({ tenantId }) => tenantId === this.#tenantId)
      .map((entry) => ({ at: entry.createdAt, id: entry.id, entry }));
    return stored(newestFirst(places, page));
  }

  async remove(webhookId: string, audit?: readonly NewAudit[]): Promise<boolean> {
    refuseTakenAudit(this.#state, audit);
    if ((await this.read(webhookId)) === undefined) return false;
    this.#state.webhooks.delete(webhookId);
    for (const [place, delivery] of this.#state.deliveries) {
      const isOpen = delivery.webhookId === webhookId && delivery.status === 'pending';
      if (isOpen) this.#state.deliveries.delete(place);
    }
    putAudit(this.#state, this.#tenantId, audit);
    return true;
  }

  async deliveries(webhookId: string, page: Page): Promise<DeliveryRecord[]> {
    if ((await this.read(webhookId)) === undefined) return [];
    const places = [...this.#state.deliveries.values()]
      .filter((delivery) => delivery.webhookId === webhookId)
      .map((entry) => ({ at: entry.at, id: entry.id, entry }));
    return stored(newestFirst(places, page));
  }
}

export class MemoryDeliveryQueue implements DeliveryQueue {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async claim(by: { now: number; until: number; limit: number }): Promise<DeliveryRecord[]> {
    const due = [...this.#state.deliveries.entries()]
      .filter(([, { status, nextAt }]) => status === 'pending' && nextAt <= by.now)
      .toSorted(([, a], [, b]) => a.nextAt - b.nextAt)
      .slice(0, by.limit);
    return due.map(([place, delivery]) => {
      const claimed = { ...delivery, attempts: delivery.attempts + 1, nextAt: by.until };
      this.#state.deliveries.set(place, claimed);
      return stored(claimed);
    });
  }

  async finish(delivery: DeliveryRecord, result: DeliveryResult): Promise<boolean> {
    const place = keyOf(delivery.webhookId, delivery.id);
    const now = this.#state.deliveries.get(place);
    if (now?.status !== 'pending' || now.attempts !== delivery.attempts) return false;
    this.#state.deliveries.set(place, { ...now, ...stored(result) });
    return true;
  }

  async find(webhookId: string): Promise<WebhookRecord | undefined> {
    const webhook = this.#state.webhooks.get(webhookId);
    return webhook === undefined ? undefined : stored(webhook);
  }
}
