/** That damage is detected: flipped bytes in the file, and rows that were lost or moved. */
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SystemStore, TenantStore } from '@relay/core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { delta, newApproval, newRun, step } from '../contract/fixtures.ts';
import type { TestRun } from '../contract/fixtures.ts';
import { openSqliteStore } from '../../src/index.ts';

const marks = {
  payload: 'journal-payload-0123456789',
  checkpoint: 'checkpoint-text-0123456789',
  snapshot: 'snapshot-text-0123456789',
  params: 'relay-params-0123456789',
  digest: 'digest0123456789abcdef',
};

describe('damage', () => {
  let dir: string;
  let store: SystemStore;
  let tenant: TenantStore;
  let run: TestRun;
  let other: TestRun;
  let approvalId: string;

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'relay-damage-'));
    store = await openSqliteStore({ dir });
    tenant = store.tenant('tenant');
    run = await newRun(tenant);
    other = await newRun(tenant);
    const approval = newApproval(run, { params: { text: marks.params }, digest: marks.digest });
    approvalId = approval.id;
    await tenant.append(
      step(run, {
        events: [delta('a'), delta(marks.payload)],
        approvals: [approval],
        progress: { checkpoint: marks.checkpoint, snapshot: marks.snapshot, snapshotSeq: 3 },
      }),
    );
    await tenant.append(step(run, { afterSeq: 3, events: [delta('b'), delta('c')] }));
    await tenant.append(step(run, { afterSeq: 5, events: [delta('d')] }));
    await tenant.append(step(other, { events: [delta('a'), delta('b')] }));
  });
  afterEach(async () => {
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const readAll = () => tenant.readEvents(run.id, { after: 0, limit: 100 });
  const reopen = async () => {
    store = await openSqliteStore({ dir });
    tenant = store.tenant('tenant');
  };

  /** Changes one bit of the file. */
  function flip({ at, bit }: { at: number; bit: number }): void {
    const path = join(dir, 'relay.db');
    const file = openSync(path, 'r+');
    writeSync(file, Uint8Array.of((readFileSync(path)[at] ?? 0) ^ (1 << bit)), 0, 1, at);
    closeSync(file);
  }

  /** That it is detected, and that it was this bit alone. */
  async function afterFlip(mark: string, index: number, look: () => Promise<unknown>) {
    await store.close();
    const start = readFileSync(join(dir, 'relay.db')).indexOf(mark);
    const spot = { at: start + (index % mark.length), bit: index % 8 };
    flip(spot);
    await reopen();
    await expect(look()).rejects.toMatchObject({ code: 'journal_corrupt' });
    await store.close();
    flip(spot);
    await reopen();
    await expect(look()).resolves.toBeDefined();
  }

  /** As another program would, past all our checks. */
  function tamper(sql: string): void {
    const db = new DatabaseSync(join(dir, 'relay.db'));
    db.exec(sql);
    db.close();
  }

  test('a flipped bit anywhere in an event is detected', async () => {
    for (let index = 0; index < 10; index += 1) await afterFlip(marks.payload, index, readAll);
  });

  test('a flipped bit in a checkpoint or a snapshot is detected', async () => {
    const look = () => tenant.readRun(run.id);
    for (let index = 0; index < 5; index += 1) {
      await afterFlip(marks.checkpoint, index, look);
      await afterFlip(marks.snapshot, index + 5, look);
    }
  });

  test('a run with a damaged checkpoint can still be ended', async () => {
    tamper(`UPDATE runs SET serialized_state = 'x' WHERE id = '${run.id}'`);
    await expect(tenant.readRun(run.id)).rejects.toMatchObject({ code: 'journal_corrupt' });
    expect(await tenant.readRunHead(run.id)).toMatchObject({ id: run.id, lastSeq: 6 });
    const progress = { status: 'failed', checkpoint: '{}', snapshot: null } as const;
    const end = step(run, { afterSeq: 6, events: [delta('e')], progress });
    expect(await tenant.append(end)).toBe('committed');
    expect(await tenant.readRun(run.id)).toMatchObject({ status: 'failed', checkpoint: '{}' });
  });

  test('a decision that was changed on its way to the run is detected', async () => {
    const by = { type: 'key', id: 'k', name: 'ada' } as const;
    const queued = { id: 'command', command: { kind: 'cancel', reason: 'stop', by } } as const;
    expect(await tenant.postRunCommand(run.id, queued)).toBe(true);
    expect(await tenant.readInbox(run.id)).toEqual([queued]);
    tamper(`UPDATE run_inbox SET command = replace(command, 'stop', 'play')`);
    await expect(tenant.readInbox(run.id)).rejects.toMatchObject({ code: 'journal_corrupt' });
  });

  test('a flipped bit in what a person is shown is detected', async () => {
    const look = () => tenant.readApproval(approvalId);
    for (let index = 0; index < 5; index += 1) {
      await afterFlip(marks.params, index, look);
      await afterFlip(marks.digest, index, look);
    }
  });

  test('the error names the run and the seq', async () => {
    tamper(`UPDATE events SET json = json || ' ' WHERE run_id = '${run.id}' AND last_seq = 5`);
    await expect(readAll()).rejects.toThrow(
      `The journal of run ${run.id} at seq 4 to 5 is damaged: it does not match its checksum`,
    );
  });

  test('what lies before and after the damage can still be read', async () => {
    tamper(`UPDATE events SET at = at + 1 WHERE run_id = '${run.id}' AND last_seq = 5`);
    await expect(readAll()).rejects.toMatchObject({ code: 'journal_corrupt' });
    expect(await tenant.readEvents(run.id, { after: 0, limit: 3 })).toHaveLength(3);
    expect(await tenant.readEvents(run.id, { after: 5, limit: 10 })).toHaveLength(1);
    expect(await tenant.readEvents(other.id, { after: 0, limit: 10 })).toHaveLength(3);
  });

  const of = (lastSeq: number) =>
    `run_id = (SELECT id FROM runs ORDER BY id LIMIT 1) AND last_seq = ${lastSeq}`;
  const wrongs: Record<string, { sql: string; says: RegExp }> = {
    'a row that is missing in the middle': {
      sql: `DELETE FROM events WHERE ${of(5)}`,
      says: /expected seq 4, found 6 to 6/,
    },
    'a row that is missing at the beginning': {
      sql: `DELETE FROM events WHERE ${of(1)}`,
      says: /expected seq 1, found 2 to 3/,
    },
    'a row that is missing at the end': {
      sql: `DELETE FROM events WHERE ${of(6)}`,
      says: /seq 6 to 6 are missing/,
    },
    'all rows missing': { sql: 'DELETE FROM events', says: /seq 1 to 6 are missing/ },
    'rows that overlap': {
      sql: `UPDATE events SET first_seq = 3 WHERE ${of(5)}`,
      says: /expected seq 4, found 3 to 5/,
    },
    'a row that begins later': {
      sql: `UPDATE events SET first_seq = 5 WHERE ${of(5)}`,
      says: /expected seq 4, found 5 to 5/,
    },
    'a row at another time': { sql: `UPDATE events SET at = 1 WHERE ${of(5)}`, says: /checksum/ },
    'the row of another run': {
      sql: `UPDATE events SET json = (SELECT json FROM events e WHERE e.last_seq = 3
        AND e.run_id <> events.run_id) WHERE ${of(3)}`,
      says: /checksum/,
    },
    'a journal that is said to be longer': {
      sql: 'UPDATE runs SET last_seq = 9',
      says: /seq 7 to 9 are missing/,
    },
  };

  for (const [name, { sql, says }] of Object.entries(wrongs)) {
    test(`${name} is detected`, async () => {
      tamper(sql);
      const read = readAll();
      await expect(read).rejects.toMatchObject({ code: 'journal_corrupt' });
      await expect(read).rejects.toThrow(says);
    });
  }

  test('a missing end is detected from wherever one reads', async () => {
    tamper(`DELETE FROM events WHERE ${of(6)}`);
    const tail = tenant.readEvents(run.id, { after: 5, limit: 10 });
    await expect(tail).rejects.toMatchObject({ code: 'journal_corrupt' });
    expect(await tenant.readEvents(run.id, { after: 0, limit: 5 })).toHaveLength(5);
  });

  test('a checkpoint that was removed is missing, and damages nothing', async () => {
    tamper(`UPDATE runs SET serialized_state = NULL WHERE id = '${run.id}'`);
    expect(await tenant.readRun(run.id)).toMatchObject({ id: run.id, checkpoint: null });
  });

  test('a checkpoint that was put in from elsewhere is detected', async () => {
    tamper(`UPDATE runs SET serialized_state = 'another text' WHERE id = '${run.id}'`);
    await expect(tenant.readRun(run.id)).rejects.toThrow(`The checkpoint of run ${run.id}`);
    tamper(`UPDATE runs SET state_checksum = NULL WHERE id = '${run.id}'`);
    await expect(tenant.readRun(run.id)).rejects.toThrow(`The checkpoint of run ${run.id}`);
    tamper(`UPDATE runs SET serialized_state = 'put in' WHERE id = '${other.id}'`);
    await expect(tenant.readRun(other.id)).rejects.toMatchObject({ code: 'journal_corrupt' });
  });

  test('a snapshot at another seq is detected', async () => {
    tamper('UPDATE snapshots SET seq = seq + 1');
    await expect(tenant.readRun(run.id)).rejects.toThrow(`The snapshot of run ${run.id}`);
  });

  test('an approval that was prolonged or renamed is detected', async () => {
    for (const change of ['expires_at = expires_at + 1', `tool = '"bash"'`, `kind = 'outcome'`]) {
      await store.close();
      tamper(`UPDATE approvals SET ${change}`);
      await reopen();
      await expect(tenant.readApproval(approvalId)).rejects.toThrow(
        `Approval ${approvalId} is damaged`,
      );
    }
  });

  test('text that is no JSON is damage, not a crash', async () => {
    tamper(`UPDATE runs SET labels = '{'`);
    await expect(tenant.readRun(run.id)).rejects.toMatchObject({ code: 'journal_corrupt' });
  });
});
