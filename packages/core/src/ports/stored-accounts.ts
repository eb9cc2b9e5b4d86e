/** Tenants, and the keys and credentials that belong to them, as a store keeps them. */

export interface TenantRecord {
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
  /** While it is paused, nothing of it is taken up by itself. */
  readonly pausedAt: number | null;
  /** Any JSON; `{}` until it is set. `workspace`, if it is text, is the tenant's folder. */
  readonly settings: unknown;
}

/** What is left out stays as it is; settings are replaced as a whole. */
export interface TenantChange {
  readonly pausedAt?: number | null;
  readonly settings?: unknown;
  /** Compare-and-set: nothing is changed if the settings are others by now. */
  readonly settingsWere?: unknown;
}

/** The folder that a tenant's tools work in. */
export interface Workspace {
  readonly tenantId: string;
  readonly folder: string;
}

export interface KeyRecord {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  /** For whom it was made, in the words of whoever made it. */
  readonly owner: string | null;
  readonly scopes: readonly string[];
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

/** A provider's key, readable only with the master key. A tenant has one a provider. */
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

/** What a change of the master key needs of a credential. */
export interface SealedCredential {
  readonly tenantId: string;
  readonly provider: string;
  readonly id: string;
  readonly sealed: string;
}

/** Compare-and-set: it holds only while the credential is still sealed as `from`. */
export interface Resealing {
  readonly tenantId: string;
  readonly id: string;
  readonly from: string;
  readonly to: string;
}

/** Numbers without names: what an operator watches. */
export interface StoreStats {
  readonly runs: { readonly queued: number; readonly running: number; readonly waiting: number };
  readonly approvals: { readonly pending: number; readonly oldestAt: number | null };
}
