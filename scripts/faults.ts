/**
 * The long fault run: every fault at its full size, with progress and a summary at the end.
 * Progress is stored in `.cache/faults.json`; an interrupted run continues from there.
 *
 *   npm run faults                 all faults, continuing an interrupted run
 *   npm run faults -- --fresh      from the beginning
 *   npm run faults -- --row SIGSTOP --scale 0.1
 *   npm run faults -- --write      also write the summary to docs/reference/faults.md
 *   npm run faults -- --note TEXT  add a note to the summary, such as other load on the machine
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createChance } from '../test/faults/chaos/faults.ts';
import {
  openEnvironment,
  type Row,
  rows,
  type OpenEnvironment,
} from '../test/faults/chaos/plan.ts';
import { type Report, summaryOf, type Tally } from './faults-summary.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const stateFile = `${root}/.cache/faults.json`;
const { values } = parseArgs({
  options: {
    fresh: { type: 'boolean' },
    write: { type: 'boolean' },
    row: { type: 'string' },
    note: { type: 'string' },
    scale: { type: 'string', default: '1' },
  },
});
const scale = Number(values.scale);

function sized(long: number, ci: number): string {
  return String(Math.max(ci, Math.round(long * scale)));
}

/** Faults that are separate tests; environment variables set their size. */
const tests = [
  {
    fault: 'crash before and after each write of every scenario, three stores',
    files: ['test/faults/crash-matrix'],
    long: 5,
    env: {},
  },
  {
    fault: `${sized(10_000, 1_000)} idle streams, ${sized(500, 50)} readers that stop reading`,
    files: ['test/e2e/many-streams.test.ts'],
    long: 1,
    env: { RELAY_STREAMS: sized(10_000, 1_000), RELAY_STALLED: sized(500, 50) },
  },
];

function readReport(): Report {
  if (values.fresh === true) rmSync(stateFile, { force: true });
  if (existsSync(stateFile)) return JSON.parse(readFileSync(stateFile, 'utf8')) as Report;
  return { scale, seed: Math.floor(Math.random() * 1e9), tallies: {} };
}

const report = readReport();
if (values.note !== undefined) report.note = values.note;
if (report.scale !== scale)
  throw new Error(
    `An interrupted run has scale ${report.scale}; pass --scale ${report.scale} or --fresh`,
  );

function keep(): void {
  mkdirSync(`${root}/.cache`, { recursive: true });
  writeFileSync(stateFile, `${JSON.stringify(report, null, 2)}\n`);
}

function tallyOf(fault: string, wanted: number): Tally {
  const none = { wanted, times: 0, runs: 0, succeeded: 0, violations: [], ms: 0 };
  return (report.tallies[fault] ??= none);
}

let open: OpenEnvironment | undefined;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    console.log('\nInterrupted. Run the same command again to continue.');
    void Promise.resolve(open?.dispose()).finally(() => process.exit(130));
  });
}

async function play(row: Row, index: number): Promise<void> {
  const wanted = Math.max(1, Math.round(row.long * scale));
  const tally = tallyOf(row.fault, wanted);
  while (tally.times < wanted) {
    const times = Math.min(row.piece, wanted - tally.times);
    const began = Date.now();
    open = await openEnvironment(row.setup);
    try {
      const name = `long${index}x${tally.times}`;
      const chance = createChance(report.seed + index * 10_000 + tally.times);
      const outcome = await row.play(open, { name, times, chance });
      tally.times += outcome.times;
      tally.runs += outcome.runs;
      tally.succeeded += outcome.succeeded;
      tally.violations.push(...outcome.violations);
      const unfinished = outcome.runs - outcome.succeeded;
      if (row.allSucceed === true && unfinished > 0) {
        tally.violations.push(`${unfinished} runs did not end as intended`);
      }
    } catch (error) {
      tally.times += times;
      tally.violations.push(String(error));
    } finally {
      await open.dispose();
      open = undefined;
    }
    tally.ms += Date.now() - began;
    keep();
    const { violations, succeeded, runs } = tally;
    const found = violations.length === 0 ? '' : `, ${violations.length} VIOLATIONS`;
    console.log(`${row.fault}: ${tally.times}/${wanted}, ${succeeded}/${runs} runs${found}`);
  }
}

for (const [index, row] of rows.entries()) {
  if (values.row === undefined || row.fault.includes(values.row)) await play(row, index);
}

for (const { fault, files, long, env } of tests) {
  if (values.row !== undefined && !fault.includes(values.row)) continue;
  const wanted = Math.max(1, Math.round(long * scale));
  const tally = tallyOf(fault, wanted);
  while (tally.times < wanted) {
    const began = Date.now();
    const run = spawnSync('npx', ['vitest', 'run', ...files], {
      cwd: root,
      env: { ...process.env, ...env },
      encoding: 'utf8',
    });
    if (run.status !== 0) tally.violations.push(`${run.stdout}${run.stderr}`.slice(-4_000));
    tally.times += 1;
    tally.ms += Date.now() - began;
    keep();
    console.log(`${fault}: ${tally.times}/${wanted}${run.status === 0 ? '' : ', FAILED'}`);
  }
}

const summary = summaryOf(report);
console.log(`\n${summary.text}`);
if (values.write === true) writeFileSync(`${root}/docs/reference/faults.md`, summary.page);
process.exitCode = summary.sound ? 0 : 1;
