/**
 * Whose rows a connection sees. What is done for a tenant runs under a role that owns nothing, with the
 * tenant in a setting, and the policies of the tables (`sql/schema/row-security.ts`) compare each row with it.
 * Where there is no such role, the setting alone confines, because policies hold for owners too.
 *
 * Both are set together with what is sent anyway, in one text: for the rest of a transaction (LOCAL),
 * or until a connection is used for another tenant (SESSION).
 */
import { RelayError } from '@relay/protocol';
import { escapeLiteral } from 'pg';
import type { PostgresSession } from './session.ts';

export const tenantRole = 'relay_tenant';
export const tenantSetting = 'relay.tenant';

type Level = 'LOCAL' | 'SESSION';

/** A tenant, and how its statements are confined. Left out where one could be: the system. */
export interface Binding {
  readonly tenantId: string;
  readonly bounds: TenantBounds;
}

export interface TenantBounds {
  readonly byRole: boolean;
  /** Who we are without it, as it is written in SQL. */
  readonly system: string;
  /** The schemas by name, where they follow from who we are. */
  readonly schemas: string | undefined;
}

/** What brings a connection from one to the other; nothing where they are the same. */
export function crossing(from: Binding | undefined, to: Binding | undefined, level: Level): string {
  if (from?.tenantId === to?.tenantId) return '';
  if (to === undefined) return from === undefined ? '' : leaving(from.bounds, level);
  const tenant = `SET ${level} ${tenantSetting} = ${escapeLiteral(to.tenantId)};`;
  const { byRole, schemas } = to.bounds;
  if (!byRole || from !== undefined) return tenant;
  const path = schemas === undefined ? '' : `SET ${level} search_path = ${schemas};`;
  return `${path}SET ${level} ROLE ${tenantRole};${tenant}`;
}

function leaving({ byRole, system }: TenantBounds, level: Level): string {
  const setting = `SET ${level} ${tenantSetting} = '';`;
  return byRole ? `SET ${level} ROLE ${system};${setting}` : setting;
}

const whoSql = `SELECT quote_ident(current_user) AS system,
    (rolsuper OR rolbypassrls)::int AS unbounded,
    EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '${tenantRole}')::int AS known,
    CASE WHEN current_user = ANY (current_schemas(false)) THEN
      (SELECT string_agg(quote_ident(name), ', ') FROM unnest(current_schemas(false)) AS name)
    END AS schemas
  FROM pg_roles WHERE rolname = current_user`;

/** How tenants are confined under the current role. Throws if they cannot be. */
export async function findBounds(session: PostgresSession): Promise<TenantBounds> {
  const [who] = (await session.query(whoSql, [])).rows;
  if (who === undefined) throw new Error('PostgreSQL does not report the current role');
  const byRole = Number(who['known']) === 1 && (await mayAssume(session));
  if (!byRole && Number(who['unbounded']) === 1) {
    throw unbounded(String(who['system']));
  }
  const { schemas } = who;
  return {
    byRole,
    system: String(who['system']),
    schemas: typeof schemas === 'string' ? schemas : undefined,
  };
}

export function unbounded(role: string): RelayError {
  return new RelayError(
    'storage_failed',
    `The role ${role} sees the rows of all tenants, and cannot take on the role ${tenantRole} instead: let an administrator run CREATE ROLE ${tenantRole} NOLOGIN NOINHERIT, if it is not there, and GRANT ${tenantRole} TO ${role}`,
  );
}

async function mayAssume(session: PostgresSession): Promise<boolean> {
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
