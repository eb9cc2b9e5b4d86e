/**
 * The vault: API keys of providers, encrypted before they are stored and decrypted only for the call that
 * needs them. Secrets are never logged or returned by the API.
 */
import type { CredentialRecord, Ids, NewAuditEntry, SystemStore } from '@relay/core';
import { defined, RelayError } from '@relay/protocol';
import { ConfigError } from '../config/config.ts';
import type { ProviderKey } from '../config/provider-keys.ts';
import type { ServerLog } from '../observability/log.ts';
import type { MasterKeys } from './master-key.ts';
import {
  contextOfStore,
  type SecretContext,
  rewrap,
  encryptSecret,
  DecryptionFailed,
  decryptSecret,
} from './secret-encryption.ts';

export interface Credential {
  readonly apiKey: string;
  readonly label: string | null;
  readonly baseUrl: string | null;
}

export interface VaultOptions {
  readonly store: SystemStore;
  readonly masters: MasterKeys;
  readonly ids: Ids;
  /** Redacts every key that is stored or decrypted. */
  readonly log: Pick<ServerLog, 'addSecret'>;
}

const checkName = 'vault-check';
const keyCheckValue = 'relay';
const checkContext = contextOfStore(checkName);
const pageSize = 100;

export class Vault {
  readonly #options: VaultOptions;
  /** Of the environment, by provider. They are encrypted like stored ones. */
  readonly #environment = new Map<string, CredentialRecord>();
  #environmentTenantId: string | undefined;
  readonly #listeners = new Set<(tenantId: string | undefined) => void>();

  constructor(options: VaultOptions) {
    this.#options = options;
  }

  /**
   * Throws if the store was encrypted with another master key. Then rewraps the records of the previous
   * one, and signs the rows anew that it authenticated.
   */
  async open(): Promise<void> {
    const { store, masters } = this.#options;
    const [current] = masters;
    const newCheck = encryptSecret(keyCheckValue, checkContext, current);
    if (await store.writeMetadata(checkName, newCheck, { ifAbsent: true })) return;
    const storedCheck = (await store.readMetadata(checkName)) ?? newCheck;
    try {
      decryptSecret(storedCheck, checkContext, masters);
    } catch (error) {
      if (!(error instanceof DecryptionFailed)) throw error;
      throw new ConfigError(
        'The master key does not match the one that encrypted the stored credentials. To replace ' +
          'it, set RELAY_MASTER_KEY_PREVIOUS to the old one, or to "master-key" for the one in ' +
          'that file of the data folder',
      );
    }
    await this.#rewrapAll();
    if (masters.length > 1) await store.resignRows();
    const again = rewrap(storedCheck, checkContext, masters);
    if (again !== undefined) await store.writeMetadata(checkName, again);
  }

  async put(
    { tenantId, provider }: { tenantId: string; provider: string },
    credential: Credential,
    audit?: readonly NewAuditEntry[],
  ): Promise<CredentialRecord> {
    const record = this.#encrypt({ tenantId, provider }, credential);
    await this.#options.store.tenant(tenantId).putCredential(record, audit);
    this.changed(tenantId);
    return record;
  }

  #encrypt(
    { tenantId, provider }: { tenantId: string; provider: string },
    credential: Credential,
  ): CredentialRecord {
    const { masters, ids, log } = this.#options;
    log.addSecret(credential.apiKey);
    const recordId = ids.next();
    const now = Date.now();
    return {
      id: recordId,
      provider,
      label: credential.label,
      baseUrl: credential.baseUrl,
      last4: lastOf(credential.apiKey),
      sealed: encryptSecret(
        credential.apiKey,
        { tenantId, provider, recordId, baseUrl: credential.baseUrl, label: credential.label },
        masters[0],
      ),
      createdAt: now,
      updatedAt: now,
    };
  }

  /** A tenant uses these where it has stored no credential. They are never stored. */
  useEnvironment(tenantId: string, keys: readonly ProviderKey[]): void {
    this.#environmentTenantId = tenantId;
    for (const { provider, apiKey, baseUrl = null } of keys) {
      const credential = { apiKey, label: null, baseUrl };
      this.#environment.set(provider, this.#encrypt({ tenantId, provider }, credential));
    }
  }

  isFromEnvironment(record: CredentialRecord): boolean {
    return this.#environment.get(record.provider) === record;
  }

  async read(tenantId: string, provider: string): Promise<CredentialRecord | undefined> {
    const stored = await this.#options.store.tenant(tenantId).readCredential(provider);
    return stored ?? this.#environmentOf(tenantId).find((record) => record.provider === provider);
  }

  async list(tenantId: string): Promise<CredentialRecord[]> {
    const stored = await this.#options.store.tenant(tenantId).listCredentials();
    const isStored = (provider: string) => stored.some((record) => record.provider === provider);
    const others = this.#environmentOf(tenantId).filter(({ provider }) => !isStored(provider));
    return [...stored, ...others];
  }

  #environmentOf(tenantId: string): CredentialRecord[] {
    return tenantId === this.#environmentTenantId ? [...this.#environment.values()] : [];
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

  /** A record that cannot be decrypted was moved or changed: it counts as damaged. */
  secretOf(tenantId: string, record: CredentialRecord): string {
    const { provider, id: recordId, sealed, baseUrl, label } = record;
    const context = { tenantId, provider, recordId, baseUrl, label };
    try {
      const secret = decryptSecret(sealed, context, this.#options.masters);
      this.#options.log.addSecret(secret);
      return secret;
    } catch (error) {
      if (!(error instanceof DecryptionFailed)) throw error;
      throw new RelayError(
        'journal_corrupt',
        `The stored credential for ${provider} cannot be decrypted; set it again with PUT /v1/credentials/${provider}`,
      );
    }
  }

  /** Other nodes can read meanwhile: they have both keys. */
  async #rewrapAll(): Promise<void> {
    for (let after: string | undefined; ;) {
      const page = await this.#options.store.sealedCredentials({
        limit: pageSize,
        ...defined({ after }),
      });
      for (const { id: recordId, sealed, ...bound } of page) {
        const { tenantId } = bound;
        const to = this.#rewrapped(sealed, { ...bound, recordId });
        if (to !== undefined) {
          await this.#options.store.resealCredential({ tenantId, id: recordId, from: sealed, to });
        }
      }
      after = page.at(-1)?.id;
      if (page.length < pageSize) return;
    }
  }

  /** One that cannot be decrypted is left alone; using it fails. */
  #rewrapped(sealed: string, context: SecretContext): string | undefined {
    try {
      return rewrap(sealed, context, this.#options.masters);
    } catch {
      return undefined;
    }
  }
}

/** Whether a store with this check value was encrypted with that key. */
export function canDecryptWith(storedCheck: string, key: MasterKeys[0]): boolean {
  try {
    return decryptSecret(storedCheck, checkContext, [key]) === keyCheckValue;
  } catch (error) {
    if (error instanceof DecryptionFailed) return false;
    throw error;
  }
}

/** Enough to recognize a key; nothing of a short one. */
function lastOf(apiKey: string): string {
  return apiKey.length >= 12 ? apiKey.slice(-4) : '';
}
