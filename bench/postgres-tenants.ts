/**
 * What it costs that PostgreSQL itself keeps tenants apart: appends and reads of the tenants' port, as
 * they are, against the same statements without role, setting and policies. Both on the same tables of a
 * PostgreSQL that syncs, taking turns.
 */
import { randomUUID } from 'node:crypto';
import type { RunIdentity, SystemStore, TenantStore } from '@relay/core';
import { openPostgresDriver } from '../packages/store/src/drivers/postgres/driver.ts';
import { migrate } from '../packages/store/src/sql/schema/migrations.ts';
import { createSqlStore } from '../packages/store/src/store.ts';
import { startPostgres } from '../test/support/postgres-server.ts';
import { compare, type Contender, median, show } from './measure.ts';

/** In a round, over all runs: enough that a round takes a while. */
const operations = 4_000;

interface Held {
  readonly tenant: TenantStore;
  readonly id: string;
}

interface Load {
  readonly runs: number;
  readonly tenants: number;
}

async function begin(store: SystemStore, { runs, tenants }: Load): Promise<Held[]> {
  const ids = Array.from({ length: tenants }, () => randomUUID());
  return Promise.all(
    Array.from({ length: runs }, async (_, n) => {
      const tenant = store.tenant(ids[n % tenants] ?? '');
      const identity: RunIdentity = {
        id: randomUUID(),
        tenantId: tenant.tenantId,
        conversationId: randomUUID(),
        correlationId: 'bench',
        surface: 'runs',
        agent: 'assistant',
        model: 'bench',
        labels: {},
        parentRunId: null,
        workflowId: null,
        keyId: null,
        owner: 'ada',
        createdAt: Date.now(),
      };
      const lease = { owner: 'bench', until: Date.now() + 600_000 };
      await tenant.createRun({ identity, lease, events: [text(0)] });
      return { tenant, id: identity.id };
    }),
  );
}

function text(n: number) {
  return {
    type: 'text.appended',
    agentId: 'agent',
    textId: 'text',
    text: `${n} ${'x'.repeat(300)}`,
  } as const;
}

async function appends(store: SystemStore, load: Load): Promise<number> {
  const held = await begin(store, load);
  const each = perRun(load);
  return rate(load.runs * each, () =>
    Promise.all(
      held.map(async ({ tenant, id }) => {
        for (let seq = 1; seq <= each; seq += 1) {
          const append = {
            runId: id,
            epoch: 1,
            afterSeq: seq,
            at: Date.now(),
            events: [text(seq)],
          };
          if ((await tenant.append(append)) !== 'committed') throw new Error('not stored');
        }
      }),
    ),
  );
}

async function reads(store: SystemStore, load: Load): Promise<number> {
  const held = await begin(store, load);
  const each = perRun(load);
  return rate(load.runs * each, () =>
    Promise.all(
      held.map(async ({ tenant, id }) => {
        for (let n = 0; n < each; n += 1) {
          if ((await tenant.readRun(id)) === undefined) throw new Error('not found');
        }
      }),
    ),
  );
}

function perRun({ runs }: Load): number {
  return Math.ceil(operations / Math.max(runs, 4));
}

/** One at a time, each operation beside its like: what slows one down slows the other one down. */
async function alternating(stores: Readonly<Record<string, SystemStore>>): Promise<void> {
  const times = new Map<string, number[]>();
  const timed = async (name: string, work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    const taken = times.get(name) ?? [];
    times.set(name, [...taken, performance.now() - began]);
  };
  const held = await Promise.all(
    Object.entries(stores).map(async ([name, store]) => ({
      name,
      runs: await begin(store, { runs: 2, tenants: 2 }),
    })),
  );
  for (let seq = 1; seq <= operations / 4; seq += 1) {
    for (const { name, runs } of held) {
      const [run, other] = runs;
      if (run === undefined || other === undefined) throw new Error('no runs');
      const append = {
        runId: run.id,
        epoch: 1,
        afterSeq: seq,
        at: Date.now(),
        events: [text(seq)],
      };
      await timed(`an append, ${name}`, () => run.tenant.append(append));
      await timed(`a read, ${name}`, () => run.tenant.readRun(run.id));
      await timed(`a read of another tenant, ${name}`, () => other.tenant.readRun(other.id));
      await run.tenant.readRun(run.id);
    }
  }
  console.log('\nPostgreSQL: one operation at a time, medians');
  for (const [name, taken] of times) {
    console.log(`  ${name.padEnd(50)} ${(median(taken) * 1000).toFixed(0).padStart(6)} µs`);
  }
}

async function rate(count: number, work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return count / ((performance.now() - began) / 1000);
}

export async function benchPostgresTenants(rounds: number): Promise<void> {
  const postgres = await startPostgres({ durable: true });
  const open = () => openPostgresDriver({ url: postgres.url });
  const [bare, bound] = [await open(), await open()];
  try {
    await migrate(bound);
    const { dialect } = bare;
    const close = async () => undefined;
    const stores = {
      // A superuser is held up by no policy.
      'by predicates alone': createSqlStore({
        dialect,
        read: (sql, params) => bare.read(sql, params),
        transact: (unit, of) => bare.transact(unit, of),
        close,
      }),
      'by policies too': createSqlStore({
        dialect,
        read: (sql, params) => bound.read(sql, params),
        transact: (unit, of) => bound.transact(unit, of),
        tenant: (id) => {
          const access = bound.tenant(id);
          return {
            dialect,
            read: (sql, params) => access.read(sql, params),
            transact: (unit, of) => access.transact(unit, of),
          };
        },
        close,
      }),
    };
    await alternating(stores);
    for (const [what, work] of Object.entries({ appends, reads })) {
      for (const load of [
        { runs: 16, tenants: 16 },
        { runs: 256, tenants: 1 },
        { runs: 256, tenants: 256 },
      ]) {
        const contenders: Contender[] = Object.entries(stores).map(([name, store]) => ({
          name,
          run: () => work(store, load),
        }));
        const title = `PostgreSQL: ${load.runs} runs at once, of ${load.tenants} tenants`;
        show(title, await compare(contenders, rounds), `${what}/s`);
      }
    }
  } finally {
    await Promise.all([bare.close(), bound.close()]);
    await postgres.stop();
  }
}
