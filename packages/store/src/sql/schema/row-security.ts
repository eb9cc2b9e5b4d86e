/**
 * Row-level security on PostgreSQL, which separates tenants even if a statement forgets to. At each
 * start, after the migrations, the role of tenants is created if possible, and each table gets the
 * policies and privileges that it lacks, in a transaction of its own. See
 * docs/decisions/2026-11-15-row-level-security.md.
 */
import { RelayError } from '@relay/protocol';
import type { Row, SqlDriver } from '../../drivers/driver.ts';
import { plain } from '../statements.ts';
import { number, text } from '../../codec/values.ts';

export const tenantRole = 'relay_tenant';
export const tenantSetting = 'relay.tenant';

/**
 * The tables with rows of tenants, and what a tenant's store does with them. Keys are inserted by the
 * system alone. Journal and audit trail are never deleted from by a tenant.
 */
interface TenantTable {
  readonly name: string;
  /** The column with the tenant's id. */
  readonly column: 'tenant_id' | 'id';
  readonly privileges: readonly Privilege[];
}

type Privilege = 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE';

const privilegeCodes: Readonly<Record<string, Privilege>> = {
  s: 'SELECT',
  i: 'INSERT',
  u: 'UPDATE',
  d: 'DELETE',
};

const tables = {
  actions: 'sid',
  approvals: 'siu',
  audit_entries: 'si',
  audit_seals: 'si',
  audit_unsealed: 'sid',
  channel_members: 'siud',
  channels: 'siu',
  client_calls: 'siu',
  connections: 'sid',
  conversations: 'siu',
  credentials: 'siud',
  deliveries: 'siud',
  events: 'siu',
  grants: 'siu',
  idempotency_keys: 'siud',
  invocations: 'siu',
  keys: 'su',
  memories: 'sid',
  memory_vectors: 'siud',
  message_deliveries: 'siud',
  message_places: 'sid',
  messages: 'siu',
  policies: 'si',
  run_inbox: 'siud',
  run_labels: 'si',
  runs: 'siu',
  session_commands: 'siud',
  session_events: 'sid',
  session_labels: 'sid',
  session_snapshots: 'sid',
  sessions: 'siud',
  snapshots: 'siud',
  tenants: 'su',
  usage_days: 'siu',
  webhooks: 'sid',
  workflow_totals: 'siu',
} as const;

export const tenantTables: readonly TenantTable[] = Object.entries(tables).map(([name, codes]) => ({
  name,
  column: name === 'tenants' ? 'id' : 'tenant_id',
  privileges: codes.split('').flatMap((code) => privilegeCodes[code] ?? []),
}));

/** The tenant of the connection. */
export const currentTenant = `current_setting('${tenantSetting}', true)`;

/**
 * With a tenant in the setting, its rows. Without one all rows, so that the system and an older Relay
 * work, but none for the role of tenants, so that a forgotten setting shows nothing.
 */
function rowsOfTenant(column: string): string {
  return `${column} = ${currentTenant} OR
    (current_user <> '${tenantRole}' AND COALESCE(${currentTenant}, '') = '')`;
}

interface DatabaseRole {
  readonly name: string;
  /** Policies do not apply to it. */
  readonly bypassesPolicies: boolean;
  /** May create roles, or grant the role of tenants. */
  readonly mayGrant: boolean;
  readonly exists: boolean;
  readonly maySetRole: boolean;
  /** The role of tenants could see the rows of all of them. */
  readonly isUnsafe: boolean;
}

/** Since PostgreSQL 16 a member is not always allowed to assume the role. */
const membershipPrivilege = `CASE WHEN current_setting('server_version_num')::int >= 160000
  THEN 'SET' ELSE 'MEMBER' END`;

const currentRoleSql = `SELECT quote_ident(me.rolname) AS name, (me.rolsuper OR me.rolbypassrls)::int AS bypasses_policies,
    (me.rolsuper OR me.rolcreaterole
      OR COALESCE(pg_has_role(me.oid, it.oid, 'MEMBER WITH ADMIN OPTION'), false))::int AS may_grant,
    (it.oid IS NOT NULL)::int AS role_exists,
    COALESCE(pg_has_role(me.oid, it.oid, ${membershipPrivilege}), false)::int AS may_set_role,
    COALESCE(it.rolsuper OR it.rolbypassrls OR pg_has_role(it.oid, me.oid, 'MEMBER'), false)::int
      AS is_unsafe
  FROM pg_roles me LEFT JOIN pg_roles it ON it.rolname = '${tenantRole}'
  WHERE me.rolname = current_user`;

/** Roles belong to the whole server: another process may be creating it now. */
const attempts = 5;

const createRole = `CREATE ROLE ${tenantRole} NOLOGIN NOINHERIT`;
const grantRole = `GRANT ${tenantRole} TO CURRENT_USER`;

export async function protectRows(driver: SqlDriver): Promise<void> {
  const role = await ensureRole(driver);
  if (role.isUnsafe) {
    throw new RelayError(
      'storage_failed',
      `The role ${tenantRole} can see the rows of all tenants: it must not be a superuser, have BYPASSRLS or be a member of ${role.name}`,
    );
  }
  if (role.bypassesPolicies && !role.maySetRole) throw isolationUnavailable(role.name);
  const states = await readTables(driver);
  for (const table of tenantTables) {
    const state = states.get(table.name);
    if (state === undefined) continue;
    const missing = missingStatements(table, state, role);
    if (missing.length > 0) await change(driver, table.name, missing);
  }
  if (role.maySetRole) await grantAccess(driver);
}

export function isolationUnavailable(role: string): RelayError {
  return new RelayError(
    'storage_failed',
    `The role ${role} sees the rows of all tenants, and cannot SET ROLE to ${tenantRole} instead: let an administrator run CREATE ROLE ${tenantRole} NOLOGIN NOINHERIT, if it is not there, and GRANT ${tenantRole} TO ${role}`,
  );
}

async function ensureRole(driver: SqlDriver): Promise<DatabaseRole> {
  for (let attempt = 1; ; attempt += 1) {
    const role = await readRole(driver);
    if (role.maySetRole || !role.mayGrant || attempt > attempts) return role;
    const unit = [...(role.exists ? [] : [createRole]), grantRole].map(plain);
    await driver.transact(unit).catch(() => undefined);
  }
}

async function readRole(driver: SqlDriver): Promise<DatabaseRole> {
  const [row] = await driver.read(currentRoleSql, []);
  if (row === undefined) {
    throw new RelayError('storage_failed', 'The database does not report the current role');
  }
  const holds = (column: string) => number(row, column) === 1;
  return {
    name: text(row, 'name'),
    bypassesPolicies: holds('bypasses_policies'),
    mayGrant: holds('may_grant'),
    exists: holds('role_exists'),
    maySetRole: holds('may_set_role'),
    isUnsafe: holds('is_unsafe'),
  };
}

/** Advice for an operator whose tables are protected by the setting alone. */
export async function adviceOnRows(driver: SqlDriver): Promise<string | undefined> {
  const role = await readRole(driver);
  if (role.maySetRole) return undefined;
  const missing = role.exists ? '' : `${createRole}; `;
  return `Tenants are isolated by a session setting only, because ${role.name} cannot SET ROLE to ${tenantRole}. To isolate them by a role as well, let an administrator run: ${missing}GRANT ${tenantRole} TO ${role.name}; and restart`;
}

const tablesSql = `SELECT c.relname AS name,
    pg_has_role(c.relowner, 'USAGE')::int AS is_owner,
    (c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (
      SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'rows_of_tenant'
    ))::int AS is_protected,
    EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid
      AND p.polname = 'rows_of_system')::int AS has_system,
    EXISTS (SELECT 1 FROM pg_policy p JOIN pg_roles me ON me.oid = ANY (p.polroles)
      WHERE p.polrelid = c.oid AND p.polname = 'rows_of_system' AND me.rolname = current_user
    )::int AS has_own_system,
    COALESCE((SELECT string_agg(a.privilege_type, ' ') FROM aclexplode(c.relacl) a
      JOIN pg_roles r ON r.oid = a.grantee WHERE r.rolname = '${tenantRole}'), '') AS granted
  FROM pg_class c
  WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident(current_schema()))`;

async function readTables(driver: SqlDriver): Promise<Map<string, Row>> {
  const rows = await driver.read(tablesSql, []);
  return new Map(rows.map((row) => [text(row, 'name'), row]));
}

/** A role that may not change a table must find it protected, or the start fails. */
function missingStatements(table: TenantTable, state: Row, role: DatabaseRole): string[] {
  const { name, column, privileges } = table;
  const holds = (field: string) => number(state, field) === 1;
  const granted = text(state, 'granted').split(' ');
  const isMissing = privileges.some((privilege) => !granted.includes(privilege));
  const isTooMuch = granted.some((each) => each !== '' && !privileges.some((p) => p === each));
  const isSystem = role.maySetRole && !role.bypassesPolicies && holds('is_owner');
  return [
    ...(holds('is_protected') ? [] : protection(name, column)),
    ...(isSystem && !holds('has_own_system') ? forSystem(name) : []),
    ...(!role.maySetRole && holds('has_system') ? [`DROP POLICY rows_of_system ON ${name}`] : []),
    ...(role.maySetRole && isTooMuch ? [`REVOKE ALL ON ${name} FROM ${tenantRole}`] : []),
    ...(role.maySetRole && (isMissing || isTooMuch)
      ? [`GRANT ${privileges.join(', ')} ON ${name} TO ${tenantRole}`]
      : []),
  ];
}

/** In one transaction: a table with security and without a policy shows no rows. */
function protection(name: string, column: string): string[] {
  return [
    `DROP POLICY IF EXISTS rows_of_tenant ON ${name}`,
    `CREATE POLICY rows_of_tenant ON ${name} USING (${rowsOfTenant(column)})`,
    `ALTER TABLE ${name} ENABLE ROW LEVEL SECURITY`,
    `ALTER TABLE ${name} FORCE ROW LEVEL SECURITY`,
  ];
}

/** The owner is the system, if tenants have a role of their own. */
function forSystem(name: string): string[] {
  return [
    `DROP POLICY IF EXISTS rows_of_system ON ${name}`,
    `CREATE POLICY rows_of_system ON ${name} TO CURRENT_USER USING (true)`,
  ];
}

const accessSql = `SELECT quote_ident(current_schema()) AS schema,
    has_schema_privilege('${tenantRole}', current_schema(), 'USAGE')::int AS may_enter,
    COALESCE((SELECT string_agg(p.oid::regprocedure::text, ', ') FROM pg_proc p
      WHERE p.proname IN ('relay_search_memories', 'relay_search_messages')
        AND p.pronamespace = to_regnamespace(quote_ident(current_schema()))
        AND (has_function_privilege('public', p.oid, 'EXECUTE')
          OR NOT has_function_privilege('${tenantRole}', p.oid, 'EXECUTE'))), '') AS functions`;

/** Access to the schema, and to the search for memories and messages, for this role alone. */
async function grantAccess(driver: SqlDriver): Promise<void> {
  const [row] = await driver.read(accessSql, []);
  if (row === undefined) return;
  const schema = text(row, 'schema');
  const functions = text(row, 'functions');
  const missing = [
    ...(number(row, 'may_enter') === 1 ? [] : [`GRANT USAGE ON SCHEMA ${schema} TO ${tenantRole}`]),
    ...(functions === ''
      ? []
      : [
          `REVOKE EXECUTE ON FUNCTION ${functions} FROM PUBLIC`,
          `GRANT EXECUTE ON FUNCTION ${functions} TO ${tenantRole}`,
        ]),
  ];
  if (missing.length > 0) await change(driver, `schema ${schema}`, missing);
}

/** Processes that start together take turns. */
export const migrationLock = `SELECT pg_advisory_xact_lock(hashtext('relay migrations'))`;

async function change(driver: SqlDriver, what: string, texts: readonly string[]): Promise<void> {
  try {
    await driver.transact([migrationLock, ...texts].map(plain));
  } catch (error) {
    const { cause } = error as { cause?: unknown };
    const why = cause instanceof Error ? cause.message : String(error);
    throw new RelayError(
      'storage_failed',
      `Row-level security cannot be enabled for ${what}: ${why}`,
      { cause: error },
    );
  }
}
