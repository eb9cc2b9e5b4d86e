/** Which tables and indexes a commit changes: each is a page more that the caller waits for. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openSqliteStore } from '../../src/index.ts';
import {
  decisionOn,
  ending,
  newApproval,
  newAudit,
  newRun,
  noon,
  step,
} from '../contract/fixtures.ts';

/** Before the page. It begins with the number of the page. */
const frameHeader = 24;

describe('the tables and indexes that a commit changes, besides the journal', () => {
  let dir: string;
  let store: SystemStore;
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'relay-pages-'));
    store = await openSqliteStore({ dir });
  });
  afterEach(async () => {
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  });

  /** By the pages that are written to the WAL meanwhile. */
  async function changedBy(work: () => Promise<unknown>): Promise<string[]> {
    const readWal = () => readFileSync(join(dir, 'relay.db-wal'));
    const before = readWal().length;
    await work();
    const wal = readWal();
    const frameSize = frameHeader + wal.readUInt32BE(8);
    const database = new DatabaseSync(join(dir, 'relay.db'), { readOnly: true });
    const rows = database.prepare('SELECT pageno, name FROM dbstat').all();
    database.close();
    const trees = new Map(rows.map(({ pageno, name }) => [pageno, String(name)]));
    const changed = new Set<string>();
    for (let frame = before; frame + frameSize <= wal.length; frame += frameSize) {
      changed.add(trees.get(wal.readUInt32BE(frame)) ?? 'unused');
    }
    const ofJournal = /^(events|sqlite_autoindex_events_1|sqlite_schema)$/;
    return [...changed].filter((name) => !ofJournal.test(name)).toSorted();
  }

  const newHeldRun = (tenant = store.tenant(uuidv7())) =>
    newRun(tenant, {
      conversation: 'new',
      progress: { status: 'running' },
      audit: [newAudit()],
    });

  test('are 9 for a new run', async () => {
    expect(await changedBy(() => newHeldRun())).toEqual([
      'audit_unsealed',
      'conversations',
      'conversations_by_update',
      'runs',
      'runs_by_agent',
      'runs_by_conversation',
      'runs_by_status',
      'runs_open',
      'sqlite_autoindex_runs_1',
    ]);
  });

  test('is the row of the run for its text', async () => {
    const run = await newHeldRun();
    expect(await changedBy(() => run.tenant.append(step(run)))).toEqual(['runs']);
  });

  test('are 9 for the end of a run, if it is not the first of its day', async () => {
    const first = await newHeldRun();
    await first.tenant.append(ending(first));
    const run = await newHeldRun(first.tenant);
    expect(await changedBy(() => run.tenant.append(ending(run)))).toEqual([
      'conversations',
      'conversations_to_prune',
      'runs',
      'runs_by_agent',
      'runs_by_end',
      'runs_by_status',
      'runs_ended',
      'runs_open',
      'usage_days',
    ]);
  });

  test('are 9 for a decision that resumes its run', async () => {
    const run = await newHeldRun();
    const approval = newApproval(run);
    const waiting = { status: 'waiting', wakeAt: approval.expiresAt } as const;
    await run.tenant.append(step(run, { approvals: [approval], progress: waiting, release: true }));
    const decided = step(run, {
      epoch: 2,
      afterSeq: 2,
      claim: { owner: 'node-1', now: noon, until: noon + 15_000 },
      decision: decisionOn(approval, { audit: [newAudit()] }),
      progress: { status: 'running', wakeAt: null },
    });
    expect(await changedBy(async () => run.tenant.append(decided))).toEqual([
      'approvals',
      'approvals_by_decision',
      'approvals_by_kind',
      'audit_unsealed',
      'runs',
      'runs_by_agent',
      'runs_by_status',
      'runs_open',
      'runs_to_wake',
    ]);
  });
});
