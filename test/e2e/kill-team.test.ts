/**
 * The task of `team.test.ts`, with servers killed in the middle of it: what was read, in which order, what
 * was sent and what the tools did is the same as without.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { auditedWrites, strangeWrites } from '../faults/chaos/audit.ts';
import { Environment } from '../faults/chaos/environment.ts';
import { createChance } from '../faults/chaos/faults.ts';
import {
  playTeam,
  type TeamResult,
  type TeamStep,
  teamSteps,
  workOf,
} from '../faults/chaos/team.ts';

const seed = Number(process.env['RELAY_FAULTS_SEED'] ?? 5);

let undisturbed: TeamResult;
let environment: Environment | undefined;
beforeAll(async () => {
  const stage = await Environment.sqlite();
  try {
    undisturbed = (await playTeam(stage)).result;
  } finally {
    await stage.dispose();
  }
}, 60_000);
afterEach(() => environment?.dispose(), 60_000);

/** The runs that are being worked on; none of them waits for a person. */
async function running(stage: Environment): Promise<string[]> {
  const rows = await stage.query(`SELECT id FROM runs WHERE status = 'running'`);
  return rows.map(({ id }) => String(id));
}

/** Kills the server while a model or a tool works for it, until that has left a run unfinished. */
async function killWhileWorking(stage: Environment): Promise<string> {
  const [node] = stage.nodes;
  const deadline = Date.now() + 30_000;
  while (Date.now() < deadline) {
    const { answering, working } = await workOf(stage);
    if (answering + working === 0) {
      await pause(5);
      continue;
    }
    await node?.kill();
    const hit = await running(stage);
    await node?.start();
    if (hit.length > 0) return `${answering} answers, ${working} tools, ${hit.length} runs`;
  }
  throw new Error('Nothing is going on');
}

/** What a disturbance does at its steps, one after the other; `current` is where the task is meanwhile. */
function disturbing(disturb: (step: TeamStep, current: () => TeamStep) => Promise<void>) {
  let work: Promise<void> = Promise.resolve();
  let current: TeamStep = 'plan';
  return {
    onStep(step: TeamStep): void {
      current = step;
      work = work.then(() => disturb(step, () => current));
      work.catch(() => undefined);
    },
    untilQuiet: () => work,
  };
}

describe('two agents and a person in one channel', () => {
  test('lose and repeat nothing while the server is killed five times', async () => {
    const chance = createChance(seed);
    const stage = (environment = await Environment.sqlite());
    const moments = Array.from({ length: 5 }, () => ({
      step: teamSteps[Math.floor(chance() * teamSteps.length)],
      afterMs: chance() * 300,
    }));
    const hits: string[] = [];
    const { result } = await playTeam(
      stage,
      disturbing(async (step, current) => {
        for (const moment of moments.filter((each) => each.step === step)) {
          await pause(moment.afterMs);
          const hit = await killWhileWorking(stage);
          hits.push(`${current()} (${hit})`);
        }
      }),
    );
    console.info(`seed ${seed}, killed in: ${hits.join(', ')}`);
    expect(hits).toHaveLength(5);
    expect(result).toEqual(undisturbed);
    const integrity = await stage.query('PRAGMA integrity_check');
    expect(integrity).toMatchObject([{ integrity_check: 'ok' }]);
  }, 120_000);

  test('lose and repeat nothing on three nodes, of which one is killed', async () => {
    const chance = createChance(seed);
    const stage = (environment = await Environment.nodes());
    // In the middle: not in the first and not in the last steps.
    const chosen = teamSteps[2 + Math.floor(chance() * (teamSteps.length - 4))];
    const afterMs = chance() * 300;
    const hits: string[] = [];
    const { result } = await playTeam(
      stage,
      disturbing(async (step) => {
        if (step !== chosen) return;
        await pause(afterMs);
        hits.push(await killDriver(stage));
      }),
    );
    console.info(`seed ${seed}, killed in "${chosen}" while it drove a run: ${hits.join(', ')}`);
    expect(hits).toHaveLength(1);
    expect(stage.urls).toHaveLength(2);
    expect(result).toEqual(undisturbed);
    expect(await strangeWrites(stage.postgres)).toEqual([]);
    expect(await auditedWrites(stage.postgres)).toBeGreaterThan(0);
  }, 120_000);
});

/** Kills a node that drives a run, for good. */
async function killDriver(stage: Environment): Promise<string> {
  const deadline = Date.now() + 30_000;
  while (Date.now() < deadline) {
    const [run] = await running(stage);
    const [claim] =
      run === undefined
        ? []
        : await stage.query(
            `SELECT node FROM chaos_claims WHERE run_id = '${run}' ORDER BY epoch DESC LIMIT 1`,
          );
    const name = String(claim?.['node']);
    const node = stage.nodes[Number(/^node-(\d)$/.exec(name)?.[1])];
    if (node === undefined) {
      await pause(1);
      continue;
    }
    await node.kill();
    const isHit = (await running(stage)).includes(run ?? '');
    if (isHit) return name;
    await node.start();
  }
  throw new Error('Nothing was running');
}
