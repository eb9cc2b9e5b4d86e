/** Tenants, their API keys and their provider credentials. */
import type { OpenRuns } from './runs.ts';

export interface TenantRecord {
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
  /** Runs of a paused tenant are not resumed, unless a command is waiting. */
  readonly pausedAt: number | null;
  /** Any JSON; `{}` at first. `workspace`, if it is a string, is the tenant's folder. */
  readonly settings: unknown;
}

/** Omitted fields are unchanged. Settings are replaced as a whole. */
export interface TenantChange {
  readonly pausedAt?: number | null;
  readonly settings?: unknown;
  /** Compare-and-set: nothing changes if the stored settings differ from these. */
  readonly expectedSettings?: unknown;
}

export interface Workspace {
  readonly tenantId: string;
  readonly folder: string;
}

/**
 * `console`: a sign-in to the console with an API key. `link`: a sign-in whose login link was not opened yet;
 * opening it gives the record another secret and makes it a `console`.
 */
export type KeyKind = 'api' | 'console' | 'link';

export interface KeyRecord {
  readonly id: string;
  readonly tenantId: string;
  readonly kind: KeyKind;
  /** The API key that signed in, without which the sign-in is not valid. Null for an API key. */
  readonly parent: string | null;
  readonly name: string;
  /** Free text that names the person or program that uses the key. */
  readonly owner: string | null;
  /** Null for a key with scopes of its own choice. */
  readonly role: string | null;
  readonly scopes: readonly string[];
  readonly groups: readonly string[];
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  readonly lastUsedAt: number | null;
  /** The keys that it replaces by rotation, latest first. */
  readonly replaces: readonly string[];
  /** The key that replaces it. */
  readonly replacedBy: string | null;
}

export interface KeyUse {
  readonly tenantId: string;
  readonly keyId: string;
  readonly at: number;
}

/** A new key, and when the one that it replaces expires, unless that is earlier anyway. */
export interface KeyRotation {
  readonly oldKeyId: string;
  readonly oldExpiresAt: number;
  readonly key: KeyRecord;
  readonly hash: string;
}

/** What the opened login link with the hash `linkHash` becomes. */
export interface LinkRedemption {
  readonly tenantId: string;
  readonly linkHash: string;
  readonly hash: string;
  readonly expiresAt: number;
}

/** A provider's API key, encrypted under the master key. A tenant has at most one per provider. */
export interface CredentialRecord {
  readonly id: string;
  readonly provider: string;
  readonly label: string | null;
  readonly baseUrl: string | null;
  readonly last4: string;
  readonly sealed: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The fields of a credential that a change of the master key needs. */
export interface SealedCredential extends Pick<
  CredentialRecord,
  'provider' | 'id' | 'sealed' | 'baseUrl' | 'label'
> {
  readonly tenantId: string;
}

/** Compare-and-set: applies only while the credential is sealed as `from`. */
export interface CredentialReseal {
  readonly tenantId: string;
  readonly id: string;
  readonly from: string;
  readonly to: string;
}

/** A row that decides who may do what, and is not as Relay wrote it: it gives no right. */
export interface DamagedRow {
  readonly table: string;
  readonly id: string;
  readonly tenantId: string;
}

export interface StoreStats {
  readonly runs: OpenRuns;
  readonly approvals: { readonly pending: number; readonly oldestAt: number | null };
}
