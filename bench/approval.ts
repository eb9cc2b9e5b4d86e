/**
 * Runs that wait for an approval: how fast its tool starts, whether it starts once, what a waiting run
 * holds in memory, and what is left of it after a kill. The limit is one row and one event
 * (`processes/approval-limit.ts`).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startPostgres } from '../test/support/postgres-server.ts';
import { type Address, agent, exchange, park, type ParkedRun, repeat } from './client.ts';
import {
  type BenchOptions,
  compare,
  comparison,
  type Contender,
  interleave,
  quantile,
  selectRows,
  show,
} from './measure.ts';
import { inTime } from './processes/in-time.ts';
import { machineMs, type Report, type ToolStart } from './processes/process.ts';
import { type BenchProcess, Processes } from './processes/start.ts';

const approvalsPerRound = 50;
const parkedPerRound = 2_000;
const killed = 100;

function decide(to: Address, { approvalId }: ParkedRun): Promise<void> {
  const { ended } = exchange(to, `/v1/approvals/${approvalId}`, { approved: true });
  return inTime('The answer to a decision', ended);
}

function nextToolStart(nodes: readonly BenchProcess[]): Promise<ToolStart> {
  const started = new Promise<ToolStart>((resolve) => {
    const listen = ({ toolStart }: Report) => {
      if (toolStart === undefined) return;
      for (const { child } of nodes) child.off('message', listen);
      resolve(toolStart);
    };
    for (const { child } of nodes) child.on('message', listen);
  });
  return inTime('The start of an approved tool', started);
}

/** From the request with the decision to the start of the tool, one at a time. */
async function toolDelays(startedOn: BenchProcess, decidedOn: BenchProcess): Promise<number[]> {
  const delays: number[] = [];
  const nodes = [...new Set([startedOn, decidedOn])];
  for (const run of await repeat(approvalsPerRound, 10, () => park(startedOn))) {
    const started = nextToolStart(nodes);
    const before = machineMs();
    await decide(decidedOn, run);
    delays.push((await started).atMs - before);
    await inTime('The end of an approved run', run.ended);
  }
  return delays;
}

async function showDelays(
  title: string,
  contenders: readonly Contender<number[]>[],
  rounds: number,
): Promise<void> {
  await interleave(contenders, 1);
  const results = (await interleave(contenders, rounds)).map((delays) => delays.flat());
  for (const q of [0.5, 0.99]) {
    const figures = results.map((delays) => [quantile(delays, q)]);
    show(`${title}, p${q * 100}`, comparison(contenders, figures), 'ms');
  }
}

async function latency(processes: Processes, rounds: number): Promise<void> {
  const bare = await processes.start('approval-limit.ts');
  const relay = await processes.relay();
  const contenders = [
    { name: 'one row in SQLite, one event', run: () => toolDelays(bare, bare) },
    { name: 'Relay', run: () => toolDelays(relay, relay) },
  ];
  await showDelays('Approval posted → tool starts', contenders, rounds);
}

async function nodes(processes: Processes, rounds: number): Promise<void> {
  const postgres = await startPostgres({ durable: true });
  const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
  const env = {
    RELAY_DATABASE_URL: postgres.url,
    RELAY_MASTER_KEY: 'ab'.repeat(32),
    // The first key is in the folder of the first node.
    RELAY_DATA_DIR: dir,
  };
  try {
    const bare = await processes.start('approval-limit.ts', { env });
    const first = await processes.relay({ env });
    const second = await processes.relay({ env });
    const contenders = [
      { name: 'one row in PostgreSQL, one event', run: () => toolDelays(bare, bare) },
      { name: 'Relay, decided on the starting node', run: () => toolDelays(first, first) },
      { name: 'Relay, decided on the other node', run: () => toolDelays(first, second) },
    ];
    await showDelays('Approval posted → tool starts, two nodes', contenders, rounds);
  } finally {
    await processes.stop();
    await postgres.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function twice(processes: Processes, rounds: number): Promise<void> {
  const relay = await processes.relay();
  const starts = new Map<string, number>();
  relay.child.on('message', ({ toolStart }: Report) => {
    if (toolStart !== undefined) starts.set(toolStart.call, (starts.get(toolStart.call) ?? 0) + 1);
  });
  const all = rounds * 400;
  await repeat(all, 10, async () => {
    const run = await park(relay);
    await Promise.all([decide(relay, run), decide(relay, run), run.ended]);
  });
  const repeated = [...starts.values()].filter((count) => count > 1).length;
  console.log('\nThe same approval posted twice at the same moment');
  console.log(`  tools that ran: ${starts.size} of ${all}; more than once: ${repeated}`);
}

/** In KiB, of runs that wait in addition to those of earlier rounds. */
async function heapPerParkedRun(server: BenchProcess): Promise<number> {
  const before = await server.heapBytes();
  await repeat(parkedPerRound, 10, async () => {
    const run = await park(server);
    run.close();
    await run.ended;
  });
  return ((await server.heapBytes()) - before) / parkedPerRound / 1024;
}

async function parked(processes: Processes, rounds: number): Promise<void> {
  const execArgv = ['--expose-gc'];
  const bare = await processes.start('approval-limit.ts', { execArgv });
  // A client that leaves does not cancel its run.
  const relay = await processes.relay({ execArgv, env: { RELAY_DISCONNECT: 'detach' } });
  const contenders = [
    { name: 'an id in a set', run: () => heapPerParkedRun(bare) },
    { name: 'Relay', run: () => heapPerParkedRun(relay) },
  ];
  // Until caches are full and the code is compiled.
  await interleave(contenders, 1);
  const title = `Live heap per parked run, ${parkedPerRound.toLocaleString('en')} more per round`;
  show(title, await compare(contenders, rounds), 'KiB');
}

async function killedWhileParked(processes: Processes): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
  const env = { RELAY_DATA_DIR: dir };
  try {
    const first = await processes.relay({ env });
    const runs = await repeat(killed, 10, () => park(first));
    await first.kill();
    const second = await processes.relay({ env });
    const started = new Set<string>();
    for (const run of runs) {
      const toolStart = nextToolStart([second]);
      await decide(second, run);
      started.add((await toolStart).call);
    }
    console.log(`\n${killed} parked, kill -9, restart\n  answerable: ${started.size}`);
    await second.stop();
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const rows = { latency, nodes, twice, parked, killed: killedWhileParked } as const;

export async function benchApproval(
  rounds: number,
  { only, profile }: BenchOptions = {},
): Promise<void> {
  for (const row of selectRows('approval', rows, only)) {
    await Processes.use(profile, (processes) => row(processes, rounds));
    agent.destroy();
  }
}
