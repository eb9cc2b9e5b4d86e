import type {
  ChannelMember,
  ChannelRecord,
  ChannelStore,
  ListedMember,
  NewAuditEntry,
} from '@relay/core';
import { RelayError } from '@relay/protocol';
import type { Row, SqlAccess, Statement } from '../../drivers/driver.ts';
import { byDialect, insertInto, placeholders, readAll, readOne } from '../statements.ts';
import { column, RecordCodec } from '../../codec/records.ts';
import { text } from '../../codec/values.ts';
import { type RowSigner, SignedTable } from '../../codec/signed-table.ts';
import { insertAudit } from '../tenants/audit.ts';

const codec = new RecordCodec<ChannelRecord>({
  name: column.text(),
  topic: column.nullable(column.freeText),
  createdAt: column.number,
  createdBy: column.json(),
});

/** A member may read the channel's messages. */
export const memberTable = new SignedTable<ChannelMember & { readonly tenantId: string }>({
  name: 'channel_members',
  subject: 'The member',
  key: ['tenant_id', 'channel', 'session_id'],
  codecs: {
    tenantId: column.text(),
    channel: column.text(),
    sessionId: column.text(),
    addedAt: column.number,
  },
});

const insertSql = `${insertInto('channels', ['tenant_id', ...codec.columns])}
  ON CONFLICT (tenant_id, name) DO`;
const keepSql = `${insertSql} NOTHING`;
const replaceSql = `${insertSql} UPDATE SET topic = excluded.topic`;

const read = codec.columns.join(', ');
export const selectChannelSql = `SELECT ${read} FROM channels WHERE tenant_id = ? AND name = ?`;
export const selectChannelsSql = `SELECT ${read} FROM channels
  WHERE tenant_id = ? AND name > ? ORDER BY name LIMIT ?`;

const members = memberTable.columns.join(', ');
/** The function around the tenant keeps PostgreSQL from reading all sessions of the tenant. */
export const selectMembersSql = `SELECT ${memberTable.columns.map((name) => `m.${name}`).join(', ')}, s.handle
  FROM channel_members m JOIN sessions s
    ON s.id = m.session_id AND COALESCE(s.tenant_id, '') = m.tenant_id
  WHERE m.tenant_id = ? AND m.channel = ? ORDER BY m.session_id`;
export const selectChannelsOfSql = `SELECT ${members} FROM channel_members
  WHERE COALESCE(tenant_id, '') = ? AND session_id = ? ORDER BY channel`;

/** PostgreSQL locks the session's row, so that it is not released meanwhile. */
const insertMemberSql = byDialect(
  (dialect) => `INSERT INTO channel_members (${members})
    SELECT ${placeholders(memberTable.columns.length)} FROM sessions s
    WHERE s.tenant_id = ? AND s.id = ? AND s.released_at IS NULL AND s.pruning IS NULL
      AND EXISTS (SELECT 1 FROM channels c WHERE c.tenant_id = s.tenant_id AND c.name = ?)
    ${dialect === 'sqlite' ? '' : 'FOR NO KEY UPDATE OF s'}
    ON CONFLICT (tenant_id, channel, session_id) DO UPDATE
      SET added_at = excluded.added_at, mac = excluded.mac`,
);
const deleteMemberSql = `DELETE FROM channel_members
  WHERE tenant_id = ? AND channel = ? AND session_id = ?`;

export class SqlChannelStore implements ChannelStore {
  readonly #driver: SqlAccess;
  readonly #signer: RowSigner;
  readonly #tenantId: string;

  constructor(driver: SqlAccess, signer: RowSigner, tenantId: string) {
    this.#driver = driver;
    this.#signer = signer;
    this.#tenantId = tenantId;
  }

  async put(
    channel: Omit<ChannelRecord, 'topic'> & { readonly topic?: string | null },
    audit?: readonly NewAuditEntry[],
  ): Promise<ChannelRecord> {
    const { name, topic } = channel;
    const params = [this.#tenantId, ...codec.encode({ ...channel, topic: topic ?? null })];
    await this.#change({ sql: topic === undefined ? keepSql : replaceSql, params }, audit);
    const stored = await this.read(name);
    if (stored === undefined) throw new RelayError('storage_failed', 'The channel was not stored');
    return stored;
  }

  read(name: string): Promise<ChannelRecord | undefined> {
    const statement = { sql: selectChannelSql, params: [this.#tenantId, name] };
    return readOne(this.#driver, statement, (row) => codec.decode(row));
  }

  list({ after = '', limit }: { after?: string; limit: number }): Promise<ChannelRecord[]> {
    const statement = { sql: selectChannelsSql, params: [this.#tenantId, after, limit] };
    return readAll(this.#driver, statement, (row) => codec.decode(row));
  }

  members(name: string): Promise<ListedMember[]> {
    const statement = { sql: selectMembersSql, params: [this.#tenantId, name] };
    return this.#members(statement, (member, row) => ({ ...member, handle: text(row, 'handle') }));
  }

  async channelsOf(sessionId: string): Promise<string[]> {
    const params = [this.#tenantId, sessionId];
    return this.#members({ sql: selectChannelsOfSql, params }, ({ channel }) => channel);
  }

  /** A row that is not as it was written makes nobody a member. */
  async #members<Item>(
    { sql, params }: Statement,
    itemOf: (member: ChannelMember, row: Row) => Item,
  ): Promise<Item[]> {
    const rows = await this.#driver.read(sql, params);
    return rows.flatMap((row) => {
      const member = memberTable.find(this.#signer, row);
      if (member === undefined) return [];
      const { tenantId: _, ...rest } = member;
      return [itemOf(rest, row)];
    });
  }

  async addMember(member: ChannelMember, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    const { channel, sessionId } = member;
    const values = memberTable.encode(this.#signer, { ...member, tenantId: this.#tenantId });
    const params = [...values, this.#tenantId, sessionId, channel];
    return this.#change({ sql: insertMemberSql[this.#driver.dialect], params, expect: 1 }, audit);
  }

  async removeMember(
    { channel, sessionId }: Pick<ChannelMember, 'channel' | 'sessionId'>,
    audit?: readonly NewAuditEntry[],
  ): Promise<boolean> {
    const params = [this.#tenantId, channel, sessionId];
    return this.#change({ sql: deleteMemberSql, params, expect: 1 }, audit);
  }

  async #change(statement: Statement, audit?: readonly NewAuditEntry[]): Promise<boolean> {
    return (await this.#driver.transact([statement, ...insertAudit(this.#tenantId, audit)])).ok;
  }
}
