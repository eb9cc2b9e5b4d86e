import type {
  Append,
  EndedRun,
  EventRange,
  Grant,
  Mail,
  RelayDecision,
  RelayRecord,
  RunCreation,
  RunHead,
  RunRecord,
  TenantStore,
} from '@relay/core';
import { isEnded, RelayError } from '@relay/protocol';
import type { StoredEvent } from '@relay/protocol';
import type { SqlDriver } from '../drivers/driver.ts';
import { appendUnit } from './append.ts';
import { deleteConnectionSql, insertConnection, selectConnectionSql } from './connections.ts';
import { countEndedSql, countEnding, selectEndedSql } from './conversations.ts';
import { decodeJournal, insertEvents, selectEventsParams, selectEventsSql } from './events.ts';
import { decodeGrant, insertGrant, selectGrantsParams, selectGrantsSql } from './grants.ts';
import { decodeMail, insertMail, selectMailSql } from './mail.ts';
import { decide, decodeRelay, selectRelaySql } from './relays.ts';
import { decodeRun, decodeRunHead, insertRun, selectRunSql } from './runs.ts';
import { putSnapshot } from './snapshots.ts';
import { integer, text } from './stored.ts';

export class SqlTenantStore implements TenantStore {
  readonly tenantId: string;
  readonly #driver: SqlDriver;

  constructor(driver: SqlDriver, tenantId: string) {
    this.#driver = driver;
    this.tenantId = tenantId;
  }

  async createRun(creation: RunCreation): Promise<void> {
    const { tenantId } = this;
    const { identity, events, progress = {}, connection } = creation;
    if (identity.tenantId !== tenantId) {
      throw new RelayError('internal', 'A run can only be made in its own tenant');
    }
    const { id: runId, createdAt: at } = identity;
    await this.#driver.transact([
      insertRun(tenantId, creation),
      ...insertEvents({ tenantId, runId, afterSeq: 0, at, events }),
      ...putSnapshot({ tenantId, runId }, progress),
      ...(connection === undefined ? [] : [insertConnection(tenantId, runId, connection)]),
      ...(isEnded(progress.status ?? 'queued') ? countEnding({ tenantId, runId }) : []),
    ]);
  }

  async readRun(runId: string): Promise<RunRecord | undefined> {
    const [row] = await this.#driver.read(selectRunSql, [this.tenantId, runId]);
    return row === undefined ? undefined : decodeRun(row);
  }

  async readRunHead(runId: string): Promise<RunHead | undefined> {
    const [row] = await this.#driver.read(selectRunSql, [this.tenantId, runId]);
    return row === undefined ? undefined : decodeRunHead(row);
  }

  async append(append: Append): Promise<'committed' | 'fenced'> {
    const result = await this.#driver.transact(appendUnit(this.tenantId, append));
    return result.ok ? 'committed' : 'fenced';
  }

  async readEvents(runId: string, range: EventRange): Promise<StoredEvent[]> {
    const { tenantId } = this;
    const params = selectEventsParams(tenantId, runId, range);
    const rows = await this.#driver.read(selectEventsSql, params);
    return decodeJournal({ tenantId, runId }, range, rows);
  }

  async readRelay(relayId: string): Promise<RelayRecord | undefined> {
    const [row] = await this.#driver.read(selectRelaySql, [this.tenantId, relayId]);
    return row === undefined ? undefined : decodeRelay(row);
  }

  async decideRelay(decision: RelayDecision): Promise<boolean> {
    const { runId, mail, grant } = decision;
    const result = await this.#driver.transact([
      decide(this.tenantId, decision),
      insertMail({ tenantId: this.tenantId, runId }, mail),
      ...(grant === undefined ? [] : [insertGrant(this.tenantId, grant)]),
    ]);
    return result.ok;
  }

  async readGrants(scope: { runId: string; conversationId: string }): Promise<Grant[]> {
    const params = selectGrantsParams(this.tenantId, scope);
    return (await this.#driver.read(selectGrantsSql, params)).map(decodeGrant);
  }

  async postMail(runId: string, mail: Mail): Promise<boolean> {
    const result = await this.#driver.transact([
      insertMail({ tenantId: this.tenantId, runId }, mail),
    ]);
    return result.ok;
  }

  async readMail(runId: string): Promise<Mail[]> {
    return (await this.#driver.read(selectMailSql, [this.tenantId, runId])).map(decodeMail);
  }

  async countEndedRuns(conversationId: string): Promise<number> {
    const [row] = await this.#driver.read(countEndedSql, [this.tenantId, conversationId]);
    return row === undefined ? 0 : integer(row, 'ended_runs');
  }

  async endedRuns(
    conversationId: string,
    { after, upTo }: { after: number; upTo: number },
  ): Promise<EndedRun[]> {
    const params = [this.tenantId, conversationId, after, upTo];
    const rows = await this.#driver.read(selectEndedSql, params);
    return rows.map((row) => ({ runId: text(row, 'id'), position: integer(row, 'position') }));
  }

  async findConnection(connectionId: string): Promise<{ runId: string } | undefined> {
    const [row] = await this.#driver.read(selectConnectionSql, [this.tenantId, connectionId]);
    return row === undefined ? undefined : { runId: text(row, 'run_id') };
  }

  async closeConnection(connectionId: string): Promise<void> {
    const params = [this.tenantId, connectionId];
    await this.#driver.transact([{ sql: deleteConnectionSql, params }]);
  }
}
