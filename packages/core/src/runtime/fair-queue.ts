/** A queue in which tenants take turns, so that one with many runs does not block the others. */
export class FairQueue<Item> {
  /** In the order of their next turn: the first tenant here is served next. */
  readonly #lanes = new Map<string, Map<string, Item>>();

  get size(): number {
    let size = 0;
    for (const lane of this.#lanes.values()) size += lane.size;
    return size;
  }

  /** An item that is already queued keeps its position. */
  add(tenantId: string, key: string, item: Item): void {
    const lane = this.#lanes.get(tenantId);
    if (lane === undefined) this.#lanes.set(tenantId, new Map([[key, item]]));
    else if (!lane.has(key)) lane.set(key, item);
  }

  take(): Item | undefined {
    for (const [tenantId, lane] of this.#lanes) {
      this.#lanes.delete(tenantId);
      for (const [key, item] of lane) {
        lane.delete(key);
        if (lane.size > 0) this.#lanes.set(tenantId, lane);
        return item;
      }
    }
    return undefined;
  }

  clear(): void {
    this.#lanes.clear();
  }
}
