/** Policies: each version is a row that is never changed. */
import type { NewAuditEntry, Page, PolicyRecord, PolicyStore } from '@relay/core';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { insertAudit } from './audit.ts';
import { selectRows } from '../lists.ts';
import { placeholders, readAll } from '../statements.ts';
import { checkIntact, checksumOf, encode, json, number, text } from '../../codec/values.ts';

const columns = ['id', 'tenant_id', 'agent', 'version', 'rules', 'at', 'made_by'] as const;

const insertSql = `INSERT INTO policies (${columns.join(', ')}, checksum)
  SELECT ${placeholders(columns.length + 1)}
  WHERE ? = (SELECT COALESCE(MAX(p.version), 0) + 1 FROM policies p
    WHERE p.tenant_id = ? AND p.agent = ?)
  ON CONFLICT DO NOTHING`;

function insertPolicy(tenantId: string, policy: PolicyRecord): Statement {
  const { id, version, rules, at, by } = policy;
  // JSON, so that no agent's name is taken for all agents.
  const agent = encode(policy.agent);
  const fixed = [id, tenantId, agent, version, encode(rules), at, encode(by)];
  const params = [...fixed, checksumOf(...fixed), version, tenantId, agent];
  return { sql: insertSql, params, expect: 1 };
}

export const selectInForceSql = `SELECT ${columns.join(', ')}, checksum FROM policies r
  WHERE r.tenant_id = ? AND r.agent IN (?, ?) AND r.version = (
    SELECT MAX(p.version) FROM policies p WHERE p.tenant_id = r.tenant_id AND p.agent = r.agent
  )`;

export function selectVersions(tenantId: string, agent: string | null, page: Page): Statement {
  const leading = [{ sql: 't.agent = ?', params: [encode(agent)] }];
  const list = { tenantId, table: 'policies', at: 'version', leading };
  return selectRows(list, [...columns, 'checksum'], page);
}

export class SqlPolicyStore implements PolicyStore {
  readonly #driver: SqlAccess;
  readonly #tenantId: string;

  constructor(driver: SqlAccess, tenantId: string) {
    this.#driver = driver;
    this.#tenantId = tenantId;
  }

  async inForce(agent: string): Promise<PolicyRecord[]> {
    const params = [this.#tenantId, encode(null), encode(agent)];
    const found = await readAll(this.#driver, { sql: selectInForceSql, params }, decodePolicy);
    return found.toSorted((one) => (one.agent === null ? -1 : 1));
  }

  async read(agent: string | null): Promise<PolicyRecord | undefined> {
    return (await this.versions(agent, { limit: 1 }))[0];
  }

  async put(policy: PolicyRecord, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const unit = [insertPolicy(this.#tenantId, policy), ...insertAudit(this.#tenantId, audit)];
    return (await this.#driver.transact(unit)).ok;
  }

  versions(agent: string | null, page: Page): Promise<PolicyRecord[]> {
    return readAll(this.#driver, selectVersions(this.#tenantId, agent, page), decodePolicy);
  }
}

/** Rules decide what runs: damaged ones must not be applied. */
function decodePolicy(row: Row): PolicyRecord {
  const id = text(row, 'id');
  checkIntact(`Policy ${id}`, row, columns);
  return {
    id,
    agent: json(row, 'agent') as string | null,
    version: number(row, 'version'),
    rules: json(row, 'rules') as PolicyRecord['rules'],
    at: number(row, 'at'),
    by: json(row, 'made_by') as PolicyRecord['by'],
  };
}
