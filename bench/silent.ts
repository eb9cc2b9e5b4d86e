/**
 * Open streams on which nothing happens: what each holds in memory, and what they cost while they are
 * silent. Each follows a run that waits for an approval. The limit is a bare `node:http` server that
 * keeps its responses open.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { agent, exchange, park, repeat } from './client.ts';
import { type BenchOptions, comparison, show } from './measure.ts';
import { type BenchProcess, Processes } from './processes/start.ts';

const streams = 1_000;
/** Long enough for two heartbeats. */
const silentMs = 30_000;

interface Target {
  readonly name: string;
  readonly server: BenchProcess;
  /** Of streams, one each. */
  readonly paths: readonly string[];
}

/** Resolves when the first bytes have arrived. */
function open(server: BenchProcess, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    exchange(server, path, undefined, () => resolve()).ended.catch(reject);
  });
}

/** In KiB. */
async function heapPerStream({ server, paths }: Target): Promise<number> {
  const left = [...paths];
  const before = await server.heapBytes();
  await repeat(paths.length, 10, () => open(server, left.pop() ?? ''));
  return ((await server.heapBytes()) - before) / paths.length / 1024;
}

async function cpuPercent(targets: readonly Target[]): Promise<number[]> {
  const cpu = () => Promise.all(targets.map(({ server }) => server.cpuMs()));
  const before = await cpu();
  await pause(silentMs);
  return (await cpu()).map((after, index) => ((after - (before[index] ?? 0)) / silentMs) * 100);
}

async function parkedRuns(server: BenchProcess): Promise<string[]> {
  return repeat(streams, 10, async () => {
    const run = await park(server);
    run.close();
    await run.ended;
    return `/v1/runs/${run.runId}/stream`;
  });
}

/** Open streams cannot be closed and opened again without a trace, so there is one round. */
export async function benchSilent(_rounds: number, { profile }: BenchOptions = {}): Promise<void> {
  await Processes.use(profile, async (processes) => {
    const execArgv = ['--expose-gc'];
    const bare = await processes.start('silent-limit.ts', { execArgv });
    const relay = await processes.relay({ execArgv, env: { RELAY_DISCONNECT: 'detach' } });
    const targets: Target[] = [
      { name: 'bare node:http', server: bare, paths: Array.from({ length: streams }, () => '/') },
      { name: 'Relay', server: relay, paths: await parkedRuns(relay) },
    ];
    const idle = await cpuPercent(targets);
    const heap: number[] = [];
    for (const target of targets) heap.push(await heapPerStream(target));
    const open = await cpuPercent(targets);
    const row = (title: string, figures: readonly number[], unit: string) =>
      show(
        title,
        comparison(
          targets,
          figures.map((figure) => [figure]),
        ),
        unit,
      );
    row('Live heap per silent open stream, of 1,000', heap, 'KiB');
    row('CPU with 1,000 silent streams open', open, '% of a core');
    row('  and with none', idle, '% of a core');
  });
  agent.destroy();
}
