/** What only shows where several nodes share a database. */
import type { SystemStore } from '@relay/core';
import { Client } from 'pg';
import { uuidv7 } from 'uuidv7';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../../test/support/postgres.ts';
import {
  decisionOn,
  cancelCommand,
  ending,
  identityIn,
  newApproval,
  newRun,
  noon,
  started,
  step,
  waitingRun,
} from '../../contract/fixtures.ts';
import { addSession, changeOf, send } from '../../contract/sessions/fixtures.ts';
import { newMemory } from '../../contract/memories/memories.ts';
import { openPostgresDriver } from '../../../src/drivers/postgres/driver.ts';
import { openPostgresStore } from '../../../src/index.ts';
import { migrate, migrations } from '../../../src/sql/schema/migrations.ts';
import { createSqlStore } from '../../../src/store.ts';

let database: TestDatabase;
const opened: { close(): Promise<void> }[] = [];

beforeEach(async () => {
  database = await createDatabase();
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.close()));
  await database.drop();
});

async function openStore(): Promise<SystemStore> {
  const store = await openPostgresStore({ url: database.url });
  opened.push(store);
  return store;
}

async function openDriver() {
  const driver = await openPostgresDriver({ url: database.url });
  opened.push(driver);
  return driver;
}

describe('nodes that start together', () => {
  test('eight of them apply each step once, and all of them work', async () => {
    const stores = await Promise.all(Array.from({ length: 8 }, openStore));
    const applied = await database.sql('SELECT id FROM migrations ORDER BY id');
    expect(applied.map(({ id }) => Number(id))).toEqual(migrations.map(({ id }) => id));
    const tenants = await Promise.all(
      stores.map((store) => store.ensureTenant({ id: uuidv7(), name: 'default', at: 1 })),
    );
    expect(new Set(tenants.map(({ id }) => id)).size).toBe(1);
  });

  test('text is compared byte by byte, whatever the language of the database', async () => {
    await openStore();
    const loose = await database.sql(
      `SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'`,
    );
    expect(loose).toEqual([]);
  });
});

describe('vectors of memories', () => {
  const model = 'test:a';
  const space = { namespace: 'user:42', model };
  const near = async (store: SystemStore) => {
    const search = { ...space, limit: 10, floor: 0.1, now: noon };
    const vector = Float32Array.of(1, 0);
    const found = await store.tenant('t').vectors.nearest({ ...search, vector });
    return found.map(({ id }) => id);
  };
  const mean = async (store: SystemStore, at: number) => {
    const memory = await store.tenant('t').addMemory(newMemory());
    const vector = Float32Array.of(1, at / noon / 10);
    await store.tenant('t').vectors.put({ memoryId: memory.id, model, vector, at });
    return memory.id;
  };

  test('that one node adds, replaces or deletes count at once on another that has them cached', async () => {
    const [one, other] = await Promise.all([openStore(), openStore()]);
    const first = await mean(one, noon);
    expect(await near(other)).toEqual([first]);
    // Also those of a node whose clock is far behind.
    const late = await mean(one, noon - 3_600_000);
    expect((await near(other)).toSorted()).toEqual([first, late].toSorted());
    await one.tenant('t').deleteMemory(first);
    const third = await mean(one, noon + 1);
    expect((await near(other)).toSorted()).toEqual([late, third].toSorted());
    await one.tenant('t').clearMemories('user:42', 100);
    expect(await near(other)).toEqual([]);
  });

  test('are made once, whichever node claims the memory, while others clear the namespace', async () => {
    const stores = await Promise.all([openStore(), openStore(), openStore()]);
    const [one] = stores;
    for (let n = 0; n < 60; n += 1) await one.tenant('t').addMemory(newMemory());
    const claims = stores.map(async (store) => {
      const { vectors } = store.tenant('t');
      const claimed = [];
      for (let round = 0; round < 4; round += 1) {
        const some = await vectors.claim({ model, now: noon, limit: 5 });
        claimed.push(...some.map(({ id }) => id));
        const vector = Float32Array.of(1, 0);
        await Promise.all(
          some.map(({ id }) => vectors.put({ memoryId: id, model, vector, at: noon })),
        );
      }
      return claimed;
    });
    const clears = stores.map((store) => store.tenant('t').clearMemories('user:42', 7));
    const ids = (await Promise.all(claims)).flat();
    expect(new Set(ids).size).toBe(ids.length);
    await Promise.all(clears);
  });
});

describe('a rolling upgrade', () => {
  const next = {
    id: migrations.length + 1,
    statements: [
      'CREATE TABLE later (id TEXT NOT NULL PRIMARY KEY)',
      'ALTER TABLE runs ADD COLUMN later TEXT',
      `ALTER TABLE approvals ADD COLUMN later TEXT NOT NULL DEFAULT 'none'`,
      'CREATE INDEX later_runs ON runs (later) WHERE later IS NOT NULL',
    ],
  };

  test('a node of the version before goes on, and starts, on the tables of the next one', async () => {
    const store = await openStore();
    const tenant = store.tenant(uuidv7());
    const begun = await newRun(tenant);
    const approval = newApproval(begun);
    await tenant.append(step(begun, { approvals: [approval] }));
    await migrate(await openDriver(), [...migrations, next]);

    for (const older of [store, await openStore()]) {
      const mine = older.tenant(tenant.tenantId);
      const run = await newRun(mine);
      expect(await mine.append(step(run, { approvals: [newApproval(run)] }))).toBe('committed');
      expect(await mine.append(ending(run, { afterSeq: 2 }))).toBe('committed');
      expect(await mine.readRun(run.id)).toMatchObject({ status: 'completed' });
      expect(await mine.readApproval(approval.id)).toMatchObject({ id: approval.id });
      expect((await mine.listRuns({}, { limit: 10 })).items).not.toEqual([]);
    }
    expect(await tenant.decideApproval(decisionOn(approval, { at: approval.requestedAt }))).toBe(
      true,
    );
    expect(await tenant.append(step(begun, { afterSeq: 2 }))).toBe('committed');
  });

  test('one that takes something away keeps older nodes out', async () => {
    const breaking = { ...next, floor: next.id };
    await migrate(await openDriver(), [...migrations, breaking]);
    await expect(openStore()).rejects.toMatchObject({
      message: expect.stringContaining('Upgrade Relay'),
    });
  });
});

describe("a lease is counted by the database's clock", () => {
  const hour = 3_600_000;
  const slow = () => Date.now() - hour;
  const fast = () => Date.now() + hour;
  const claimAt = (owner: string, now: number, ttl = 10_000) => ({ owner, now, until: now + ttl });

  test('a node whose clock is ahead claims nothing from one whose clock is behind', async () => {
    const store = await openStore();
    const tenant = store.tenant(uuidv7());
    const run = await newRun(tenant, { lease: null });
    expect(await store.claimRun(run.id, claimAt('slow', slow()))).toMatchObject({ epoch: 1 });
    expect(await store.claimRun(run.id, claimAt('fast', fast()))).toBeUndefined();
    expect(await store.dueRuns(fast(), 10)).toEqual([]);
    const renewal = { runIds: [run.id], now: slow(), until: slow() + 10_000 };
    expect(await store.renewLeases('slow', renewal)).toEqual([run.id]);
    expect(await store.claimRun(run.id, claimAt('fast', fast()))).toBeUndefined();
  });

  test('a run that is created by a node with a slow clock has a valid lease', async () => {
    const store = await openStore();
    const createdAt = slow();
    const run = await newRun(store.tenant(uuidv7()), {
      identity: { createdAt },
      lease: { owner: 'slow', until: createdAt + 10_000 },
    });
    expect(await store.claimRun(run.id, claimAt('fast', fast()))).toBeUndefined();
    expect(await store.dueRuns(Date.now(), 10)).toEqual([]);
  });

  test('a node whose clock is behind takes over what one that is ahead has lost', async () => {
    const store = await openStore();
    const run = await newRun(store.tenant(uuidv7()), { lease: null });
    expect(await store.claimRun(run.id, claimAt('fast', fast(), 50))).toMatchObject({ epoch: 1 });
    await expect
      .poll(() => store.claimRun(run.id, claimAt('slow', slow())), { timeout: 5_000 })
      .toMatchObject({ epoch: 2 });
  });

  test('a node is alive by it as well', async () => {
    const store = await openStore();
    const connection = { id: uuidv7(), node: 'slow' };
    await newRun(store.tenant(uuidv7()), { connection });
    await store.heartbeatNode(claimAt('slow', slow()));
    expect(await store.orphanedConnections('fast', fast())).toEqual([]);
    await store.heartbeatNode(claimAt('slow', fast(), 50));
    await expect.poll(() => store.orphanedConnections('fast', slow())).toHaveLength(1);
  });
});

describe('two nodes at once', () => {
  test('of racing claims, decisions and idempotency keys one holds', async () => {
    const stores = await Promise.all([openStore(), openStore()]);
    const tenantId = uuidv7();
    const tenants = stores.map((store) => store.tenant(tenantId));
    const [tenant] = tenants;
    if (tenant === undefined) throw new Error('no store');
    for (let round = 0; round < 20; round += 1) {
      const run = await newRun(tenant, { lease: null });
      const now = Date.now();
      const claims = await Promise.all(
        stores.map((store, n) =>
          store.claimRun(run.id, { owner: `${n}`, now, until: now + 60_000 }),
        ),
      );
      expect(claims.filter((claim) => claim !== undefined)).toMatchObject([{ epoch: 1 }]);
      const approval = newApproval(run);
      await tenant.append(step(run, { approvals: [approval] }));
      const decided = await Promise.all(
        tenants.map((each) =>
          each.decideApproval(decisionOn(approval, { at: approval.requestedAt })),
        ),
      );
      expect(decided.filter(Boolean)).toHaveLength(1);
      expect(await tenant.readInbox(run.id)).toHaveLength(1);
      const idempotency = { key: `k${round}`, fingerprint: 'f', expiresAt: now + 60_000 };
      const created = await Promise.allSettled(
        tenants.map((each) => newRun(each, { idempotency, identity: { createdAt: now } })),
      );
      expect(created.every(({ status }) => status === 'fulfilled')).toBe(true);
      const runs = (await tenant.listRuns({ since: now }, { limit: 100 })).items;
      expect(runs.filter((listed) => listed.createdAt === now)).toHaveLength(1);
    }
  });

  test('a run that ends accepts no more commands and keeps none', async () => {
    const stores = await Promise.all([openStore(), openStore()]);
    const tenantId = uuidv7();
    const [one, other] = stores.map((store) => store.tenant(tenantId));
    if (one === undefined || other === undefined) throw new Error('no store');
    for (let round = 0; round < 50; round += 1) {
      const run = await newRun(one);
      const [outcome, posted] = await Promise.all([
        one.append(ending(run)),
        other.postRunCommand(run.id, cancelCommand(`${round}`)),
      ]);
      expect(outcome).toBe('committed');
      // Posted before the end, it went with it; afterwards it was refused.
      expect([true, false]).toContain(posted);
      expect(await one.readInbox(run.id)).toEqual([]);
    }
  });

  test('a decision that waits for the run does not overtake the command it waited for', async () => {
    const store = await openStore();
    const { id } = await store.ensureTenant({ id: uuidv7(), name: 'default', at: 1 });
    const tenant = store.tenant(id);
    const { run, approval } = await waitingRun(tenant);
    const other = new Client({ connectionString: database.url });
    await other.connect();
    opened.push({ close: () => other.end() });
    // What `postRunCommand` does on another node.
    await other.query('BEGIN');
    await other.query('SELECT id FROM runs WHERE id = $1 FOR NO KEY UPDATE', [run.id]);
    await other.query(
      `INSERT INTO run_inbox (id, kind, command, mac, wakes, tenant_id, run_id, position)
        VALUES ('c', 'cancel', '{}', '', 1, $1, $2, 1)`,
      [id, run.id],
    );
    const decided = tenant.append(
      step(run, {
        epoch: 2,
        afterSeq: 2,
        claim: { owner: 'node-2', now: noon, until: noon + 15_000 },
        decision: decisionOn(approval),
      }),
    );
    const waitingSql = `SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    while ((await database.sql(waitingSql)).length === 0);
    await other.query('COMMIT');
    expect(await decided).toBe('fenced');
    expect(await tenant.readApproval(approval.id)).toMatchObject({ status: 'pending' });
  });

  test('runs of the same tenants that end on both nodes never block each other for long', async () => {
    const stores = await Promise.all([openStore(), openStore()]);
    const tenantIds = Array.from({ length: 5 }, () => uuidv7());
    const conversationId = uuidv7();
    const began = performance.now();
    const ends = stores.flatMap((store) =>
      Array.from({ length: 60 }, async (_, n) => {
        const tenant = store.tenant(tenantIds[(n * 7) % 5] ?? '');
        const run = await newRun(tenant, { identity: { conversationId, keyId: `${n % 3}` } });
        return tenant.append(ending(run));
      }),
    );
    expect(new Set(await Promise.all(ends))).toEqual(new Set(['committed']));
    expect(performance.now() - began).toBeLessThan(10_000);
    let ended = 0;
    for (const id of tenantIds) {
      ended += await createSqlStore(await openDriver())
        .tenant(id)
        .countEndedRuns(conversationId);
    }
    expect(ended).toBe(120);
  });
});

describe('sessions that several nodes change', () => {
  test('have journals and inboxes without a gap or a repeat, and nodes never block each other', async () => {
    const nodes = await Promise.all(Array.from({ length: 3 }, openStore));
    const tenants = nodes.map((store) => store.tenant('t'));
    const [tenant] = tenants;
    if (tenant === undefined) throw new Error('no store');
    const ids = await Promise.all(Array.from({ length: 4 }, () => addSession(tenant)));
    const some = (n: number) => [ids[n % 4] ?? '', ids[(n * 3 + 1) % 4] ?? ''];
    let sent = 0;
    const work = tenants.flatMap((each) =>
      Array.from({ length: 25 }, async (_, n) => {
        const to = [...new Set(n % 2 === 0 ? some(n) : some(n).toReversed())];
        sent += to.length;
        await send(each, to);
        const run = await newRun(each, { identity: { conversationId: 'c' } });
        const changes = to.map((sessionId) => changeOf(sessionId));
        const queued = cancelCommand('stop');
        const [stepped] = await Promise.all([
          each.append(step(run, { session: { changes } })),
          each.sessions.change({ changes, runCommands: [{ runId: run.id, queued }] }),
        ]);
        expect(stepped).toBe('committed');
        const ended = ending(run, { afterSeq: 2, session: { changes } });
        expect(await each.append(ended)).toBe('committed');
      }),
    );
    await Promise.all(work);
    let found = 0;
    for (const id of ids) {
      const events = await tenant.sessions.readEvents(id, { after: 0, limit: 10_000 });
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
      const accepted = events.flatMap((event) =>
        event.type === 'delivery.accepted' ? [event.deliveryId] : [],
      );
      const inbox = await tenant.messages.inbox(id, { after: 0, limit: 10_000 });
      expect(inbox.map((entry) => entry.id)).toEqual(accepted);
      found += inbox.length;
    }
    expect(found).toBe(sent);
    const [deadlocks] = await database.sql(
      'SELECT deadlocks::int AS count FROM pg_stat_database WHERE datname = current_database()',
    );
    expect(deadlocks).toEqual({ count: 0 });
  });
});

describe('budgets', () => {
  const budget = { period: 'day', since: noon, concurrentRuns: 5, tokens: 1_000 } as const;

  test('hold for the runs of all nodes together', async () => {
    const nodes = await Promise.all(Array.from({ length: 3 }, openStore));
    const tenantId = uuidv7();
    await nodes[0]?.ensureTenant({ id: tenantId, name: tenantId, at: noon });
    const create = (node: SystemStore, reserved: { tokens: number; costUsd: number }) => {
      const tenant = node.tenant(tenantId);
      return tenant.createRun({
        identity: identityIn(tenant),
        lease: { owner: 'node-1', until: noon + 15_000 },
        events: [started],
        progress: { status: 'running' },
        budgets: [budget],
        reserved,
      });
    };
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, () =>
        nodes.map((node) => create(node, { tokens: 300, costUsd: 0 })),
      ).flat(),
    );
    expect(outcomes.filter(({ kind }) => kind === 'created')).toHaveLength(3);
    const free = { tokens: 0, costUsd: 0 };
    const more = await Promise.all(
      Array.from({ length: 40 }, () => nodes.map((node) => create(node, free))).flat(),
    );
    expect(more.filter(({ kind }) => kind === 'created')).toHaveLength(2);
  });
});
