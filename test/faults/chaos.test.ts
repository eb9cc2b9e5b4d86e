/**
 * The chaos tests at the size for every commit. An oracle in separate processes decides;
 * `npm run faults` runs the long sizes. Streams that idle or stall are in `test/e2e/many-streams`,
 * crashes around every write in `crash-matrix*`.
 */
import { afterAll, describe, expect, test } from 'vitest';
import { createChance } from './chaos/faults.ts';
import {
  openEnvironment,
  type Outcome,
  rows,
  type Setup,
  type OpenEnvironment,
} from './chaos/plan.ts';
import { auditedWrites } from './chaos/audit.ts';

const seed = Number(process.env['RELAY_FAULTS_SEED'] ?? 5);
const wanted = process.env['RELAY_FAULTS_ROW'];
const outcomes: Outcome[] = [];

const chosen = rows.filter(({ fault }) => wanted === undefined || fault.includes(wanted));
const setups = [...new Set(chosen.map(({ setup }) => setup))];

describe.each(setups)('faults with the setup: %s', (setup: Setup) => {
  let opened: Promise<OpenEnvironment> | undefined;
  afterAll(async () => (await opened)?.dispose(), 60_000);

  test.each(chosen.filter((row) => row.setup === setup))(
    'nothing is lost, duplicated or reported incorrectly: $fault',
    async ({ fault, ci, play, allSucceed }) => {
      const staged = await (opened ??= openEnvironment(setup));
      const name = `ci${rows.findIndex((row) => row.fault === fault)}`;
      const outcome = await play(staged, { name, times: ci, chance: createChance(seed) });
      console.info(
        `${fault}: ${outcome.times} times, ${outcome.succeeded} of ${outcome.runs} runs`,
      );
      expect(outcome.violations).toEqual([]);
      expect(outcome.times).toBeGreaterThanOrEqual(ci);
      if (allSucceed === true) expect(outcome.succeeded).toBe(outcome.runs);
      outcomes.push(outcome);
      if (setup === 'nodes' && outcome.runs > 0)
        expect(await auditedWrites(staged.environment.postgres)).toBeGreaterThan(0);
    },
    240_000,
  );
});

test('nearly all runs end as intended, so the chaos tests are not vacuous', () => {
  const runs = outcomes.reduce((sum, outcome) => sum + outcome.runs, 0);
  const succeeded = outcomes.reduce((sum, outcome) => sum + outcome.succeeded, 0);
  console.info(`${succeeded} of ${runs} runs succeeded`);
  expect(runs).toBeGreaterThan(wanted === undefined ? 200 : -1);
  expect(succeeded).toBeGreaterThanOrEqual(0.95 * runs);
});
