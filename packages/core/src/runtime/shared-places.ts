/**
 * Places that tenants share. A tenant takes one only while it has fewer than are free, so that a tenant with
 * much work uses at most half of them, and others find some.
 */
export class SharedPlaces {
  readonly #size: number;
  readonly #keysByTenant = new Map<string, Set<string>>();
  #used = 0;

  constructor(size: number) {
    this.#size = size;
  }

  hasRoomFor(tenantId: string): boolean {
    return (this.#keysByTenant.get(tenantId)?.size ?? 0) < this.#size - this.#used;
  }

  has(tenantId: string, key: string): boolean {
    return this.#keysByTenant.get(tenantId)?.has(key) ?? false;
  }

  /** False if there is no room, or the key has a place. */
  take(tenantId: string, key: string): boolean {
    if (this.has(tenantId, key) || !this.hasRoomFor(tenantId)) return false;
    const keys = this.#keysByTenant.get(tenantId) ?? new Set();
    this.#keysByTenant.set(tenantId, keys.add(key));
    this.#used += 1;
    return true;
  }

  release(tenantId: string, key: string): void {
    const keys = this.#keysByTenant.get(tenantId);
    if (keys?.delete(key) !== true) return;
    this.#used -= 1;
    if (keys.size === 0) this.#keysByTenant.delete(tenantId);
  }
}
