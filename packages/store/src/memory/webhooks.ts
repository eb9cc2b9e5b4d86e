import type {
  DeliveryClaim,
  DeliveryQueue,
  DeliveryRecord,
  DeliveryResult,
  DeliverySweep,
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

  async claim(by: DeliveryClaim): Promise<DeliveryRecord[]> {
    const { perWebhook = by.limit, except = [] } = by;
    const counts = new Map<string, number>();
    const due = [...this.#state.deliveries.entries()]
      .filter(([, { status, nextAt }]) => status === 'pending' && nextAt <= by.now)
      .filter(([, { webhookId }]) => !except.includes(webhookId))
      .toSorted(([, a], [, b]) => a.nextAt - b.nextAt)
      .filter(([, { webhookId }]) => {
        const count = (counts.get(webhookId) ?? 0) + 1;
        counts.set(webhookId, count);
        return count <= perWebhook;
      })
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

  async sweep({ giveUpBefore, forgetBefore, limit }: DeliverySweep): Promise<number> {
    const all = [...this.#state.deliveries.entries()].toSorted(([, a], [, b]) => a.at - b.at);
    const late = all.filter(([, { status, at }]) => status === 'pending' && at < giveUpBefore);
    for (const [place, delivery] of late.slice(0, limit)) {
      const lastError = delivery.lastError ?? 'Nobody could be told in time';
      this.#state.deliveries.set(place, { ...delivery, status: 'failed', lastError });
    }
    const isOver = (place: string) => this.#state.deliveries.get(place)?.status !== 'pending';
    const over = all
      .filter(([place, { at }]) => isOver(place) && at < forgetBefore)
      .slice(0, limit);
    for (const [place] of over) this.#state.deliveries.delete(place);
    return Math.min(late.length, limit) + over.length;
  }

  async find(webhookId: string): Promise<WebhookRecord | undefined> {
    const webhook = this.#state.webhooks.get(webhookId);
    return webhook === undefined ? undefined : stored(webhook);
  }
}
