/** That every query is answered by an index, so that its cost does not grow with what is over. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SqlDriver } from '../drivers/driver.ts';
import { openSqliteDriver } from '../drivers/sqlite.ts';
import { selectConnectionSql } from './connections.ts';
import { countEndedSql, selectEndedSql } from './conversations.ts';
import { selectEventsSql } from './events.ts';
import { selectGrantsSql } from './grants.ts';
import { selectKeySql } from './keys.ts';
import { claim, dueSql, reclaimSql } from './leases.ts';
import { deleteAllMail, selectMailSql } from './mail.ts';
import { migrate } from './migrations.ts';
import { decide, selectRelaySql } from './relays.ts';
import { selectRunSql } from './runs.ts';
import { approval, newRelay } from '../contract/fixtures.ts';

describe('query plans', () => {
  let dir: string;
  let driver: SqlDriver;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'relay-plans-'));
    driver = await openSqliteDriver({ path: join(dir, 'test.db') });
    await migrate(driver);
  });
  afterAll(async () => {
    await driver.close();
    rmSync(dir, { recursive: true, force: true });
  });

  async function plan(sql: string): Promise<string[]> {
    const rows = await driver.read(`EXPLAIN QUERY PLAN ${sql}`, []);
    return rows.map(({ detail }) => String(detail));
  }

  const run = { tenantId: 't', runId: 'r' };
  const relay = newRelay({ id: 'r', conversationId: 'c', tenant: undefined as never });
  const queries: Record<string, string> = {
    'a run': selectRunSql,
    'a range of the journal': selectEventsSql,
    'a relay': selectRelaySql,
    'a decision': decide('t', approval(relay)).sql,
    'a claim': claim('r', { owner: 'o', now: 0, until: 0 }).sql,
    'the grants in scope': selectGrantsSql,
    'the mail of a run': selectMailSql,
    'the end of all mail': deleteAllMail(run).sql,
    'a key': selectKeySql,
    'a connection': selectConnectionSql,
    'the count of ended runs': countEndedSql,
    'the ended runs of a conversation': selectEndedSql,
    'all leases': reclaimSql,
  };

  for (const [name, sql] of Object.entries(queries)) {
    test(`${name} is found by an index alone`, async () => {
      expect((await plan(sql)).filter((line) => line.startsWith('SCAN'))).toEqual([]);
    });
  }

  test('a range of the journal begins and ends at its seqs', async () => {
    const lines = await plan(selectEventsSql);
    expect(lines.some((line) => line.includes('run_id=? AND last_seq>? AND last_seq<?'))).toBe(
      true,
    );
  });

  test('due runs are found among the open ones, by partial indexes and by their mail', async () => {
    const tables = (await plan(dueSql)).filter((line) => /^(SCAN|SEARCH) (r|mail)\b/.test(line));
    expect(tables).toEqual([
      'SCAN r USING INDEX runs_to_do',
      'SEARCH r USING INDEX runs_to_wake (wake_at<?)',
      'SCAN mail USING COVERING INDEX sqlite_autoindex_mail_1',
      'SEARCH r USING INDEX sqlite_autoindex_runs_1 (id=?)',
    ]);
  });
});
