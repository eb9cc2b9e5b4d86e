import type {
  AuditFilter,
  AuditRecord,
  AuditSeal,
  AuditSealing,
  AuditTrail,
  NewAudit,
  Page,
} from '@relay/core';
import { newestFirst, refuseTaken, stored } from './state.ts';
import type { MemoryAudit, MemoryState } from './state.ts';

/** Call it with the change that it tells of, after all that could refuse it. */
export function putAudit(
  state: MemoryState,
  tenantId: string,
  entries: readonly NewAudit[] = [],
): void {
  for (const entry of entries) {
    state.audit.set(entry.id, { tenantId, entry: stored(entry), place: null });
  }
}

export function refuseTakenAudit(state: MemoryState, entries: readonly NewAudit[] = []): void {
  for (const { id } of entries) refuseTaken(state.audit, id);
}

export function tenantsToSeal(state: MemoryState, limit: number): string[] {
  const open = [...state.audit.values()].filter(({ place }) => place === null);
  return [...new Set(open.map(({ tenantId }) => tenantId))].toSorted().slice(0, limit);
}

type Placed = MemoryAudit & { place: NonNullable<MemoryAudit['place']> };

export class MemoryAuditTrail implements AuditTrail {
  readonly #state: MemoryState;
  readonly #tenantId: string;

  constructor(state: MemoryState, tenantId: string) {
    this.#state = state;
    this.#tenantId = tenantId;
  }

  async add(entries: readonly NewAudit[]): Promise<void> {
    refuseTakenAudit(this.#state, entries);
    putAudit(this.#state, this.#tenantId, entries);
  }

  async unsealed(limit: number): Promise<NewAudit[]> {
    return this.#own()
      .filter(({ place }) => place === null)
      .map(({ entry }) => stored(entry))
      .toSorted((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1))
      .slice(0, limit);
  }

  async seal({ seal, entries }: AuditSealing): Promise<boolean> {
    const seals = this.#seals();
    if (seals.some(({ firstSeq }) => firstSeq === seal.firstSeq)) return false;
    const found = entries.map(({ id }) => this.#state.audit.get(id));
    const isOpen = (each: MemoryAudit | undefined) =>
      each?.tenantId === this.#tenantId && each.place === null;
    if (!found.every(isOpen)) return false;
    seals.push(stored(seal));
    for (const { id, seq, hash, proof } of entries) {
      const each = this.#state.audit.get(id);
      if (each !== undefined) each.place = { seq, hash, proof };
    }
    return true;
  }

  async head(): Promise<AuditSeal | undefined> {
    return stored(this.#seals().toSorted((a, b) => b.firstSeq - a.firstSeq))[0];
  }

  async list(filter: AuditFilter, page: Page): Promise<AuditRecord[]> {
    const places = this.#placed()
      .filter(({ entry }) => isWanted(entry, filter))
      .map((each) => ({ at: each.entry.at, id: each.entry.id, entry: each }));
    return newestFirst(places, page).map(recordOf);
  }

  async read({ after, limit }: { after: number; limit: number }): Promise<AuditRecord[]> {
    return this.#placed()
      .filter(({ place }) => place.seq > after)
      .toSorted((a, b) => a.place.seq - b.place.seq)
      .slice(0, limit)
      .map(recordOf);
  }

  async seals({ after, limit }: { after: number; limit: number }): Promise<AuditSeal[]> {
    return stored(this.#seals())
      .filter(({ firstSeq }) => firstSeq > after)
      .toSorted((a, b) => a.firstSeq - b.firstSeq)
      .slice(0, limit);
  }

  #own(): MemoryAudit[] {
    return [...this.#state.audit.values()].filter(({ tenantId }) => tenantId === this.#tenantId);
  }

  #placed(): Placed[] {
    return this.#own().filter((each): each is Placed => each.place !== null);
  }

  #seals(): AuditSeal[] {
    const seals = this.#state.auditSeals.get(this.#tenantId) ?? [];
    this.#state.auditSeals.set(this.#tenantId, seals);
    return seals;
  }
}

function recordOf({ entry, place }: Placed): AuditRecord {
  return stored({ ...entry, ...place });
}

function isWanted(entry: NewAudit, filter: AuditFilter): boolean {
  const { action = entry.action, actor = entry.actor, runId = entry.runId } = filter;
  const { since = -Infinity, until = Infinity } = filter;
  const isSame = entry.action === action && entry.actor === actor && entry.runId === runId;
  return isSame && entry.at >= since && entry.at < until;
}
