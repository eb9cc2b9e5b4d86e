/**
 * Which tables hold rows of tenants, and what the port that is bound to a tenant does with them. All
 * else is the system's: keys are made by it, the journal and the audit trail are only added to.
 */
import { tenantRole, tenantSetting } from '../../drivers/postgres/bounds.ts';

export interface TenantTable {
  readonly name: string;
  /** The column that says whose row it is. */
  readonly column: 'tenant_id' | 'id';
  readonly privileges: readonly Privilege[];
}

export type Privilege = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE';

const letters: Readonly<Record<string, Privilege>> = {
  s: 'SELECT',
  i: 'INSERT',
  u: 'UPDATE',
  d: 'DELETE',
};

const tables = {
  approvals: 'siu',
  audit_entries: 'siu',
  audit_seals: 'si',
  client_calls: 'siu',
  connections: 'sid',
  conversations: 'siu',
  credentials: 'siud',
  deliveries: 'sid',
  events: 'si',
  grants: 'siu',
  idempotency_keys: 'siud',
  keys: 'su',
  memories: 'sid',
  memory_vectors: 'siud',
  policies: 'si',
  run_inbox: 'siud',
  run_labels: 'si',
  runs: 'siu',
  snapshots: 'siud',
  tenants: 'su',
  usage_days: 'siu',
  webhooks: 'sid',
} as const;

export const tenantTables: readonly TenantTable[] = Object.entries(tables).map(([name, may]) => ({
  name,
  column: name === 'tenants' ? 'id' : 'tenant_id',
  privileges: may.split('').flatMap((letter) => letters[letter] ?? []),
}));

/** The tenant that the connection works for. */
export const currentTenant = `current_setting('${tenantSetting}', true)`;

/**
 * With a tenant in the setting, its rows. Without one, all of them, but never for the tenants' role: so
 * the system works, and a Relay that knows nothing of this, and who forgets the setting sees nothing.
 */
export function rowsOfTenant(column: string): string {
  return `${column} = ${currentTenant} OR
    (current_user <> '${tenantRole}' AND COALESCE(${currentTenant}, '') = '')`;
}
