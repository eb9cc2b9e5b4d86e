/**
 * The vault: API keys of providers, sealed before they are stored and unsealed only for the call that
 * needs them. Secrets are never logged or returned by the API.
 */
import type { CredentialRecord, Ids, NewAuditEntry, SystemStore } from '@relay/core';
import { defined, RelayError } from '@relay/protocol';
import { ConfigError } from '../config/config.ts';
import type { ServerLog } from '../observability/log.ts';
import type { MasterKeys } from './master-key.ts';
import { type SealContext, rewrap, seal, SealBroken, unseal } from './seal.ts';

export interface Credential {
  readonly apiKey: string;
  readonly label: string | null;
  readonly baseUrl: string | null;
}

export interface VaultOptions {
  readonly store: SystemStore;
  readonly masters: MasterKeys;
  readonly ids: Ids;
  /** Redacts every key that is stored or unsealed. */
  readonly log: Pick<ServerLog, 'conceal'>;
}

const checkName = 'vault-check';
const checkText = 'relay';
const checkContext: SealContext = { tenantId: '', provider: '', recordId: checkName };
const pageSize = 100;

export class Vault {
  readonly #options: VaultOptions;
  readonly #listeners = new Set<(tenantId: string | undefined) => void>();

  constructor(options: VaultOptions) {
    this.#options = options;
  }

  /** Throws if the store was sealed with another master key; then rewraps records of the previous one. */
  async open(): Promise<void> {
    const { store, masters } = this.#options;
    const [current] = masters;
    const fresh = seal(checkText, checkContext, current);
    if (await store.writeMetadata(checkName, fresh, { ifAbsent: true })) return;
    const note = (await store.readMetadata(checkName)) ?? fresh;
    try {
      unseal(note, checkContext, masters);
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      throw new ConfigError(
        'The master key is not the one that the stored credentials are sealed with. To replace ' +
          'it, set RELAY_MASTER_KEY_PREVIOUS to the old one, or to "master-key" for the one in ' +
          'that file of the data folder',
      );
    }
    await this.#rewrapAll();
    const again = rewrap(note, checkContext, masters);
    if (again !== undefined) await store.writeMetadata(checkName, again);
  }

  async put(
    { tenantId, provider }: { tenantId: string; provider: string },
    credential: Credential,
    audit?: readonly NewAuditEntry[],
  ): Promise<CredentialRecord> {
    const { store, masters, ids, log } = this.#options;
    log.conceal(credential.apiKey);
    const recordId = ids.next();
    const now = Date.now();
    const record: CredentialRecord = {
      id: recordId,
      provider,
      label: credential.label,
      baseUrl: credential.baseUrl,
      last4: lastOf(credential.apiKey),
      sealed: seal(credential.apiKey, { tenantId, provider, recordId }, masters[0]),
      createdAt: now,
      updatedAt: now,
    };
    await store.tenant(tenantId).putCredential(record, audit);
    this.changed(tenantId);
    return record;
  }

  async delete(
    { tenantId, provider }: { tenantId: string; provider: string },
    audit?: readonly NewAuditEntry[],
  ): Promise<void> {
    await this.#options.store.tenant(tenantId).deleteCredential(provider, audit);
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

  /** A record that does not unseal was moved or changed: it counts as damaged. */
  secretOf(tenantId: string, record: CredentialRecord): string {
    const { provider, id: recordId, sealed } = record;
    try {
      const secret = unseal(sealed, { tenantId, provider, recordId }, this.#options.masters);
      this.#options.log.conceal(secret);
      return secret;
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error;
      throw new RelayError('journal_corrupt', `The credential for ${provider} cannot be opened`);
    }
  }

  /** Other nodes can read meanwhile: they have both keys. */
  async #rewrapAll(): Promise<void> {
    for (let after: string | undefined; ;) {
      const page = await this.#options.store.sealedCredentials({
        limit: pageSize,
        ...defined({ after }),
      });
      for (const { tenantId, provider, id: recordId, sealed } of page) {
        const to = this.#rewrapped(sealed, { tenantId, provider, recordId });
        if (to !== undefined) {
          await this.#options.store.resealCredential({ tenantId, id: recordId, from: sealed, to });
        }
      }
      after = page.at(-1)?.id;
      if (page.length < pageSize) return;
    }
  }

  /** One that does not unseal is left alone; using it fails. */
  #rewrapped(sealed: string, context: SealContext): string | undefined {
    try {
      return rewrap(sealed, context, this.#options.masters);
    } catch {
      return undefined;
    }
  }
}

/** Whether a store with this note was sealed with that key. */
export function opensWith(note: string, key: MasterKeys[0]): boolean {
  try {
    return unseal(note, checkContext, [key]) === checkText;
  } catch (error) {
    if (error instanceof SealBroken) return false;
    throw error;
  }
}

/** Enough to recognize a key; nothing of a short one. */
function lastOf(apiKey: string): string {
  return apiKey.length >= 12 ? apiKey.slice(-4) : '';
}
