/** That statements on sessions are answered by indexes, whose cost does not grow with what is over. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SqlDriver } from '../../src/drivers/driver.ts';
import { openMemoryDriver } from '../../src/drivers/sqlite/memory-driver.ts';
import { migrate } from '../../src/sql/schema/migrations.ts';
import {
  inboxSql,
  nextAvailableSql,
  overfullSql,
  sendableSql,
  unconsumedSql,
} from '../../src/sql/sessions/deliveries.ts';
import {
  dueHandlersSql,
  dueInvocationsSql,
  dueSql,
  ofHarnessSql,
  orphansSql,
} from '../../src/sql/sessions/directory.ts';
import { selectLast, selectPage } from '../../src/sql/lists.ts';
import { messageLists, selectParticipants } from '../../src/sql/sessions/messages.ts';
import { sessionLists } from '../../src/sql/sessions/sessions.ts';
import {
  messageFilters,
  sessionFilters,
  statementsOfSystem,
  statementsOfTenant,
} from './session-statements.ts';

describe('query plans of sessions', () => {
  let driver: SqlDriver;
  beforeAll(async () => {
    driver = openMemoryDriver();
    await migrate(driver);
  });
  afterAll(() => driver.close());

  async function plan(sql: string): Promise<string[]> {
    const rows = await driver.read(`EXPLAIN QUERY PLAN ${sql}`, []);
    return rows.map(({ detail }) => String(detail));
  }

  /** Subqueries, the tenants, the index of words, and indexes of what is being deleted. */
  const allowed =
    /^SCAN (?:page|way\d|merged|w|s|d|t|due|inbox|owner|server|p VIRTUAL TABLE INDEX 1:|tenant USING COVERING INDEX sqlite_autoindex_tenants_1|of_thread|message_index VIRTUAL TABLE INDEX \d+:M\d|(?:sessions|messages) USING (?:COVERING )?INDEX (?:sessions|messages)_pruning|CONSTANT ROW|\(subquery-\d+\))$/;
  const scansIn = (lines: readonly string[]) =>
    lines.filter((line) => line.startsWith('SCAN') && !allowed.test(line));

  const statements = { ...statementsOfTenant('sqlite'), ...statementsOfSystem('sqlite') };
  test.each(Object.entries(statements))('%s: no table is read as a whole', async (_name, sql) => {
    const tables = (await plan(sql)).filter((line) => / (?:t|s|d|w) USING /.test(line));
    expect(tables.filter((line) => line.startsWith('SCAN'))).toEqual([]);
    expect(scansIn(await plan(sql))).toEqual([]);
  });

  test('what is due is found in indexes that hold nothing else', async () => {
    const due = await plan(dueSql.sqlite);
    expect(due).toContain(
      'SEARCH d USING COVERING INDEX sessions_due (tenant_id=? AND due_at>? AND due_at<?)',
    );
    expect(due).toContain('SEARCH n USING COVERING INDEX sessions_due (tenant_id>?)');
    for (const [index, sql] of [
      ['handlers_due', dueHandlersSql.sqlite],
      ['invocations_due', dueInvocationsSql.sqlite],
    ] as const) {
      const lines = await plan(sql);
      const search = (row: string, columns: string) =>
        expect.stringMatching(
          new RegExp(`^SEARCH ${row} USING (?:COVERING )?INDEX ${index} ${columns}$`),
        );
      expect(lines).toContainEqual(
        search('d', String.raw`\(tenant_id=\? AND due_at>\? AND due_at<\?\)`),
      );
      expect(lines).toContainEqual(search('n', String.raw`\(tenant_id>\?\)`));
    }
    expect(await plan(orphansSql.sqlite)).toContain(
      'SEARCH s USING INDEX sessions_streaming (stream_node=? AND id>?)',
    );
    expect(await plan(ofHarnessSql)).toEqual([
      'SEARCH sessions USING INDEX sessions_of_harness (harness=? AND id>?)',
    ]);
  });

  test('the participants of a thread are found without its messages', async () => {
    const lines = await plan(selectParticipants('t', 'm').sql);
    const range = 'USING PRIMARY KEY (tenant_id=? AND place>? AND place<?)';
    expect(lines.filter((line) => /^(?:SEARCH|SCAN) (?!of_thread)/.test(line))).toEqual([
      `SEARCH message_places ${range}`,
      `SEARCH n ${range}`,
      'SEARCH message_places USING COVERING INDEX places_of_message (message_id=?)',
    ]);
  });

  test('an inbox is read in order from an index of what is in inboxes', async () => {
    for (const sql of [inboxSql, unconsumedSql, sendableSql]) {
      expect(await plan(sql)).toContain(
        'SEARCH message_deliveries USING INDEX inboxes_of_sessions (session_id=? AND position>?)',
      );
    }
    for (const sql of [overfullSql, nextAvailableSql]) {
      expect(await plan(sql)).toContain(
        'SEARCH message_deliveries USING INDEX inboxes_of_sessions (session_id=?)',
      );
    }
  });

  const lists = [
    ...messageFilters.flatMap((filter) =>
      messageLists('t', filter).map((list) => [JSON.stringify(filter), list] as const),
    ),
    ...sessionFilters.flatMap((filter) =>
      sessionLists('t', filter).map((list) => [JSON.stringify(filter), list] as const),
    ),
  ];
  test.each(lists)('a page by %s is a range of an index, in order', async (_name, list) => {
    for (const { sql } of [selectPage(list, { limit: 9 }), selectLast(list, { limit: 9 })]) {
      const lines = await plan(sql);
      const searches = lines.filter((line) => line.startsWith('SEARCH t '));
      expect(searches.length).toBeGreaterThan(0);
      for (const line of searches) {
        expect(line).toMatch(/ \(tenant_id=\? AND .*\((at|created_at),\w+\)>\(\?,\?\) AND \(/);
      }
      if (searches.length === 1) expect(lines.filter((line) => /B-TREE/.test(line))).toEqual([]);
    }
  });
});
