/**
 * Policies: each version is a row that is never changed. The tenant's own row names the versions in
 * force, so that a policy cannot be removed unnoticed.
 */
import type { NewAuditEntry, Page, PolicyRecord, PolicyStore } from '@relay/core';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { insertAudit } from './audit.ts';
import { selectRows } from '../lists.ts';
import { insertInto, readAll } from '../statements.ts';
import { column } from '../../codec/records.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { corrupt, encode } from '../../codec/values.ts';
import { noTenant, selectTenantSql, tenantTable } from './tenants.ts';

type PolicyRow = Omit<PolicyRecord, 'by'> & {
  readonly tenantId: string;
  readonly madeBy: PolicyRecord['by'];
};

export const policyTable = new SignedTable<PolicyRow>({
  name: 'policies',
  subject: 'Policy',
  key: ['id'],
  codecs: {
    id: column.text(),
    tenantId: column.text(),
    // JSON, so that no agent's name is taken for all agents.
    agent: column.json(),
    version: column.number,
    rules: column.json(),
    at: column.number,
    madeBy: column.json(),
  },
});

const { columns } = policyTable;

const insertSql = `${insertInto('policies', columns)} ON CONFLICT DO NOTHING`;

export const selectVersionSql = `SELECT ${columns.join(', ')} FROM policies
  WHERE tenant_id = ? AND agent = ? AND version = ?`;

export function selectVersions(tenantId: string, agent: string | null, page: Page): Statement {
  const leading = [{ sql: 't.agent = ?', params: [encode(agent)] }];
  const list = { tenantId, table: 'policies', at: 'version', leading };
  return selectRows(list, columns, page);
}

export class SqlPolicyStore implements PolicyStore {
  readonly #driver: SqlAccess;
  readonly #signer: RowSigner;
  readonly #tenantId: string;

  constructor(driver: SqlAccess, signer: RowSigner, tenantId: string) {
    this.#driver = driver;
    this.#signer = signer;
    this.#tenantId = tenantId;
  }

  inForce(...agents: readonly string[]): Promise<PolicyRecord[]> {
    return this.#inForce([null, ...new Set(agents)]);
  }

  async read(agent: string | null): Promise<PolicyRecord | undefined> {
    return (await this.#inForce([agent]))[0];
  }

  async put(policy: PolicyRecord, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const { by: madeBy, ...fields } = policy;
    const row = { ...fields, madeBy, tenantId: this.#tenantId };
    const insert = { sql: insertSql, params: policyTable.encode(this.#signer, row), expect: 1 };
    const agent = encode(policy.agent);
    // Repeated if the tenant's row was changed in the meantime, by another policy or new settings.
    for (;;) {
      const tenant = await this.#readTenant();
      if (tenant === undefined) throw noTenant(this.#tenantId);
      const { policies } = tenantTable.decode(this.#signer, tenant);
      if (policy.version !== (policies[agent] ?? 0) + 1) return false;
      const changes = { policies: { ...policies, [agent]: policy.version } };
      const name = tenantTable.update(this.#signer, tenant, changes);
      const unit = [name, insert, ...insertAudit(this.#tenantId, audit)];
      const result = await this.#driver.transact(unit);
      if (result.ok) return true;
      if (unit[result.failedAt] === insert) throw unexpected(policy);
    }
  }

  versions(agent: string | null, page: Page): Promise<PolicyRecord[]> {
    const statement = selectVersions(this.#tenantId, agent, page);
    return readAll(this.#driver, statement, (row) => decodePolicy(this.#signer, row));
  }

  /** Rules decide what runs: one that is missing or was changed might have denied a call. */
  async #inForce(agents: readonly (string | null)[]): Promise<PolicyRecord[]> {
    const tenant = await this.#readTenant();
    if (tenant === undefined) return [];
    const { policies } = tenantTable.decode(this.#signer, tenant);
    const found = await Promise.all(
      agents.map(async (agent) => {
        const version = policies[encode(agent)];
        if (version === undefined) return [];
        const params = [this.#tenantId, encode(agent), version];
        const [row] = await this.#driver.read(selectVersionSql, params);
        if (row !== undefined) return [decodePolicy(this.#signer, row)];
        const id = `${agent ?? '*'}@${version}`;
        this.#signer.report({ table: 'policies', id, tenantId: this.#tenantId });
        throw corrupt(`The policy ${id}`, 'it is missing. Put the policy again');
      }),
    );
    return found.flat();
  }

  async #readTenant(): Promise<Row | undefined> {
    const [row] = await this.#driver.read(selectTenantSql, [this.#tenantId]);
    return row;
  }
}

function decodePolicy(signer: RowSigner, row: Row): PolicyRecord {
  const { tenantId: _, madeBy: by, ...fields } = policyTable.decode(signer, row);
  return { ...fields, by };
}

function unexpected({ agent, version }: PolicyRecord): Error {
  const id = `${agent ?? '*'}@${version}`;
  return corrupt(`The policy ${id}`, 'there is a version that is not in force');
}
