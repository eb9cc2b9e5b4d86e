/** A queue in which tenants take turns, so that one with many runs does not block the others. */
export class FairQueue<Item> {
  /** In the order of their next turn: the first tenant here is served next. */
  readonly #queuesByTenant = new Map<string, Map<string, Item>>();

  get size(): number {
    let size = 0;
    for (const queue of this.#queuesByTenant.values()) size += queue.size;
    return size;
  }

  /** An item that is already queued keeps its position. */
  add(tenantId: string, key: string, item: Item): void {
    const queue = this.#queuesByTenant.get(tenantId);
    if (queue === undefined) this.#queuesByTenant.set(tenantId, new Map([[key, item]]));
    else if (!queue.has(key)) queue.set(key, item);
  }

  /** Skips tenants that are not `allowed`; they keep their turn. */
  take(allowed: (tenantId: string) => boolean = () => true): Item | undefined {
    for (const [tenantId, queue] of this.#queuesByTenant) {
      if (!allowed(tenantId)) continue;
      this.#queuesByTenant.delete(tenantId);
      for (const [key, item] of queue) {
        queue.delete(key);
        if (queue.size > 0) this.#queuesByTenant.set(tenantId, queue);
        return item;
      }
    }
    return undefined;
  }

  clear(): void {
    this.#queuesByTenant.clear();
  }
}
