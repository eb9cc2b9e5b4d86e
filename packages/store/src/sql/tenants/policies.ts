/** Policies: each version is a row that is never changed. */
import type { NewAudit, Page, PolicyRecord, PolicyStore } from '@relay/core';
import type { Decider } from '@relay/protocol';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { insertAudit } from './audit.ts';
import { rowsOn, selectPage } from '../lists.ts';
import { checksumOf, corrupt, encode, integer, json, text } from '../../codec/values.ts';

const columns = ['id', 'tenant_id', 'agent', 'version', 'rules', 'at', 'made_by'] as const;

const insertSql = `INSERT INTO policies (${columns.join(', ')}, checksum)
  SELECT ?, ?, ?, ?, ?, ?, ?, ?
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

const shown = [...columns, 'checksum'].map((column) => `r.${column}`);

export const selectInForceSql = `SELECT ${shown.join(', ')} FROM policies r
  WHERE r.tenant_id = ? AND r.agent IN (?, ?) AND r.version = (
    SELECT MAX(p.version) FROM policies p WHERE p.tenant_id = r.tenant_id AND p.agent = r.agent
  )`;

export function selectVersions(tenantId: string, agent: string | null, page: Page): Statement {
  const leading = [{ sql: 't.agent = ?', params: [encode(agent)] }];
  const list = { tenantId, table: 'policies', at: 'version', id: 'id', leading, others: [] };
  return rowsOn(selectPage(list, page), { tenantId, table: 'policies', columns: shown });
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
    const found = (await this.#driver.read(selectInForceSql, params)).map(decodePolicy);
    return found.toSorted((one) => (one.agent === null ? -1 : 1));
  }

  async read(agent: string | null): Promise<PolicyRecord | undefined> {
    return (await this.versions(agent, { limit: 1 }))[0];
  }

  async put(policy: PolicyRecord, audit?: readonly NewAudit[]): Promise<boolean> {
    const unit = [insertPolicy(this.#tenantId, policy), ...insertAudit(this.#tenantId, audit)];
    return (await this.#driver.transact(unit)).ok;
  }

  async versions(agent: string | null, page: Page): Promise<PolicyRecord[]> {
    const { sql, params } = selectVersions(this.#tenantId, agent, page);
    return (await this.#driver.read(sql, params)).map(decodePolicy);
  }
}

/** Rules decide what runs: damaged ones must not be applied. */
function decodePolicy(row: Row): PolicyRecord {
  const id = text(row, 'id');
  const fixed = columns.map((column) => row[column] as string | number);
  if (checksumOf(...fixed) !== row['checksum']) {
    throw corrupt(`Policy ${id}`, 'it does not match its checksum');
  }
  return {
    id,
    agent: json(row, 'agent') as string | null,
    version: integer(row, 'version'),
    rules: json(row, 'rules') as PolicyRecord['rules'],
    at: integer(row, 'at'),
    by: json(row, 'made_by') as Decider,
  };
}
