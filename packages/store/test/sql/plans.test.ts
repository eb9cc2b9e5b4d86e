/** That every query is answered by an index, so that its cost does not grow with what is over. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Append, AuditFilter, ApprovalFilter, RunFilter } from '@relay/core';
import { idKinds } from '@relay/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SqlDriver, Statement } from '../../src/drivers/driver.ts';
import { openSqliteDriver } from '../../src/drivers/sqlite/file-driver.ts';
import { appendUnit } from '../../src/sql/runs/append.ts';
import {
  auditLists,
  headSql,
  inOrderSql,
  sealsSql,
  selectAudit,
  unsealedSql,
} from '../../src/sql/tenants/audit.ts';
import { BudgetChecks, selectUse } from '../../src/sql/runs/budgets.ts';
import {
  conversationList,
  selectConversations,
  selectConversationSql,
} from '../../src/sql/runs/conversations.ts';
import {
  countEndedSql,
  openApprovalsSql,
  openRunsSql,
  selectEndedSql,
  selectOpenRuns,
  selectUsage,
  selectWorkflow,
} from '../../src/sql/runs/counts.ts';
import { selectKeyHolder } from '../../src/sql/runs/creation.ts';
import {
  selectCredential,
  selectCredentialsSql,
  selectSealedSql,
  selectToResealSql,
} from '../../src/sql/tenants/credentials.ts';
import {
  type OpenRow,
  selectEventsSql,
  selectPageSql,
  storeEvents,
} from '../../src/sql/runs/events.ts';
import { pruneUnit } from '../../src/sql/runs/retention.ts';
import {
  selectGrantList,
  selectGrantSql,
  selectGrantsSql,
  selectGrantsById,
  grantTable,
} from '../../src/sql/tenants/grants.ts';
import {
  claim,
  releaseAllSql,
  selectBlamed,
  selectDue,
  suspectsSql,
} from '../../src/sql/runs/leases.ts';
import {
  deleteCommands,
  runsWithCommandsSql,
  selectCommandsSql,
} from '../../src/sql/runs/inbox.ts';
import {
  clearMemories,
  deleteMemory,
  selectCandidates,
  selectMemories,
  selectMemoryIds,
  selectMemoryOnceSql,
  selectSample,
  deleteExpiredMemories,
} from '../../src/sql/memories/memories.ts';
import { findIds, selectBeginning } from '../../src/sql/ids.ts';
import { selectLast, selectPage } from '../../src/sql/lists.ts';
import { migrate } from '../../src/sql/schema/migrations.ts';
import { selectConnectionSql, selectMetadata } from '../../src/sql/system.ts';
import { checksumAuthenticator, RowSigner } from '../../src/codec/signed-table.ts';
import { selectVersionSql, selectVersions } from '../../src/sql/tenants/policies.ts';
import {
  approvalLists,
  storeDecision,
  selectApprovals,
  selectApprovalSql,
} from '../../src/sql/runs/approvals.ts';
import { runLists, selectAnswers, selectRuns } from '../../src/sql/runs/run-lists.ts';
import { selectRunSql } from '../../src/sql/runs/runs.ts';
import { statsStatements } from '../../src/sql/runs/statistics.ts';
import {
  selectKeyByHashSql,
  selectKeys,
  selectKeySql,
  selectTenantSql,
} from '../../src/sql/tenants/tenants.ts';
import {
  claimVectors,
  fingerprintSql,
  hasVectorSql,
  selectVectors,
  signsSql,
} from '../../src/sql/memories/vectors.ts';
import {
  claimSql,
  insertNotices,
  selectDeliveries,
  selectWebhooks,
  sweepUnit,
} from '../../src/sql/tenants/webhooks.ts';
import { decisionOn, delta, newApproval } from '../contract/fixtures.ts';

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

  const signer = new RowSigner(checksumAuthenticator);
  const page = { limit: 50 };
  const label: RunFilter = { label: { name: 'a', value: 'b' } };
  const run = { tenantId: 't', runId: 'r' };
  const search = { namespace: 'n', query: 'q', limit: 5, now: 0 };
  const approval = newApproval({ id: 'r', conversationId: 'c', tenant: undefined as never });
  const budget = { period: 'day', since: 0, concurrentRuns: 1, tokens: 1, costUsd: 1 } as const;
  const queries: Record<string, string> = {
    'a run': selectRunSql,
    'a range of the journal': selectEventsSql,
    'a page of a large journal': selectPageSql,
    'an approval': selectApprovalSql,
    'a decision': storeDecision({ tenantId: 't', runId: 'r' }, decisionOn(approval)).sql,
    'a decision without a run': storeDecision({ tenantId: 't' }, decisionOn(approval)).sql,
    'a claim': claim('sqlite', 'r', { owner: 'o', now: 0, until: 0 }, 'others').sql,
    'the grants in scope': selectGrantsSql,
    'a grant': selectGrantSql,
    'the grants of a tenant': selectGrantList('t', { tool: 'x', activeAt: 1 }, page).sql,
    'the grants that an append uses': selectGrantsById('t', ['g', 'h']).sql,
    'a use of a grant': grantTable.update(signer, {}, { usesLeft: 1 }).sql,
    'the inbox of a run': selectCommandsSql,
    'the deletion of an inbox': deleteCommands(run, { ofSession: false }).sql,
    'a key': selectKeyByHashSql,
    'a key by its id': selectKeySql,
    'the keys of a tenant': selectKeys('t', page).sql,
    'a tenant': selectTenantSql,
    'an idempotency key': selectKeyHolder('t', 'k').sql,
    'a credential': selectCredential('t', 'p').sql,
    'the credentials of a tenant': selectCredentialsSql,
    'a page of all credentials': selectSealedSql,
    'the credential to reseal': selectToResealSql,
    'the total of a workflow': selectWorkflow('t', 'w').sql,
    'the usage of a tenant': selectUsage('t', { since: 0 }).sql,
    'the usage of a key': selectUsage('t', { since: 0, keyId: 'k' }).sql,
    'the open runs of a tenant': selectOpenRuns('t', {}).sql,
    'the open runs of a key': selectOpenRuns('t', { keyId: 'k' }).sql,
    'a metadata entry': selectMetadata('n').sql,
    'a connection': selectConnectionSql,
    'a conversation': selectConversationSql,
    'the count of ended runs': countEndedSql,
    'the ended runs of a conversation': selectEndedSql,
    'the suspects': suspectsSql.sqlite,
    'the runs that a node is blamed for': selectBlamed('n').sql,
    'the runs of a node that have commands': runsWithCommandsSql(9),
    'the open runs of one tenant for metrics': openRunsSql(true),
    'the open approvals of one tenant for metrics': openApprovalsSql(true),
    'the use of a budget': selectUse('t', { ...budget, keyId: 'k' }, 'r').sql,
    ...Object.fromEntries(
      new BudgetChecks('sqlite', 't', [budget]).statements.map(({ sql }, n) => [
        `check ${n} of a budget`,
        sql,
      ]),
    ),
    'who wants a notice': insertNotices('t', [
      { id: 'n', event: 'run.ended', at: 0, payload: '{}' },
    ]).map(({ sql }) => sql)[0]!,
    'the webhooks of a tenant': selectWebhooks('t', page).sql,
    'the deliveries of a webhook': selectDeliveries('t', 'w', page).sql,
    ...Object.fromEntries(
      sweepUnit({ failBefore: 0, deleteBefore: 0, limit: 9 }).map(({ sql }, n) => [
        `step ${n} of sweeping deliveries`,
        sql,
      ]),
    ),
    'a policy in force': selectVersionSql,
    'the versions of a policy': selectVersions('t', null, page).sql,
    'the audit in its order': inOrderSql,
    'what is to be sealed': unsealedSql,
    'the head of the audit': headSql,
    'the seals of the audit': sealsSql,
    'what was remembered under a key': selectMemoryOnceSql,
    'a sample of a namespace': selectSample('t', search).sql,
    'a memory to delete': deleteMemory('t', 'm').sql,
    'a piece of a namespace to clear': clearMemories('t', 'n', 9).sql,
    'memories that have expired': deleteExpiredMemories(0, 9).sql,
    'whether there are vectors': hasVectorSql,
    'the vectors to compare': selectVectors(3),
    ...Object.fromEntries(
      (['<', '>'] as const).map((side) => [
        `the claim of memories whose model is ${side}`,
        claimVectors('sqlite', 't', { model: 'm', now: 0, limit: 9, side }).sql,
      ]),
    ),
    ...Object.fromEntries(pruneUnit(0, 9).map(({ sql }, n) => [`step ${n} of forgetting`, sql])),
  };

  for (const [name, sql] of Object.entries(queries)) {
    test(`${name} is found by an index alone`, async () => {
      expect(scansIn(await plan(sql))).toEqual([]);
    });
  }

  const scansIn = (lines: readonly string[]) =>
    lines.filter(
      (line) =>
        line.startsWith('SCAN') &&
        !/^SCAN (page|way\d+|merged|w|s|c|CONSTANT ROW|t USING INDEX paused_tenants|\(subquery-\d+\))$/.test(
          line,
        ),
    );

  const stats = statsStatements({ tenantId: 't', since: 0, until: 1, bucketMs: 1 });
  test.each(Object.entries(stats))(
    'statistics (%s) read the range of an index, and no rows',
    async (_, { sql }) => {
      const lines = await plan(sql);
      const searches = lines.filter((line) => /^(SEARCH|SCAN) (runs|approvals)/.test(line));
      expect(searches).not.toEqual([]);
      for (const line of searches) {
        expect(line).toMatch(/^SEARCH \w+ USING COVERING INDEX \w+ \(tenant_id=\? AND /);
        if (sql !== stats.pending.sql) expect(line).toMatch(/_at>\? AND \w+_at<\?\)$/);
      }
    },
  );

  test.each([
    ['the fingerprint', fingerprintSql],
    ['the signs', signsSql],
  ])('%s of a space is read off an index, without the vectors', async (_, sql) => {
    const inSpace = 'memory_vectors_in_space (tenant_id=? AND namespace=? AND model=?';
    expect(await plan(sql)).toEqual([
      expect.stringContaining(`SEARCH v USING COVERING INDEX ${inSpace}`),
    ]);
  });

  const between = (at: string, id = 'id') => `(${at},${id})>(?,?) AND (${at},${id})<(?,?)`;

  /** By which index each part of a page is found, and nothing else is looked at. */
  const plainRunLists: [RunFilter, string][] = [
    [{}, 'runs_by_status (tenant_id=? AND status=?'],
    [{ since: 1, until: 2 }, 'runs_by_status (tenant_id=? AND status=?'],
    [{ status: 'failed' }, 'runs_by_status (tenant_id=? AND status=?'],
    [{ status: ['queued', 'failed'] }, 'runs_by_status (tenant_id=? AND status=?'],
    [{ agent: 'a' }, 'runs_by_agent (tenant_id=? AND agent=? AND status=?'],
    [{ agent: 'a', status: 'failed' }, 'runs_by_agent (tenant_id=? AND agent=? AND status=?'],
    [{ conversationId: 'c' }, 'runs_by_conversation (tenant_id=? AND conversation_id=?'],
    [{ workflowId: 'w' }, 'runs_by_workflow (tenant_id=? AND workflow_id=?'],
    [{ parentRunId: 'p' }, 'runs_by_parent (tenant_id=? AND parent_run_id=?'],
    [label, 'PRIMARY KEY (tenant_id=? AND name=? AND value=?'],
  ];
  for (const [filter, index] of plainRunLists) {
    test(`a page of runs by ${JSON.stringify(filter)} is one range of an index, in order`, async () => {
      const [list, ...more] = runLists('t', filter);
      if (list === undefined) throw new Error('There is no list');
      expect([list.others ?? [], more]).toEqual([[], []]);
      const ids = await plan(selectPage(list, page).sql);
      const searches = ids.filter((line) => line.startsWith('SEARCH'));
      expect(searches.length).toBeGreaterThan(0);
      for (const line of searches) {
        expect(line).toMatch(/^SEARCH t USING (COVERING INDEX|PRIMARY KEY) /);
        expect(line).toContain(`${index} AND ${between('created_at', list.id)}`);
      }
      if (searches.length === 1) expect(ids).toHaveLength(1);
      const whole = await plan(selectRuns(list, page).sql);
      expect(scansIn(whole)).toEqual([]);
      expect(whole).toContain('SEARCH r USING INDEX sqlite_autoindex_runs_1 (id=?)');
    });
  }

  test('the answers on a page are found by the ids of its runs', async () => {
    const rows = Array.from({ length: 50 }, (_, n) => ({ id: `${n}`, answer_seq: 3, last_seq: 9 }));
    const lines = await plan(selectAnswers('t', rows)?.sql ?? '');
    expect(lines).toContain('SEARCH r USING INDEX sqlite_autoindex_runs_1 (id=?)');
  });

  test('the total of a workflow reads the rows of its open runs only', async () => {
    const lines = await plan(selectWorkflow('t', 'w').sql);
    const ofRuns = lines.filter((line) => line.includes('SEARCH r '));
    const index = 'runs_open_in_workflow (tenant_id=? AND workflow_id=? AND status=?)';
    expect(ofRuns).toEqual([`SEARCH r USING INDEX ${index}`]);
  });

  test('open runs and approvals of all tenants are counted in an index, without ended ones', async () => {
    const tenants = 'SCAN t USING COVERING INDEX sqlite_autoindex_tenants_1';
    const [first, ...counts] = await plan(openRunsSql(false));
    expect(first).toBe(tenants);
    const ofStatus = 'SEARCH r USING COVERING INDEX runs_by_status (tenant_id=? AND status=?)';
    const isCount = (line: string) => line === ofStatus;
    expect(counts.filter((line) => !line.startsWith('CORRELATED'))).toHaveLength(3);
    expect(counts.filter(isCount)).toHaveLength(3);
    expect(await plan(openApprovalsSql(false))).toEqual([
      tenants,
      'SEARCH a USING COVERING INDEX approvals_by_kind (tenant_id=? AND kind=? AND status=?)',
    ]);
  });

  test('all leases are found among the open runs', async () => {
    expect(await plan(releaseAllSql)).toEqual(['SCAN runs USING INDEX runs_open']);
  });

  test('what is to be forgotten is found by conversations, and their runs in order', async () => {
    const [mark = { sql: '' }] = pruneUnit(0, 9);
    const lines = await plan(mark.sql);
    const inConversation = '(tenant_id=? AND conversation_id=?';
    expect(lines).toEqual(
      expect.arrayContaining([
        'SEARCH c USING COVERING INDEX conversations_to_prune (ended_at<?)',
        `SEARCH r USING INDEX runs_ended ${inConversation} AND position>?)`,
        'SEARCH f USING INDEX runs_forked (tenant_id=? AND forked_from=?)',
      ]),
    );
  });

  test('due deliveries are found from webhook to webhook', async () => {
    const lines = await plan(claimSql.sqlite);
    const scans = scansIn(lines).filter((line) => line !== 'SCAN hook');
    expect(scans).toEqual([]);
    expect(lines).toContain(
      'SEARCH x USING COVERING INDEX deliveries_due (webhook_id=? AND next_at<?)',
    );
    expect(lines).toContain('SEARCH n USING COVERING INDEX deliveries_due (webhook_id>?)');
  });

  test('what is to be sealed is found by itself, and compared with one sealed entry each', async () => {
    expect(await plan(unsealedSql)).toEqual([
      'SEARCH u USING PRIMARY KEY (tenant_id=?)',
      'CORRELATED SCALAR SUBQUERY 1',
      'SEARCH s USING INDEX audit_by_time (tenant_id=? AND at=? AND id=?)',
    ]);
  });

  const by = (column: string) => `audit_by_${column} (tenant_id=?`;
  const audits: [AuditFilter, string[]][] = [
    [{}, [by('time')]],
    [{ since: 1, until: 2 }, [by('time')]],
    [{ action: 'a', since: 1 }, [`${by('action')} AND action=?`]],
    [{ actor: 'k' }, [`${by('actor')} AND actor=?`]],
    [
      { runId: 'r', actor: 'k', action: 'a' },
      [`${by('run')} AND run_id=?`, `${by('actor')} AND actor=?`, `${by('action')} AND action=?`],
    ],
  ];
  for (const [filter, indexes] of audits) {
    test(`a page of the audit by ${JSON.stringify(filter)} is one range of any of its indexes`, async () => {
      const lists = auditLists('t', filter);
      expect(lists).toHaveLength(indexes.length);
      for (const [n, list] of lists.entries()) {
        for (const { sql } of [selectAudit(list, page), selectLast(list, page)]) {
          const lines = await plan(sql);
          const [search] = lines.filter((line) => line.startsWith('SEARCH t '));
          expect(search).toContain(` INDEX ${indexes[n]} AND ${between('at')})`);
          expect(lines.filter((line) => line.startsWith('SCAN t'))).toEqual([]);
        }
      }
    });
  }

  const mixed: [RunFilter, string[]][] = [
    [{ ...label, agent: 'a', status: 'failed' }, ['runs_by_agent', 'PRIMARY KEY']],
    [{ ...label, status: 'queued' }, ['runs_by_status', 'PRIMARY KEY']],
    [
      { ...label, conversationId: 'c', status: 'failed' },
      ['runs_by_conversation', 'runs_by_status', 'PRIMARY KEY'],
    ],
    [
      { conversationId: 'c', workflowId: 'w', parentRunId: 'p' },
      ['runs_by_parent', 'runs_by_conversation', 'runs_by_workflow'],
    ],
  ];
  for (const [filter, indexes] of mixed) {
    test(`a page of runs by ${Object.keys(filter).join(', ')} is one range of any of their indexes`, async () => {
      const lists = runLists('t', filter);
      expect(lists).toHaveLength(indexes.length);
      for (const [n, list] of lists.entries()) {
        for (const { sql } of [selectPage(list, page), selectLast(list, page)]) {
          const lines = await plan(sql);
          const searches = lines.filter((line) => line.startsWith('SEARCH t '));
          expect(searches).toHaveLength(1);
          expect(searches[0]).toContain(` ${indexes[n]} (tenant_id=? AND `);
          expect(searches[0]).toContain(between('created_at', list.id));
          expect(lines.filter((line) => /^SCAN|TEMP B-TREE/.test(line))).toEqual([]);
        }
      }
    });
  }

  for (const filter of [{}, { query: 'x' }]) {
    test(`a page of conversations by ${JSON.stringify(filter)} is one range of an index`, async () => {
      const list = conversationList('t', filter);
      const range = `conversations_by_update (tenant_id=? AND ${between('updated_at')})`;
      for (const { sql } of [selectPage(list, page), selectLast(list, page)]) {
        const lines = await plan(sql);
        expect(lines.filter((line) => line.startsWith('SEARCH t '))).toHaveLength(1);
        expect(lines.find((line) => line.startsWith('SEARCH t '))).toContain(range);
        expect(lines.filter((line) => /^SCAN|TEMP B-TREE/.test(line))).toEqual([]);
      }
      const whole = await plan(selectConversations(list, page).sql);
      expect(scansIn(whole)).toEqual([]);
      expect(whole.find((line) => line.startsWith('SEARCH l '))).toContain('(id=?)');
    });
  }

  for (const kind of idKinds) {
    test(`an id of a ${kind} is found by its beginning in the primary key`, async () => {
      const search = { kind, match: '018f0000', limit: 9 };
      const [step] = await plan(selectBeginning('t', search).sql);
      expect(step).toMatch(/^SEARCH t .*(id>\? AND id<\?)/);
    });
  }

  for (const kind of idKinds) {
    test(`less than 8 characters of an id of a ${kind} are searched for in one tenant`, async () => {
      const asked: string[] = [];
      const read = async (sql: string) => {
        asked.push(sql);
        return [];
      };
      await findIds({ ...driver, read, readLong: read }, 't', {
        kind,
        match: '018f000',
        limit: 9,
      });
      for (const sql of asked) {
        const lines = (await plan(sql)).filter((line) => /^(SEARCH|SCAN) t\b/.test(line));
        expect(lines).not.toEqual([]);
        for (const line of lines) expect(line).toMatch(/^SEARCH t .*\(tenant_id=\?/);
      }
    });
  }

  const approvalIndexes: [ApprovalFilter, string, string?][] = [
    [{}, 'approvals_by_kind (tenant_id=? AND kind=? AND status=?'],
    [{ status: 'pending' }, 'approvals_by_kind (tenant_id=? AND kind=? AND status=?'],
    [{ runId: 'r' }, 'approvals_by_run (tenant_id=? AND run_id=?'],
    [{ sessionId: 's' }, 'approvals_by_session (tenant_id=? AND session_id=?'],
    [{ conversationId: 'c' }, 'approvals_by_conversation (tenant_id=? AND conversation_id=?'],
    [
      { invocationId: 'i', sessionId: 's' },
      'approvals_by_invocation (tenant_id=? AND invocation_id=?',
    ],
    [{ kind: 'outcome' }, 'approvals_by_kind (tenant_id=? AND kind=? AND status=?'],
    [
      { kind: 'outcome', status: 'pending' },
      'approvals_by_kind (tenant_id=? AND kind=? AND status=?',
    ],
    [
      { runId: 'r', status: 'pending', kind: 'outcome', tool: 'x' },
      'approvals_by_run (tenant_id=? AND run_id=?',
    ],
    [
      { tool: 'x', status: ['approved', 'denied'] },
      'approvals_by_kind (tenant_id=? AND kind=? AND status=?',
      'approvals_by_tool (tenant_id=? AND tool=?',
    ],
  ];
  for (const [filter, ...indexes] of approvalIndexes) {
    test(`a page of approvals by ${JSON.stringify(filter)} is one range of an index`, async () => {
      const lists = approvalLists('t', filter);
      expect(lists).toHaveLength(indexes.length);
      for (const [n, list] of lists.entries()) {
        const ids = await plan(selectPage(list, page).sql);
        const searches = ids.filter((line) => line.startsWith('SEARCH'));
        expect(searches.length).toBeGreaterThan(0);
        for (const line of searches)
          expect(line).toContain(`${indexes[n]} AND ${between('requested_at')}`);
        expect(scansIn(await plan(selectApprovals(list, page).sql))).toEqual([]);
      }
    });
  }

  const memoryLists = [
    [{ namespace: 'n', now: 0 }, 'memories_in_namespace (tenant_id=? AND namespace=?'],
    [{ now: 0 }, 'memories_of_tenant (tenant_id=?'],
  ] as const;
  for (const [filter, index] of memoryLists) {
    test(`a page of memories by ${JSON.stringify(filter)} is one range of an index`, async () => {
      const ids = await plan(selectMemoryIds('t', filter, page).sql);
      expect(ids).toHaveLength(1);
      expect(ids[0]).toContain(`${index} AND ${between('created_at')}`);
      expect(scansIn(await plan(selectMemories('t', filter, page).sql))).toEqual([]);
    });
  }

  for (const kind of ['rare', 'common'] as const) {
    test(`${kind} words are looked up in their index, and their memories by number`, async () => {
      const lookup = { kind, words: ['tea'], most: 9 };
      const { sql } = selectCandidates('sqlite', { ...search, tenantId: 't' }, lookup);
      const lines = (await plan(sql)).filter((line) => /^(SCAN|SEARCH)/.test(line));
      for (const line of lines) {
        expect(line).toMatch(
          /^SCAN (memory_index VIRTUAL TABLE INDEX|found$|best$)|^SEARCH m USING INTEGER PRIMARY KEY/,
        );
      }
      expect(lines.some((line) => line.startsWith('SCAN memory_index'))).toBe(true);
    });
  }

  function unitOf(over: Partial<Append>, open?: OpenRow): readonly Statement[] {
    const append = { runId: 'r', epoch: 1, afterSeq: 1, at: 1, events: [], ...over };
    const journal = storeEvents(run, append, open);
    return appendUnit({ dialect: 'sqlite', signer }, 't', append, { journal });
  }

  test('a step finds its run by the id, and its open approvals among the pending ones', async () => {
    const usage = { inputTokens: 1, outputTokens: 1 };
    const unit = (['completed', 'waiting'] as const).flatMap((status) =>
      unitOf({ progress: { status, endedAt: 1, usage } }),
    );
    const lines = (await Promise.all(unit.map(({ sql }) => plan(sql)))).flat();
    expect(lines.filter((line) => line.startsWith('SCAN'))).toEqual([]);
    expect(lines[0]).toBe('SEARCH runs USING INDEX sqlite_autoindex_runs_1 (id=?)');
    expect(lines).toContain(
      'SEARCH approvals USING INDEX approvals_by_run (tenant_id=? AND run_id=?)',
    );
  });

  test('no index is changed by an append of text', async () => {
    const first = { at: 1, events: [delta('a')] };
    const { open } = storeEvents(run, { ...first, afterSeq: 0 });
    const unit = unitOf(first, open);
    expect(unit).toHaveLength(2);
    for (const { sql } of unit) {
      const steps = await driver.read(`EXPLAIN ${sql}`, []);
      expect(steps.filter(({ opcode }) => /^Idx(Insert|Delete)/.test(String(opcode)))).toEqual([]);
    }
  });

  test('a range of the journal begins and ends at its seqs', async () => {
    for (const sql of [selectEventsSql, selectPageSql]) {
      const lines = await plan(sql);
      const range = 'run_id=? AND first_seq>? AND first_seq<?';
      expect(lines.some((line) => line.includes(range))).toBe(true);
      expect(
        lines.filter((line) => line.startsWith('SCAN') && /\b(?:e|b|events)\b/.test(line)),
      ).toEqual([]);
    }
  });

  test('due runs are found among the open ones, by partial indexes and by their inbox', async () => {
    const tables = (await plan(selectDue('sqlite', 0, 1).sql)).filter((line) =>
      /^(SCAN|SEARCH) (r|d|m|run_inbox|runs)\b/.test(line),
    );
    expect(tables.filter((line) => line.startsWith('SCAN'))).toEqual([]);
    // From tenant to tenant, and within a tenant.
    expect(tables).toEqual(
      expect.arrayContaining([
        'SEARCH runs USING COVERING INDEX runs_open (tenant_id>?)',
        'SEARCH r USING INDEX runs_open (tenant_id=?)',
        'SEARCH runs USING COVERING INDEX runs_to_wake (tenant_id>?)',
        'SEARCH r USING INDEX runs_to_wake (tenant_id=? AND wake_at<?)',
        'SEARCH run_inbox USING COVERING INDEX inboxes_of_tenant (tenant_id>?)',
        'SEARCH m USING INDEX inboxes_of_tenant (tenant_id=?)',
        'SEARCH run_inbox USING COVERING INDEX cancels_of_tenant (tenant_id>?)',
        'SEARCH m USING INDEX cancels_of_tenant (tenant_id=?)',
        'SEARCH d USING INDEX sqlite_autoindex_runs_1 (id=?)',
      ]),
    );
  });
});
