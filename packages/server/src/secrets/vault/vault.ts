/**
 * The vault: providers' keys, sealed before they reach the store and opened only for the call that
 * needs them. Nothing here is ever logged or returned.
 */
import type { CredentialRecord, Ids, NewAudit, SystemStore } from '@relay/core';
import { RelayError } from '@relay/protocol';
import { ConfigError } from '../../config/config.ts';
import type { ServerLog } from '../../observability/log.ts';
import type { MasterKeys } from './master-key.ts';
import { type Place, rewrap, seal, SealBroken, unseal } from './seal.ts';

export interface Credential {
  readonly apiKey: string;
  readonly label: string | null;
  readonly baseUrl: string | null;
}

export interface VaultOptions {
  readonly store: SystemStore;
  readonly masters: MasterKeys;
  readonly ids: Ids;
  /** EventBuffer every key that goes in or out, so that no line shows it. */
  readonly log: Pick<ServerLog, 'conceal'>;
}

const checkName = 'vault-check';
const checkText = 'relay';
const checkPlace: Place = { tenantId: '', provider: '', recordId: checkName };
const pageSize = 100;

export class Vault {
  readonly #store: SystemStore;
  readonly #masters: MasterKeys;
  readonly #ids: Ids;
  readonly #log: VaultOptions['log'];
  readonly #listeners = new Set<(tenantId: string | undefined) => void>();

  constructor({ store, masters, ids, log }: VaultOptions) {
    this.#store = store;
    this.#masters = masters;
    this.#ids = ids;
    this.#log = log;
  }

  /** Throws if the store was sealed with a key that we do not have; then takes what is old over. */
  async open(): Promise<void> {
    const [current] = this.#masters;
    const fresh = seal(checkText, checkPlace, current);
    if (await this.#store.writeMetadata(checkName, fresh, { ifAbsent: true })) return;
    const note = (await this.#store.readMetadata(checkName)) ?? fresh;
    try {
      unseal(note, checkPlace, this.#masters);
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      throw new ConfigError(
        'The master key is not the one that the stored credentials are sealed with. To replace ' +
          'it, set RELAY_MASTER_KEY_PREVIOUS to the old one, or to "master-key" for the one in ' +
          'that file of the data folder',
      );
    }
    await this.#takeOver();
    const again = rewrap(note, checkPlace, this.#masters);
    if (again !== undefined) await this.#store.writeMetadata(checkName, again);
  }

  async put(
    { tenantId, provider }: { tenantId: string; provider: string },
    given: Credential,
    audit?: readonly NewAudit[],
  ): Promise<CredentialRecord> {
    this.#log.conceal(given.apiKey);
    const recordId = this.#ids.next();
    const now = Date.now();
    const record: CredentialRecord = {
      id: recordId,
      provider,
      label: given.label,
      baseUrl: given.baseUrl,
      last4: lastOf(given.apiKey),
      sealed: seal(given.apiKey, { tenantId, provider, recordId }, this.#masters[0]),
      createdAt: now,
      updatedAt: now,
    };
    await this.#store.tenant(tenantId).putCredential(record, audit);
    this.changed(tenantId);
    return record;
  }

  async delete(
    { tenantId, provider }: { tenantId: string; provider: string },
    audit?: readonly NewAudit[],
  ): Promise<void> {
    await this.#store.tenant(tenantId).deleteCredential(provider, audit);
    this.changed(tenantId);
  }

  /** Calls back when credentials of a tenant, or of any tenant (undefined), may have changed. */
  onChange(listener: (tenantId: string | undefined) => void): void {
    this.#listeners.add(listener);
  }

  /** Credentials may have been changed, here or by another node. */
  changed(tenantId?: string): void {
    for (const listener of this.#listeners) listener(tenantId);
  }

  /** The key itself. A record that does not open was moved or changed: it is as good as damaged. */
  secretOf(tenantId: string, record: CredentialRecord): string {
    const { provider, id: recordId, sealed } = record;
    try {
      const secret = unseal(sealed, { tenantId, provider, recordId }, this.#masters);
      this.#log.conceal(secret);
      return secret;
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      throw new RelayError('journal_corrupt', `The credential for ${provider} cannot be opened`);
    }
  }

  /** While others go on reading: both keys open what they sealed. */
  async #takeOver(): Promise<void> {
    for (let after: string | undefined; ;) {
      const page = await this.#store.sealedCredentials({
        limit: pageSize,
        ...(after === undefined ? {} : { after }),
      });
      for (const { tenantId, provider, id: recordId, sealed } of page) {
        const to = this.#rewrapped(sealed, { tenantId, provider, recordId });
        if (to !== undefined) {
          await this.#store.resealCredential({ tenantId, id: recordId, from: sealed, to });
        }
      }
      after = page.at(-1)?.id;
      if (page.length < pageSize) return;
    }
  }

  /** One that does not open stays as it is: its owner will be told when it is used. */
  #rewrapped(sealed: string, place: Place): string | undefined {
    try {
      return rewrap(sealed, place, this.#masters);
    } catch {
      return undefined;
    }
  }
}

/** Whether a store with this note was sealed with that key. */
export function opensWith(note: string, key: MasterKeys[0]): boolean {
  try {
    return unseal(note, checkPlace, [key]) === checkText;
  } catch (error) {
    if (error instanceof SealBroken) return false;
    throw error;
  }
}

/** Enough to recognize a key by; of a short one nothing. */
function lastOf(apiKey: string): string {
  return apiKey.length >= 12 ? apiKey.slice(-4) : '';
}
