/**
 * Caches values that are created from a tenant's credential, such as a model with its API key. A value
 * is dropped when the credential changes or is deleted, so no decrypted key outlives it.
 */
import type { CredentialRecord } from '@relay/core';
import type { Vault } from '../secrets/vault.ts';

interface Entry<Value> {
  readonly sealed: string;
  readonly value: Value;
}

export class CredentialCache<Value> {
  readonly #vault: Pick<Vault, 'read'>;
  readonly #make: (tenantId: string, record: CredentialRecord) => Value;
  /** By tenant, then by provider. */
  readonly #entries = new Map<string, Map<string, Entry<Value>>>();
  #drops = 0;

  constructor(
    vault: Pick<Vault, 'read' | 'onChange'>,
    make: (tenantId: string, record: CredentialRecord) => Value,
  ) {
    this.#vault = vault;
    this.#make = make;
    vault.onChange((tenantId) => this.drop(tenantId));
  }

  get size(): number {
    return [...this.#entries.values()].reduce((sum, { size }) => sum + size, 0);
  }

  async get(tenantId: string, provider: string): Promise<Value | undefined> {
    const drops = this.#drops;
    const record = await this.#vault.read(tenantId, provider);
    const entries = this.#entries.get(tenantId) ?? new Map<string, Entry<Value>>();
    const known = entries.get(provider);
    if (record !== undefined && known?.sealed === record.sealed) return known.value;
    if (known !== undefined) entries.delete(provider);
    if (record === undefined) return undefined;
    const { sealed } = record;
    const value = this.#make(tenantId, record);
    // The credential may have been deleted after it was read: the next call reads it again.
    if (drops === this.#drops)
      this.#entries.set(tenantId, entries.set(provider, { sealed, value }));
    return value;
  }

  /** Without a tenant: drops all values. */
  drop(tenantId?: string): void {
    this.#drops += 1;
    if (tenantId === undefined) this.#entries.clear();
    else this.#entries.delete(tenantId);
  }
}
