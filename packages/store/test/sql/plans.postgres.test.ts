/** That PostgreSQL finds what is asked often by an index, in tables that are large. */
import type { AuditFilter, ApprovalFilter, RunFilter } from '@relay/core';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../test/support/postgres.ts';
import { decisionOn, newApproval } from '../contract/fixtures.ts';
import { postgresText } from '../../src/drivers/postgres/session.ts';
import { openPostgresStore } from '../../src/index.ts';
import { appendUnit } from '../../src/sql/runs/append.ts';
import { BudgetChecks, selectUse } from '../../src/sql/runs/budgets.ts';
import { auditLists, selectAudit, unsealedSql } from '../../src/sql/tenants/audit.ts';
import {
  countWaiting,
  openApprovalsSql,
  openRunsSql,
  selectEndedSql,
  selectOpenRuns,
  selectUsage,
  selectWorkflow,
} from '../../src/sql/runs/counts.ts';
import { selectEventsSql, selectPageSql, storeEvents } from '../../src/sql/runs/events.ts';
import { checksumAuthenticator, RowSigner } from '../../src/codec/signed-table.ts';
import { selectGrantsSql } from '../../src/sql/tenants/grants.ts';
import { selectLast, selectPage } from '../../src/sql/lists.ts';
import { claim, selectBlamed, selectDue, suspectsSql } from '../../src/sql/runs/leases.ts';
import { runsWithCommandsSql, insertCommand, selectCommandsSql } from '../../src/sql/runs/inbox.ts';
import { selectCandidates } from '../../src/sql/memories/memories.ts';
import {
  conversationList,
  selectConversations,
  selectConversationSql,
} from '../../src/sql/runs/conversations.ts';
import {
  approvalLists,
  storeDecision,
  selectApprovals,
  selectApprovalSql,
} from '../../src/sql/runs/approvals.ts';
import { runLists, selectRuns } from '../../src/sql/runs/run-lists.ts';
import { selectRunSql } from '../../src/sql/runs/runs.ts';
import {
  claimVectors,
  fingerprintSql,
  hasVectorSql,
  selectVectors,
  signsSql,
} from '../../src/sql/memories/vectors.ts';

describe('query plans of PostgreSQL', () => {
  let database: TestDatabase;
  let asTenant: Client;
  beforeAll(async () => {
    database = await createDatabase();
    await (await openPostgresStore({ url: database.url })).close();
    await database.sql(`INSERT INTO runs (id, tenant_id, last_seq, epoch, lease_until, status,
        created_at, input_tokens, output_tokens, conversation_id, correlation_id, surface, agent,
        model, labels, position, owner)
      SELECT 'run-' || n, 'tenant-' || n % 20, 10, 1, 0,
        CASE WHEN n % 1000 = 0 THEN 'waiting' ELSE 'completed' END, n, 0, 0, 'c-' || n % 2000,
        '""', 'runs', '"agent-' || n % 50 || '"', '"demo"', '{}', n, '"ada"' FROM generate_series(1, 10000) n`);
    await database.sql(`INSERT INTO events (tenant_id, run_id, last_seq, first_seq, at, size, json, checksum)
      SELECT 'tenant-' || n % 20, 'run-' || n, s, s, 0, 2, '[]', 0
      FROM generate_series(1, 5000) n, generate_series(1, 5) s`);
    await database.sql(`INSERT INTO conversations (tenant_id, id, updated_at, runs, last_run_id, ended_runs,
        owner, title, title_search, created_at)
      SELECT 'tenant-' || n % 20, 'c-' || n, n, 1, 'run-' || n, 1, '"ada"', '"t"', '"t"', n
      FROM generate_series(1, 10000) n`);
    await database.sql(`INSERT INTO approvals (id, tenant_id, run_id, status, requested_at, expires_at, kind,
        agent_id, agent_path, tool_call_id, tool, params, digest, ballot, mac)
      SELECT 'approval-' || n, 'tenant-' || n % 20, 'run-' || n,
        CASE WHEN n % 1000 = 0 THEN 'pending' ELSE 'approved' END, n, n, 'permission', '', '[]', '""',
        '""', '{}', '', 0, '' FROM generate_series(1, 10000) n`);
    await database.sql(`INSERT INTO audit_entries
        (id, tenant_id, at, action, actor, run_id, entry, proof, seq, hash)
      SELECT 'entry-' || n, 'tenant-' || n % 20, n, 'action-' || n % 10, 'key-' || n % 100,
        'run-' || n, '{}', '', n, '' FROM generate_series(1, 10000) n`);
    await database.sql(`INSERT INTO audit_unsealed (id, tenant_id, at, action, actor, entry, proof)
      SELECT 'entry-' || n, 'tenant-' || n % 20, n, 'action', 'key', '{}', ''
      FROM generate_series(1, 10000) n`);
    await database.sql(`INSERT INTO memories (id, tenant_id, namespace, created_at, source, checksum,
        scope, words, text)
      SELECT 'm-' || n, 'tenant-' || n % 20, 'n-' || n % 40, n, 'api', 0, 's' || n % 40,
        'word w' || n % 500 || ' v' || n % 70, '""' FROM generate_series(1, 10000) n`);
    await database.sql(`UPDATE memory_vectors SET model = 'm' WHERE length(memory_id) > 3`);
    await database.sql('ANALYZE');
    asTenant = new Client({ connectionString: database.url });
    await asTenant.connect();
    await asTenant.query(`SET ROLE relay_tenant; SET relay.tenant = 't'`);
  });
  afterAll(async () => {
    await asTenant.end();
    await database.drop();
  });

  const page = { limit: 50 };
  const approval = newApproval({ id: 'r', conversationId: 'c', tenant: undefined as never });
  const signer = new RowSigner(checksumAuthenticator);
  const run = { tenantId: 't', runId: 'r' };
  const queued = {
    id: 'm',
    command: { kind: 'cancel', reason: '', by: decisionOn(approval).by },
  } as const;
  const progress = {
    status: 'completed',
    endedAt: 1,
    usage: { inputTokens: 1, outputTokens: 1 },
  } as const;
  const end = { ...run, epoch: 1, afterSeq: 1, at: 1, events: [], progress };
  const journal = storeEvents(run, end);
  const ending = appendUnit({ dialect: 'postgres', signer }, 't', end, { journal });
  const candidates = (kind: 'rare' | 'common') => {
    const search = { tenantId: 't', namespace: 'n', query: '', limit: 5, now: 0 };
    return selectCandidates('postgres', search, { kind, words: ['w1', 'w2'], most: 60 }).sql;
  };
  const runFilters: RunFilter[] = [
    {},
    { status: 'failed' },
    { status: ['queued', 'waiting'] },
    { agent: 'a' },
    { agent: 'a', status: 'failed' },
    { conversationId: 'c' },
    { workflowId: 'w' },
    { label: { name: 'a', value: 'b' } },
    { label: { name: 'a', value: 'b' }, agent: 'a', status: 'failed', workflowId: 'w' },
  ];
  const approvalFilters: ApprovalFilter[] = [
    {},
    { status: 'pending' },
    { runId: 'r' },
    { sessionId: 's' },
    { conversationId: 'c' },
    { invocationId: 'i' },
    { kind: 'outcome', status: 'pending' },
    { tool: 'x', status: ['approved', 'denied'] },
  ];
  const auditFilters: AuditFilter[] = [
    {},
    { action: 'a' },
    { actor: 'k', action: 'a' },
    { runId: 'r' },
  ];
  const queries: Record<string, string> = {
    'what of the audit is to be sealed': unsealedSql,
    ...Object.fromEntries(
      auditFilters.flatMap((filter) =>
        auditLists('t', filter).map((list, way) => [
          `audit by ${JSON.stringify(filter)}, way ${way},`,
          selectAudit(list, page).sql,
        ]),
      ),
    ),
    'a run': selectRunSql,
    'a range of the journal': selectEventsSql,
    'a page of a large journal': selectPageSql,
    'an approval': selectApprovalSql,
    'a decision': storeDecision({ tenantId: 't', runId: 'r' }, decisionOn(approval)).sql,
    'a decision without a run': storeDecision({ tenantId: 't' }, decisionOn(approval)).sql,
    'the grants in scope': selectGrantsSql,
    'the inbox of a run': selectCommandsSql,
    'a command for a run': insertCommand('postgres', signer, run, queued).sql,
    'the usage of a tenant': selectUsage('t', { since: 0 }).sql,
    'the open runs of a tenant': selectOpenRuns('t', {}).sql,
    'the total of a workflow': selectWorkflow('t', 'w').sql,
    'the ended runs of a conversation': selectEndedSql,
    'whether there are vectors': hasVectorSql,
    'the fingerprint of vectors': fingerprintSql,
    'the signs of vectors': signsSql,
    'the vectors to compare': selectVectors(64),
    'memories with rare words': candidates('rare'),
    'memories with common words': candidates('common'),
    ...Object.fromEntries(
      (['<', '>'] as const).map((side) => [
        `the claim of memories whose model is ${side}`,
        claimVectors('postgres', 't', { model: 'm', now: 0, limit: 9, side }).sql,
      ]),
    ),
    ...Object.fromEntries(ending.map(({ sql }, n) => [`step ${n} of an ending`, sql])),
    ...Object.fromEntries(countWaiting(run).map(({ sql }, n) => [`step ${n} of a wait`, sql])),
    ...Object.fromEntries(
      runFilters.flatMap((filter) =>
        runLists('t', filter).flatMap((list, way) => [
          [`runs by ${JSON.stringify(filter)}, way ${way},`, selectRuns(list, page).sql],
          [`the end of ${JSON.stringify(filter)}, way ${way},`, selectLast(list, page).sql],
        ]),
      ),
    ),
    'a conversation': selectConversationSql,
    ...Object.fromEntries(
      [{}, { query: 'x' }].flatMap((filter) => {
        const list = conversationList('t', filter);
        return [
          [`conversations by ${JSON.stringify(filter)}`, selectConversations(list, page).sql],
          [`the end of conversations by ${JSON.stringify(filter)}`, selectLast(list, page).sql],
        ];
      }),
    ),
    ...Object.fromEntries(
      approvalFilters.flatMap((filter) =>
        approvalLists('t', filter).map((list, way) => [
          `approvals by ${JSON.stringify(filter)}, way ${way},`,
          selectApprovals(list, page).sql,
        ]),
      ),
    ),
  };

  const ofSystem: Record<string, string> = {
    'a claim': claim('postgres', 'r', { owner: 'o', now: 0, until: 0 }, 'others').sql,
    'what is due': selectDue('postgres', 0, 1).sql,
    'the inboxes of the runs that a node holds': runsWithCommandsSql(9),
    'the suspects': suspectsSql.postgres,
    'the runs that a node is blamed for': selectBlamed('n').sql,
    'the open runs of all tenants': openRunsSql(false),
    'the open approvals of all tenants': openApprovalsSql(false),
  };
  const explained = (sql: string) => `EXPLAIN (GENERIC_PLAN) ${postgresText(sql).text}`;
  const planOf = (rows: readonly Record<string, unknown>[]) =>
    rows.map((row) => String(row['QUERY PLAN'])).join('\n');

  test.each(Object.entries(queries))(
    '%s is found under the policies without reading a table',
    async (_name, sql) => {
      const plan = planOf((await asTenant.query(explained(sql))).rows);
      expect(plan).toMatch(/relay\.tenant/);
      expect(plan).not.toMatch(/Seq Scan on (?:runs|events|approvals|conversations|memor)/);
    },
  );

  test.each(Object.entries(ofSystem))('%s is found without reading a table', async (_name, sql) => {
    const plan = planOf(await database.sql(explained(sql)));
    expect(plan).not.toMatch(/Seq Scan on (?:runs|events|approvals|conversations|memor)/);
  });

  test('the run of a label is found by its id, also where most tenants have few runs', async () => {
    await database.sql('ALTER TABLE runs ALTER tenant_id SET (n_distinct = -0.5)');
    await database.sql('ANALYZE runs');
    const filter = { label: { name: 'a', value: 'b' }, status: 'failed' } as const;
    const byLabel = runLists('t', filter).find(({ table }) => table === 'run_labels')!;
    const { sql } = selectPage(byLabel, page);
    const plan = planOf((await asTenant.query(explained(sql))).rows);
    expect(plan).toMatch(/runs_pkey on runs r\b[^>]*Index Cond: \(id = t\.run_id\)/);
    await database.sql('ALTER TABLE runs ALTER tenant_id RESET (n_distinct)');
    await database.sql('ANALYZE runs');
  });

  test('a budget reads no run that waits', async () => {
    const tenantId = 'tenant-0';
    const waiting = `SELECT id FROM runs WHERE tenant_id = '${tenantId}' AND status = 'waiting'`;
    expect(await database.sql(waiting)).toHaveLength(10);
    const budget = { period: 'day', since: 0, concurrentRuns: 9, tokens: 9, costUsd: 9 } as const;
    const { statements } = new BudgetChecks('postgres', tenantId, [budget]);
    const client = new Client({ connectionString: database.url });
    await client.connect();
    const [, ...checks] = statements;
    for (const { sql, params } of [...checks, selectUse(tenantId, budget, 'none')]) {
      const text = `EXPLAIN (ANALYZE, FORMAT JSON) ${postgresText(sql).text}`;
      const { rows } = await client.query(text, [...params]);
      const plan = JSON.stringify(rows);
      expect(plan).toContain('"Relation Name":"runs"');
      expect(plan).not.toMatch(/"Relation Name":"runs"[^{}]*"Actual Rows":(?!0\b)/);
      expect(plan).not.toMatch(/"Rows Removed by Filter":(?!0\b)/);
    }
    await client.end();
  });

  test('an append of text changes no index', async () => {
    await database.sql('SELECT pg_stat_reset()');
    await database.sql(`UPDATE runs SET last_seq = last_seq + 1 WHERE id = 'run-17'`);
    await database.sql(`UPDATE runs SET last_seq = last_seq + 1 WHERE id = 'run-17'`);
    const heapOnly = () =>
      database.sql(
        `SELECT n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'runs'`,
      );
    await expect.poll(heapOnly).toEqual([{ hot: 2 }]);
  });
});
