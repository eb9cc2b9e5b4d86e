/**
 * What grows with what is stored: the cost of a run by the runs that were, of a decision, a start and an
 * idle second by the runs that wait, of a page by both, and of a turn by the conversation before it. On
 * SQLite and on PostgreSQL, over 1,000 tenants.
 *
 * Half of all runs belong to the tenant that is measured, the others are spread over all tenants.
 */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Figure, chartOf, shown } from './scale/chart.ts';
import { type Copies, insertCopies, type Original, readOriginal } from './scale/copies.ts';
import { type Database, postgresDatabase, sqliteDatabase } from './scale/database.ts';
import * as measures from './scale/measures.ts';
import { selectRows } from './measure.ts';

const chart = fileURLToPath(new URL('scale.svg', import.meta.url));
const tenantCount = 1_000;
const hourMs = 60 * 60_000;

interface Originals {
  readonly ended: Original;
  /** With another label than all others. */
  readonly canceled: Original;
  readonly waiting: Original;
  /** The second run of a conversation. */
  readonly turn: Original;
}

const databases = { sqlite: sqliteDatabase, postgres: postgresDatabase };

/** Without rounds: what is compared is the same server, with more and more stored. */
export async function benchScale(
  _rounds: number,
  { runs = 100_000, only }: { readonly runs?: number; readonly only?: string } = {},
): Promise<void> {
  const figures: Figure[] = [];
  for (const open of selectRows('scale', databases, only)) {
    const database = await open();
    try {
      await new Scale(database, runs, (figure) => figures.push(figure)).measure();
    } finally {
      await database.dispose();
    }
  }
  showTable(figures);
  writeFileSync(chart, chartOf(figures));
}

class Scale {
  readonly #database: Database;
  readonly #most: number;
  readonly #record: (figure: Figure) => void;
  #tenants: readonly string[] = [];
  #stored = 0;
  /** Copies that were inserted, of each original. */
  readonly #copied = new Map<Original, number>();

  constructor(database: Database, most: number, record: (figure: Figure) => void) {
    this.#database = database;
    this.#most = most;
    this.#record = record;
  }

  async measure(): Promise<void> {
    const originals = await this.#originals();
    this.#tenants = await this.#addTenants(originals.ended.tenantId);
    await this.#byStoredRuns(originals);
    await this.#byWaitingRuns(originals);
    await this.#byConversation(originals);
    await this.#byJournal();
    // Last, since the server goes on with them in the background.
    await this.#dueRuns(originals);
  }

  /** A run that has ended and one that waits for an approval, as the server makes them. */
  async #originals(): Promise<Originals> {
    const { server } = this.#database;
    await server.start();
    const labels = { team: 'blue' };
    const tools = [{ name: 'send_note', kind: 'builtin' }];
    const ended = await this.#start({ input: 'say 20', labels, workflowId: 'nightly' });
    const waiting = await this.#start({ input: 'notify hello', labels, tools });
    const canceled = await this.#start({ input: 'notify hello', labels: { team: 'red' }, tools });
    await server.request(`/v1/runs/${canceled}/cancel`, { method: 'POST' });
    await this.#whenIn(canceled, ['canceled']);
    const conversationId = randomUUID();
    await this.#start({ input: 'say 20', conversationId });
    const turn = await this.#start({ input: 'say 20', conversationId });
    // Reading the audit trail seals it, and sealed entries are copied.
    await (await server.request('/v1/audit')).text();
    await server.stop();
    return {
      ended: await readOriginal(this.#database, ended),
      canceled: await readOriginal(this.#database, canceled),
      waiting: await readOriginal(this.#database, waiting),
      turn: await readOriginal(this.#database, turn),
    };
  }

  /** Starts a run and follows it until it has ended or waits. */
  async #start(body: object): Promise<string> {
    const { server } = this.#database;
    const response = await server.request('/v1/runs', { body: { model: 'demo', ...body } });
    const id = response.headers.get('x-run-id') ?? '';
    await response.body?.cancel();
    await this.#whenIn(id, ['completed', 'waiting']);
    return id;
  }

  async #whenIn(id: string, statuses: readonly string[]): Promise<void> {
    for (;;) {
      const response = await this.#database.server.request(`/v1/runs/${id}`);
      const { status } = (await response.json()) as { status: string };
      if (statuses.includes(status)) return;
    }
  }

  #addTenants(own: string): Promise<string[]> {
    return this.#database.withStore(async (store) => {
      const tenants = [own];
      while (tenants.length < tenantCount) {
        const n = tenants.length;
        const id = `01a00000-0000-7000-8000-${String(n).padStart(12, '0')}`;
        tenants.push((await store.ensureTenant({ id, name: `tenant-${n}`, at: Date.now() })).id);
      }
      return tenants;
    });
  }

  /** Until there are this many copies; the newest are of the time of the original. */
  async #copy(original: Original, count: number, everyMs: number): Promise<void> {
    const more = count - (this.#copied.get(original) ?? 0);
    this.#copied.set(original, count);
    const createdAt = (n: number) => original.createdAt - (more - n) * everyMs;
    await this.#insert({ original, count: more, createdAt });
  }

  async #insert(copies: Omit<Copies, 'tenant'>): Promise<void> {
    const own = this.#tenants[0] ?? '';
    const began = performance.now();
    const fill = () =>
      insertCopies(this.#database, {
        ...copies,
        tenant: (n) => (n % 2 === 0 ? own : (this.#tenants[(n >> 1) % tenantCount] ?? own)),
      });
    // It takes longer to make the indexes of what is there than to keep them while little is added.
    if (copies.count > this.#stored) await this.#database.withoutIndexes(fill);
    else await fill();
    this.#stored += copies.count;
    await this.#database.settle();
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const count = copies.count.toLocaleString('en');
    console.log(`${this.#database.name}: ${count} more runs, stored in ${seconds} s`);
  }

  async #byStoredRuns({ ended, canceled }: Originals): Promise<void> {
    const { server } = this.#database;
    for (const size of [1, 1_000, 100_000, 1_000_000].filter((each) => each <= this.#most)) {
      if (size > 1) {
        await this.#copy(ended, size * 0.9, 100);
        await this.#copy(canceled, size * 0.1, 900);
      }
      const record = this.#recorder('stored runs', size);
      await server.start();
      const { wallMs, cpuMs } = await measures.runs(server);
      record('A run', wallMs);
      record('CPU of a run', cpuMs);
      const lists = {
        'A page of runs': '/v1/runs',
        'Runs by status': '/v1/runs?status=completed',
        'Runs by agent and status': '/v1/runs?agent=assistant&status=failed',
        'Runs by label': '/v1/runs?label=team:blue',
        'Runs by label and status': '/v1/runs?label=team:red&status=canceled',
        'Runs by filters that exclude each other': '/v1/runs?label=team:blue&status=canceled',
        'A workflow': '/v1/workflows/nightly',
        'A page of the audit': '/v1/audit',
      };
      for (const [name, path] of Object.entries(lists)) {
        record(name, await measures.page(server, path));
      }
      record('A deep page of runs', await this.#deepPage(ended, size));
      await server.stop();
    }
  }

  /** From the middle of the list. */
  #deepPage({ createdAt }: Original, size: number): Promise<number> {
    const until = new Date(createdAt - size * 50).toISOString();
    return measures.page(this.#database.server, `/v1/runs?until=${encodeURIComponent(until)}`);
  }

  async #byWaitingRuns({ waiting }: Originals): Promise<void> {
    const { server } = this.#database;
    for (const size of [200, 10_000, 100_000].filter((each) => each <= this.#most)) {
      await this.#copy(waiting, size, 10);
      const record = this.#recorder('waiting runs', size);
      record('Start to ready', await measures.startToReady(server));
      record('An idle second, CPU', await measures.idleCpu(server));
      record('Heap', (await measures.held(server)).bytes / 1024 / 1024, 'MiB');
      record('Pending approvals', await measures.page(server, '/v1/approvals?status=pending'));
      record('A decision, to the end of its run', await measures.decisions(server));
      record('Metrics', await measures.page(server, '/metrics'));
      record('A run beside them', (await measures.runs(server)).wallMs);
      await measures.setBudget(server, { period: 'day', tokens: 1e12 });
      record('A run under a budget', (await measures.runs(server)).wallMs);
      await measures.setBudget(server, undefined);
      await server.stop();
    }
  }

  /** As many that are due: the server resumes all of them. */
  async #dueRuns({ waiting: original }: Originals): Promise<void> {
    const { server } = this.#database;
    const count = Math.min(100_000, this.#most);
    const createdAt = original.createdAt - 48 * hourMs;
    await this.#insert({ original, count, createdAt: () => createdAt });
    const record = this.#recorder('due runs', count);
    const began = performance.now();
    await server.start();
    record('Start with due runs, to ready', performance.now() - began);
    const resumed = `SELECT id FROM runs WHERE tenant_id = '${original.tenantId}'
      AND status IN ('running', 'waiting') AND created_at = ${createdAt} AND epoch > ${original.epoch} LIMIT 1`;
    while ((await this.#database.query(resumed)).length === 0) await pause(5);
    record('Start with due runs, to the first', performance.now() - began);
    record('A run beside due runs', (await measures.runs(server)).wallMs);
    await server.kill();
  }

  async #byConversation({ turn }: Originals): Promise<void> {
    const { server } = this.#database;
    const { conversationId, tenantId } = turn;
    let there = 2;
    for (const size of [10, 1_000, 10_000].filter((each) => each <= this.#most)) {
      const createdAt = (n: number) => turn.createdAt + n;
      const copies = { original: turn, count: size - there, createdAt, after: there };
      await insertCopies(this.#database, { ...copies, tenant: () => tenantId, conversationId });
      there = size;
      await this.#database.query(
        `UPDATE conversations SET ended_runs = ${size} WHERE id = '${conversationId}'`,
      );
      const record = this.#recorder('runs before it', size);
      await server.start();
      record('The first turn after a start', await measures.run(server, { conversationId }));
      const { wallMs, cpuMs } = await measures.runs(server, { conversationId });
      record('A turn', wallMs);
      record('CPU of a turn', cpuMs);
      there += measures.runsMeasured + 1;
      await server.stop();
    }
  }

  async #byJournal(): Promise<void> {
    const { server } = this.#database;
    await server.start();
    for (const size of [10, 1_000, 10_000]) {
      const id = await this.#start({ input: `say ${size}` });
      const record = this.#recorder('tokens', size);
      record('Reading a run', await measures.page(server, `/v1/runs/${id}`));
      const { lastSeq } = (await (await server.request(`/v1/runs/${id}`)).json()) as {
        lastSeq: number;
      };
      const end = `/v1/runs/${id}/stream?after=${lastSeq - 1}`;
      record('Its stream, from the end', await measures.page(server, end));
    }
    await server.stop();
  }

  #recorder(axis: string, size: number) {
    return (measure: string, value: number, unit = 'ms') => {
      const series = this.#database.name;
      this.#record({ measure, unit, axis, series, size, value });
      console.log(
        `  ${measure.padEnd(36)} ${shown(value).padStart(10)} ${unit}  (${size} ${axis})`,
      );
    };
  }
}

function showTable(figures: readonly Figure[]): void {
  for (const [measure, all] of Map.groupBy(figures, (figure) => figure.measure)) {
    const [first] = all;
    console.log(`\n${measure}, ${first?.unit}`);
    for (const { axis, series, size, value } of all) {
      const where = `${size.toLocaleString('en')} ${axis}`;
      console.log(`  ${series.padEnd(12)} ${where.padEnd(24)} ${shown(value).padStart(10)}`);
    }
  }
}
