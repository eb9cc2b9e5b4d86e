/**
 * The regime at the size that every commit is held to. An oracle in processes of its own decides;
 * `npm run faults` runs the long sizes. Streams that idle or stall are in `test/e2e/many-streams`,
 * crashes around every write in `crash-matrix*`.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { createChance } from './regime/faults.ts';
import { openStage, type Outcome, rows, type LoopFixture, type Staged } from './regime/plan.ts';
import { auditedWrites } from './regime/audit.ts';

const seed = Number(process.env['RELAY_FAULTS_SEED'] ?? 5);
const wanted = process.env['RELAY_FAULTS_ROW'];
const outcomes: Outcome[] = [];

const chosen = rows.filter(({ fault }) => wanted === undefined || fault.includes(wanted));
const scenes = [...new Set(chosen.map(({ fixture }) => fixture))];

describe.each(scenes)('faults on a stage: %s', (fixture: LoopFixture) => {
  let opened: Promise<Staged> | undefined;
  afterAll(async () => (await opened)?.dispose(), 60_000);

  test.each(chosen.filter((row) => row.fixture === fixture))(
    'nothing is lost, done twice or told wrongly: $fault',
    async ({ fault, ci, play }) => {
      const staged = await (opened ??= openStage(fixture));
      const name = `ci${rows.findIndex((row) => row.fault === fault)}`;
      const outcome = await play(staged, { name, times: ci, chance: createChance(seed) });
      console.info(
        `${fault}: ${outcome.times} times, ${outcome.succeeded} of ${outcome.runs} runs`,
      );
      expect(outcome.violations).toEqual([]);
      expect(outcome.times).toBeGreaterThanOrEqual(ci);
      outcomes.push(outcome);
      if (fixture === 'nodes')
        expect(await auditedWrites(staged.stage.postgres)).toBeGreaterThan(0);
    },
    240_000,
  );
});

test('the regime is not vacuous: nearly all runs end as they were meant to', () => {
  const runs = outcomes.reduce((sum, outcome) => sum + outcome.runs, 0);
  const succeeded = outcomes.reduce((sum, outcome) => sum + outcome.succeeded, 0);
  console.info(`${succeeded} of ${runs} runs succeeded`);
  expect(runs).toBeGreaterThan(wanted === undefined ? 200 : -1);
  expect(succeeded).toBeGreaterThanOrEqual(0.95 * runs);
});
