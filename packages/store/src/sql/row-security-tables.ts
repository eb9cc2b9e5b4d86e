/**
 * Which tables hold rows of tenants, and what the port that is bound to a tenant does with them. All
 * else is the system's: keys are made by it, the journal and the audit trail are only added to.
 */
import { tenantRole, tenantSetting } from '../drivers/postgres-bounds.ts';

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
  run_inbox: 'siud',
  memories: 'sid',
  memory_vectors: 'siud',
  policies: 'si',
  approvals: 'siu',
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

const current = `current_setting('${tenantSetting}', true)`;

/**
 * With a tenant in the setting, its rows. Without one, all of them, but never for the tenants' role: so
 * the system works, and a Relay that knows nothing of this, and who forgets the setting sees nothing.
 */
export function rowsOfTenant(column: string): string {
  return `${column} = ${current} OR
    (current_user <> '${tenantRole}' AND COALESCE(${current}, '') = '')`;
}

/**
 * The ids of memories of the tenant in the setting, those with the most of the words first; of each word
 * the newest five hundred count. No index of words can be searched under a policy, because its operators
 * might tell of rows that are not shown; so this is searched by whoever owns the table, and gives ids
 * alone, which are read under the policy.
 *
 * The functions around columns leave the intended index as the only way to begin.
 */
export const findMemories = `CREATE FUNCTION
  relay_memories_with(asked TEXT, of_namespace TEXT, now BIGINT, most BIGINT) RETURNS SETOF TEXT
  LANGUAGE sql STABLE SECURITY DEFINER ROWS 50 SET search_path FROM CURRENT AS $$
    SELECT having_it.id FROM unnest(string_to_array(asked, ' ')) AS words (word)
    CROSS JOIN LATERAL (
      SELECT m.id, m.created_at FROM memories m
      WHERE m.lexemes @@ quote_literal(words.word)::tsquery
        AND COALESCE(m.tenant_id, '') = ${current} AND COALESCE(m.namespace, '') = of_namespace
        AND (m.expires_at IS NULL OR m.expires_at > now)
      ORDER BY m.created_at DESC, m.id DESC LIMIT 500
    ) AS having_it
    GROUP BY having_it.id, having_it.created_at
    ORDER BY COUNT(*) DESC, having_it.created_at DESC, having_it.id DESC LIMIT most
  $$`;
