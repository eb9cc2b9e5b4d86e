/** The SQLite store among other processes: killed in the middle, and beside another writer. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { delta, identityIn, newRun, noon, step } from '../../contract/fixtures.ts';
import { openSqliteDriver } from '../../../src/drivers/sqlite/file-driver.ts';
import { openSqliteStore } from '../../../src/index.ts';
import { migrate } from '../../../src/sql/schema/migrations.ts';
import { createSqlStore } from '../../../src/store.ts';

/** Eight runs that append as fast as they can, up to a seq, and say so after each commit. */
const writerScript = (dir: string, limit: number) => `
  const { openSqliteStore } = await import(${JSON.stringify(new URL('../../../src/index.ts', import.meta.url).href)});
  const store = await openSqliteStore({ dir: ${JSON.stringify(dir)} });
  const tenant = store.tenant('tenant');
  async function write(runId) {
    const createdAt = Date.now();
    const identity = {
      id: runId, tenantId: 'tenant', conversationId: 'c', correlationId: 'r', surface: 'runs',
      agent: 'a', model: 'm', labels: {}, parentRunId: null, workflowId: null, keyId: null, owner: 'ada', createdAt,
    };
    const lease = { owner: 'node', until: createdAt + 60_000 };
    await tenant.createRun({ identity, lease, events: [], progress: { status: 'running' } });
    for (let seq = 0; seq < ${limit}; ) {
      const count = Math.min(1 + (seq % 3), ${limit} - seq);
      const text = (n) => ({ type: 'text.appended', agentId: 'a', textId: 't', text: 'token ' + n });
      const events = Array.from({ length: count }, (_, i) => text(seq + i));
      const outcome = await tenant.append({ runId, epoch: 1, afterSeq: seq, at: Date.now(), events });
      if (outcome !== 'committed') throw new Error(outcome);
      seq += count;
      process.stdout.write(runId + ' ' + seq + '\\n');
    }
  }
  await Promise.all(Array.from({ length: 8 }, (_, i) => write(process.pid + '-' + i)));
  await store.close();`;

/** Makes runs with the keys key-0, key-1, …, as fast as it can, and says so after each commit. */
const keyedScript = (dir: string) => `
  const { openSqliteStore } = await import(${JSON.stringify(new URL('../../../src/index.ts', import.meta.url).href)});
  const store = await openSqliteStore({ dir: ${JSON.stringify(dir)} });
  for (let n = 0; ; n += 8) {
    await Promise.all(Array.from({ length: 8 }, async (_, i) => {
      const key = 'key-' + (n + i);
      const identity = {
        id: 'run-of-' + key, tenantId: 'tenant', conversationId: 'c', correlationId: 'r',
        surface: 'runs', agent: 'a', model: 'm', labels: {}, parentRunId: null, workflowId: null,
        keyId: null, owner: 'ada', createdAt: 1,
      };
      const idempotency = { key, fingerprint: 'f', expiresAt: 9 };
      await store.tenant('tenant').createRun({ identity, lease: null, events: [], idempotency });
      process.stdout.write(key + ' 1\\n');
    }));
  }`;

describe('the SQLite store among other processes', () => {
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'relay-killed-'));
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  /** Starts a writer; collects the last acknowledged seq, by run. */
  function startWriter(limit: number, script = writerScript(dir, limit)) {
    const args = ['--input-type=module', '-e', script];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const acknowledged = new Map<string, number>();
    const lines = createInterface({ input: child.stdout });
    lines.on('line', (line) => {
      const [runId, seq] = line.split(' ');
      if (runId !== undefined && seq !== undefined) acknowledged.set(runId, Number(seq));
    });
    return { child, acknowledged, ended: Promise.all([once(child, 'exit'), once(lines, 'close')]) };
  }

  function integrity(): unknown {
    const db = new DatabaseSync(join(dir, 'relay.db'));
    const [row] = db.prepare('PRAGMA integrity_check').all();
    db.close();
    return row?.['integrity_check'];
  }

  async function expectComplete(acknowledged: ReadonlyMap<string, number>): Promise<void> {
    const store = await openSqliteStore({ dir });
    const tenant = store.tenant('tenant');
    for (const [runId, seq] of acknowledged) {
      const run = await tenant.readRun(runId);
      expect(run?.lastSeq).toBeGreaterThanOrEqual(seq);
      const events = await tenant.readEvents(runId, { after: 0, limit: Infinity });
      expect(events.map((event) => event.seq)).toEqual(events.map((_, i) => i + 1));
      expect(events).toHaveLength(run?.lastSeq ?? -1);
    }
    await store.close();
  }

  test('kill -9 in the middle of committing loses nothing that was acknowledged', async () => {
    const all = new Map<string, number>();
    for (let round = 0; round < 5; round += 1) {
      const { child, acknowledged, ended } = startWriter(Infinity);
      while (acknowledged.size < 8) await new Promise((resolve) => setTimeout(resolve, 5));
      await new Promise((resolve) => setTimeout(resolve, 20 + round * 37));
      child.kill('SIGKILL');
      await ended;
      expect(integrity()).toBe('ok');
      for (const [runId, seq] of acknowledged) all.set(runId, seq);
      await expectComplete(all);
    }
    expect(all.size).toBe(40);
    expect([...all.values()].reduce((sum, seq) => sum + seq, 0)).toBeGreaterThan(400);
  });

  test('what a killed process held is due again after a reclaim', async () => {
    const { child, acknowledged, ended } = startWriter(Infinity);
    while (acknowledged.size < 8) await new Promise((resolve) => setTimeout(resolve, 5));
    child.kill('SIGKILL');
    await ended;
    const store = await openSqliteStore({ dir });
    expect(await store.dueRuns(Date.now(), 100)).toEqual([]);
    await store.releaseAllLeases();
    const due = await store.dueRuns(Date.now(), 100);
    expect(new Set(due.map(({ runId }) => runId))).toEqual(new Set(acknowledged.keys()));
    await store.close();
  });

  test('a kill leaves a run and its idempotency key, or neither', async () => {
    const { child, acknowledged, ended } = startWriter(0, keyedScript(dir));
    while (acknowledged.size < 100) await new Promise((resolve) => setTimeout(resolve, 5));
    child.kill('SIGKILL');
    await ended;
    const store = await openSqliteStore({ dir });
    const tenant = store.tenant('tenant');
    for (let n = 0; n < acknowledged.size + 20; n += 1) {
      const key = `key-${n}`;
      const wasThere = (await tenant.readRun(`run-of-${key}`)) !== undefined;
      if (acknowledged.has(key)) expect(wasThere).toBe(true);
      const idempotency = { key, fingerprint: 'f', expiresAt: 9 };
      const identity = identityIn(tenant, { createdAt: 2 });
      const made = await tenant.createRun({ identity, lease: null, events: [], idempotency });
      const exists = { kind: 'exists', runId: `run-of-${key}`, fingerprint: 'f' };
      expect(made).toEqual(wasThere ? exists : { kind: 'created' });
    }
    await store.close();
  });

  test('processes that write at once all succeed', async () => {
    const writers = [startWriter(100), startWriter(100), startWriter(100)];
    const exits = await Promise.all(writers.map(({ ended }) => ended));
    expect(exits.map(([[code]]) => code)).toEqual([0, 0, 0]);
    expect(integrity()).toBe('ok');
    const all = new Map(writers.flatMap(({ acknowledged }) => [...acknowledged]));
    expect([...all.values()]).toEqual(Array.from({ length: 24 }, () => 100));
    await expectComplete(all);
  });

  test('its files are readable by their owner alone', async () => {
    const data = join(dir, 'data');
    const store = await openSqliteStore({ dir: data });
    await store.ping();
    const modes = ['', 'relay.db', 'relay.db-wal', 'relay.db-shm'].map(
      (name) => statSync(join(data, name)).mode & 0o777,
    );
    expect(modes).toEqual([0o700, 0o600, 0o600, 0o600]);
    await store.close();
  });

  test('a full disk refuses an append, and the run goes on afterwards', async () => {
    const driver = await openSqliteDriver({ path: join(dir, 'relay.db') });
    await migrate(driver);
    const store = createSqlStore(driver);
    const tenant = store.tenant('tenant');
    const run = await newRun(tenant);
    await driver.transact([{ sql: 'PRAGMA max_page_count = 1', params: [] }]);
    const large = step(run, { events: [delta('x'.repeat(50_000))] });
    await expect(tenant.append(large)).rejects.toMatchObject({ code: 'storage_full' });
    const keyed = {
      identity: identityIn(tenant),
      lease: null,
      events: large.events,
      idempotency: { key: 'k', fingerprint: 'f', expiresAt: noon + 9 },
    };
    await expect(tenant.createRun(keyed)).rejects.toMatchObject({ code: 'storage_full' });
    expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: 1 });
    expect(await tenant.readEvents(run.id, { after: 0, limit: 10 })).toHaveLength(1);
    await driver.transact([{ sql: 'PRAGMA max_page_count = 1000000', params: [] }]);
    expect(await tenant.append(large)).toBe('committed');
    expect(await tenant.createRun(keyed)).toEqual({ kind: 'created' });
    await expect(store.ping()).resolves.toBeUndefined();
    await store.close();
  });
});
