/**
 * The rows that a connection sees. Statements of a tenant run under a role without ownership and with
 * the tenant in a setting, which the policies of the tables (`sql/schema/row-security.ts`) compare each
 * row with. Without that role the setting alone confines, because the policies are forced on owners.
 *
 * Both are set in the text of another command: for the rest of a transaction (LOCAL), or until the
 * connection serves another tenant (SESSION).
 */
import { escapeLiteral } from 'pg';
import { isolationUnavailable, tenantRole, tenantSetting } from '../../sql/schema/row-security.ts';
import type { PostgresSession } from './session.ts';

type Level = 'LOCAL' | 'SESSION';

/** A tenant and how its statements are confined. `undefined` stands for the system. */
export interface Binding {
  readonly tenantId: string;
  readonly isolation: TenantIsolation;
}

export interface TenantIsolation {
  readonly byRole: boolean;
  /** The system's own role, quoted. */
  readonly system: string;
  /** The search path, if it depends on the current role. */
  readonly schemas: string | undefined;
}

/** The SQL that switches a connection; empty if nothing changes. */
export function switchTenantSql(
  from: Binding | undefined,
  to: Binding | undefined,
  level: Level,
): string {
  if (from?.tenantId === to?.tenantId) return '';
  if (to === undefined) return from === undefined ? '' : resetTenantSql(from.isolation, level);
  const tenant = `SET ${level} ${tenantSetting} = ${escapeLiteral(to.tenantId)};`;
  const { byRole, schemas } = to.isolation;
  if (!byRole || from !== undefined) return tenant;
  const path = schemas === undefined ? '' : `SET ${level} search_path = ${schemas};`;
  return `${path}SET ${level} ROLE ${tenantRole};${tenant}`;
}

function resetTenantSql({ byRole, system }: TenantIsolation, level: Level): string {
  const setting = `SET ${level} ${tenantSetting} = '';`;
  return byRole ? `SET ${level} ROLE ${system};${setting}` : setting;
}

const currentRoleSql = `SELECT quote_ident(current_user) AS system,
    (rolsuper OR rolbypassrls)::int AS unbounded,
    EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '${tenantRole}')::int AS known,
    CASE WHEN current_user = ANY (current_schemas(false)) THEN
      (SELECT string_agg(quote_ident(name), ', ') FROM unnest(current_schemas(false)) AS name)
    END AS schemas
  FROM pg_roles WHERE rolname = current_user`;

/** How tenants are confined under the current role. Throws if they cannot be. */
export async function readTenantIsolation(session: PostgresSession): Promise<TenantIsolation> {
  const [role] = (await session.query(currentRoleSql, [])).rows;
  if (role === undefined) throw new Error('PostgreSQL does not report the current role');
  const byRole = Number(role['known']) === 1 && (await maySetRole(session));
  if (!byRole && Number(role['unbounded']) === 1) {
    throw isolationUnavailable(String(role['system']));
  }
  const { schemas } = role;
  return {
    byRole,
    system: String(role['system']),
    schemas: typeof schemas === 'string' ? schemas : undefined,
  };
}

async function maySetRole(session: PostgresSession): Promise<boolean> {
  try {
    await session.command(`BEGIN; SET LOCAL ROLE ${tenantRole}`);
    return true;
  } catch (error) {
    // Not a member of it.
    if ((error as { code?: unknown }).code === '42501') return false;
    throw error;
  } finally {
    await session.command('ROLLBACK').catch(() => undefined);
  }
}
