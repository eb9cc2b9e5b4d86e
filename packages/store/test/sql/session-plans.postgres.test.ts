/** That PostgreSQL finds sessions and what belongs to them by indexes, in tables that are large. */
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import { postgresText } from '../../src/drivers/postgres/session.ts';
import { openPostgresStore } from '../../src/index.ts';
import { selectParticipants } from '../../src/sql/sessions/messages.ts';
import { addSession, send } from '../contract/sessions/fixtures.ts';
import { statementsOfSystem, statementsOfTenant } from './session-statements.ts';

const rows = 'FROM generate_series(1, 10000) n';

/** Ten thousand rows of twenty tenants in each table, of which few are open. */
const fill = [
  `INSERT INTO sessions (id, tenant_id, last_seq, version, oldest_at, status, active_run_id, due_at,
      last_active_at, seen_at, stream_id, stream_node, released_at, state, state_checksum, handle, name,
      kind, harness, capabilities, conversation_id, labels, permissions, owner, token_hash, created_at,
      mac)
    SELECT 's-' || n, 't-' || n % 20, 5, 5, n, CASE WHEN n % 100 = 0 THEN 'idle' ELSE 'released' END,
      CASE WHEN n % 100 = 0 THEN 'r-' || n END, CASE WHEN n % 100 = 0 THEN n END, n, n,
      CASE WHEN n % 100 = 0 THEN 'x' END, CASE WHEN n % 100 = 0 THEN 'node-' || n % 3 END,
      CASE WHEN n % 100 = 0 THEN NULL ELSE n END, '{}', 0, 'h-' || n, '""', 'agent', '"remote"', '{}',
      'c', '{}', 'null', '""', 'hash-' || n, n, '' ${rows}`,
  `INSERT INTO session_labels SELECT 't-' || n % 20, '"a"', '"b"', n, 's-' || n ${rows}`,
  `INSERT INTO session_events SELECT 's-' || n, s, s, 't-' || n % 20, 0, '[]', 0
    FROM generate_series(1, 5000) n, generate_series(1, 5) s`,
  `INSERT INTO session_snapshots SELECT 'x-' || n, 't-' || n % 20, 's-' || n, 1, n, '{}', 0 ${rows}`,
  `INSERT INTO session_commands
    SELECT 's-' || n, 'c-' || n, 't-' || n % 20, 'pause', 'null', n, n,
      CASE WHEN n % 100 = 0 THEN NULL ELSE '{}' END, NULL, '' ${rows}`,
  `INSERT INTO message_deliveries (id, tenant_id, status, position, attempts, revision, retryable,
      inferred, final_at, mode, bytes, session_id, message_id, handle, at)
    SELECT 'd-' || n, 't-' || n % 20, CASE WHEN n % 100 = 0 THEN 'accepted' ELSE 'consumed' END, n, 1, 0,
      0, 0, CASE WHEN n % 100 = 0 THEN NULL ELSE n END, 'on-idle', 1, 's-' || n % 2000, 'm-' || n, 'h', n
    ${rows}`,
  `INSERT INTO messages (id, tenant_id, sender, recipients, thread_id, hops, at, bytes, checksum,
      attachments, scope, words, text)
    SELECT 'm-' || n, 't-' || n % 20, '{}', '[]', 'm-' || n % 3000, 0, n, 1, 0, '[]', 'scope' || n % 20,
      'word w' || n % 500, '""' ${rows}`,
  `INSERT INTO message_places SELECT 't-' || n % 20, '#c-' || n % 100, n, 'm-' || n ${rows}`,
  `INSERT INTO message_places SELECT 't-' || n % 20, '=s-' || n % 2000, n, 'm-' || n ${rows}`,
  `INSERT INTO message_places SELECT 't-1', '~m-1@s-' || n % 3, n, 'm-' || n ${rows}`,
  `INSERT INTO channels SELECT 't-' || n % 20, 'c-' || n, NULL, n, '{}' ${rows}`,
  `INSERT INTO channel_members SELECT 't-' || n % 20, 'c-' || n % 100, 's-' || n, n, '' ${rows}`,
  `INSERT INTO actions SELECT 't-' || n % 20, 'a-' || n, '""', '{}', 'null', 's-' || n, NULL, NULL, NULL,
      0, n, '{}', '' ${rows}`,
  `INSERT INTO invocations (id, tenant_id, status, due_at, ended_at, action, made_by, input, session_id,
      at, idempotent, timeout_ms, checksum)
    SELECT 'i-' || n, 't-' || n % 20, 'completed', CASE WHEN n % 100 = 0 THEN n END,
      CASE WHEN n % 100 = 0 THEN NULL ELSE n END, '""', '{}', '{}', 's-' || n, n, 0, 9, 0 ${rows}`,
  'ANALYZE',
];

interface PlanNode {
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly PlanNode[];
}

interface ExplainedRow {
  readonly 'QUERY PLAN': readonly { readonly Plan: PlanNode }[];
}

/** How many rows of tables were read. */
function readIn(plan: PlanNode | undefined): number {
  if (plan === undefined) return 0;
  const { 'Rows Removed by Filter': removed = 0, Plans: parts = [] } = plan;
  const own = plan['Relation Name'] === undefined ? 0 : plan['Actual Rows'] + removed;
  return own * plan['Actual Loops'] + parts.reduce((sum, part) => sum + readIn(part), 0);
}

const large =
  /Seq Scan on (?:sessions|session_\w+|message_\w+|messages|channel\w*|actions|invocations)/;

describe('query plans of sessions on PostgreSQL', () => {
  let database: TestDatabase;
  let asTenant: Client;
  beforeAll(async () => {
    database = await createDatabase();
    await (await openPostgresStore({ url: database.url })).close();
    for (const sql of fill) await database.sql(sql);
    asTenant = new Client({ connectionString: database.url });
    await asTenant.connect();
    await asTenant.query(`SET ROLE relay_tenant; SET relay.tenant = 't-1'`);
  });
  afterAll(async () => {
    await asTenant.end();
    await database.drop();
  });

  const explained = (sql: string) => `EXPLAIN (GENERIC_PLAN) ${postgresText(sql).text}`;
  const planOf = (lines: readonly Record<string, unknown>[]) =>
    lines.map((row) => String(row['QUERY PLAN'])).join('\n');

  test.each(Object.entries(statementsOfTenant('postgres')))(
    '%s: no table is read as a whole under the policies',
    async (_name, sql) => {
      const plan = planOf((await asTenant.query(explained(sql))).rows);
      expect(plan).not.toMatch(large);
    },
  );

  // A plan for any limit assumes a large part of the table.
  const ofSystem = Object.entries(statementsOfSystem('postgres')).filter(
    ([name]) => !name.endsWith('of pruning'),
  );

  test.each(ofSystem)('%s: no table is read as a whole', async (_name, sql) => {
    expect(planOf(await database.sql(explained(sql)))).not.toMatch(large);
  });

  test('the participants of a thread are found without its messages', async () => {
    const { sql, params } = selectParticipants('t-1', 'm-1');
    const text = `EXPLAIN (ANALYZE, FORMAT JSON) ${postgresText(sql).text}`;
    const { rows: found } = await asTenant.query(text, [...params]);
    const read = readIn((found as ExplainedRow[])[0]?.['QUERY PLAN'][0]?.Plan);
    expect(read).toBeGreaterThanOrEqual(3);
    expect(read).toBeLessThan(50);
  });

  test('what is due is found in indexes that hold nothing else', async () => {
    const statements = statementsOfSystem('postgres');
    const planNamed = async (name: string) =>
      planOf(await database.sql(explained(statements[name] ?? '')));
    expect(await planNamed('the sessions that are due')).toMatch(
      /Index (?:Only )?Scan using sessions_due on sessions d/,
    );
    expect(await planNamed('the sessions of dead nodes')).toContain('sessions_streaming');
    expect(await planNamed('the handlers that are due')).toContain('handlers_due');
    expect(await planNamed('the invocations that are due')).toContain('invocations_due');
    const inbox = statementsOfTenant('postgres')['an inbox'] ?? '';
    const plan = planOf((await asTenant.query(explained(inbox))).rows);
    expect(plan).toContain('Index Scan using inboxes_of_sessions on message_deliveries');
  });
});

describe('query plans of sessions on PostgreSQL without statistics', () => {
  test('a session and its deliveries are found by their ids', async () => {
    const database = await createDatabase();
    const store = await openPostgresStore({ url: database.url });
    try {
      const tenant = store.tenant('t-1');
      const ids = await Promise.all(Array.from({ length: 20 }, () => addSession(tenant)));
      for (const id of ids) await send(tenant, [id]);
      const statements = statementsOfTenant('postgres');
      const ofRows = [
        'a session',
        'a counted change of a session',
        'an opened stream',
        'a page of a journal',
      ];
      const ofWrite = Object.keys(statements).filter((name) => name.endsWith('of a write'));
      for (const name of [...ofRows, ...ofWrite]) {
        const text = postgresText(statements[name] ?? '').text;
        const rows = await database.sql(`EXPLAIN (GENERIC_PLAN) ${text}`);
        const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n');
        expect(plan).not.toMatch(/sessions_by_status|deliveries_of_session|deliveries_by_status/);
      }
    } finally {
      await store.close();
      await database.drop();
    }
  });
});
