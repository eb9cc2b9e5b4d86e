/**
 * Random trees of agents, with people who answer at random, cancels, limits, crashes and restarts.
 * Whatever happens, the run ends, its journal is sound, and nothing ran that was not on record.
 */
import { recordDecision, cancelRun, type SystemStore } from '@relay/core';
import { isEnded, RelayError, type StoredEvent } from '@relay/protocol';
import { createFaultyStore } from '../../packages/store/test/faulty-store.ts';
import { describe, expect, test } from 'vitest';
import { memory, sqlite, wrapStore } from '../loop/stores.ts';
import { expectSoundJournal } from '../support/invariants.ts';
import {
  ask,
  bootKernel,
  journalOf,
  type Kernel,
  openApprovals,
  person,
  until,
} from '../support/kernel.ts';
import { createChance, createPlan, type Disturbance, type Plan } from './random-tree.ts';

const runId = '01900000-0000-7000-8000-000000000001';
/** More of them: `RELAY_SOAK=2000 npx vitest run test/faults/soak.test.ts`. */
const wanted = Number(process.env['RELAY_SOAK'] ?? 0);
const first = Number(process.env['RELAY_SOAK_FROM'] ?? 1);

/** People who make up their mind by the number of the run and the call, and never change it. */
class Crowd {
  readonly #plan: Plan;
  /** Approvals by which a person let a call run again; the process may have died in their answer. */
  readonly #again = new Map<string, string>();
  #canceled = false;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  async look(kernel: Kernel, events: readonly StoredEvent[]): Promise<void> {
    if (events.length >= this.#plan.cancelAt && !this.#canceled) {
      const ref = { tenantId: kernel.tenantId, runId };
      await cancelRun(kernel.control, ref, { reason: 'Enough', by: person });
      this.#canceled = true;
    }
    for (const approval of openApprovals(events)) {
      const chance = createChance(this.#plan.seed + approval.seq);
      const asksOutcome = approval.kind === 'outcome';
      const approved = chance() < 0.7;
      const knows = asksOutcome && approved && chance() < 0.5;
      if (asksOutcome && approved && !knows)
        this.#again.set(approval.approvalId, approval.toolCallId);
      await recordDecision(kernel.control, kernel.tenantId, {
        approvalId: approval.approvalId,
        ...(asksOutcome && approved
          ? knows
            ? ({ outcome: 'completed', output: 'it happened' } as const)
            : ({ outcome: 'rerun' } as const)
          : { approved }),
        always: !asksOutcome && chance() < 0.2,
        reason: null,
        by: person,
      });
    }
  }

  timesAgain(toolCallId: string): number {
    return [...this.#again.values()].filter((each) => each === toolCallId).length;
  }
}

/** The same store, which fails once. For odd trees, the failure is reported although the write succeeded. */
function failingOnce(inner: SystemStore, { faultAt, seed }: Plan): SystemStore {
  let appends = 0;
  return wrapStore(inner, async (call) => {
    if (call.method !== 'append' || (appends += 1) !== faultAt) return call.go();
    if (seed % 2 === 1) await call.go();
    throw new RelayError('storage_failed', 'The store did not answer');
  });
}

/** One process: it drives the run to its end, or ends before it. */
async function live(
  store: SystemStore,
  plan: Plan,
  { crowd, disturbance }: { crowd: Crowd; disturbance: Disturbance | undefined },
): Promise<boolean> {
  const crashes = disturbance?.kind !== undefined && disturbance.kind !== 'stop';
  const faulty = createFaultyStore(
    store,
    crashes
      ? {
          crashAt: disturbance.atWrite,
          when: disturbance.kind === 'crash before' ? 'before' : 'after',
        }
      : {},
  );
  const work = async () => {
    const kernel = await bootKernel({
      store: faulty,
      model: plan.model,
      tools: [...plan.tools, ...plan.delegates],
      agents: plan.agents,
      settings: { graceMs: 10, stopTimeoutMs: 10 },
      restarted: true,
    });
    const ref = { tenantId: kernel.tenantId, runId };
    const tenant = faulty.tenant(kernel.tenantId);
    if ((await tenant.readRun(runId)) === undefined) await ask(kernel, { ...plan.request, runId });
    const ended = await until(async () => {
      if (disturbance?.kind === 'stop' && faulty.writes.length >= disturbance.atWrite) return 'no';
      const run = await tenant.readRun(runId);
      if (run !== undefined && isEnded(run.status)) return 'yes';
      await crowd.look(kernel, await journalOf(faulty, ref));
      // A run that was given up is found by looking around; the tests have no time for that.
      const { supervisor } = kernel.control;
      if (run?.status === 'running' && supervisor.activeRuns === 0) supervisor.wake(ref);
      return undefined;
    }, `the end of tree ${plan.seed}`);
    await kernel.stop();
    return ended === 'yes';
  };
  return Promise.race([work(), faulty.crashed.then(() => false)]);
}

async function play(opened: SystemStore, plan: Plan): Promise<void> {
  const store = failingOnce(opened, plan);
  const crowd = new Crowd(plan);
  const disturbances = [...plan.disturbances];
  for (;;) {
    const disturbance = disturbances.shift();
    const ended = await live(store, plan, { crowd, disturbance });
    if (ended) break;
  }
  const { id: tenantId } = await store.ensureTenant({ id: 'none', name: 'test', at: 0 });
  const events = await journalOf(store, { tenantId, runId });
  const row = await store.tenant(tenantId).readRun(runId);
  expectSoundJournal(events, row);
  expectNothingBehindTheBack(events, { plan, crowd });
  for (const approval of events) {
    if (approval.type !== 'approval.requested') continue;
    const stored = await store.tenant(tenantId).readApproval(approval.approvalId);
    expect(stored?.status).not.toBe('pending');
  }
}

/** What really happened, by the tools' own record: each effect was intended, and happened once. */
function expectNothingBehindTheBack(
  events: readonly StoredEvent[],
  { plan, crowd }: { plan: Plan; crowd: Crowd },
): void {
  const intents = new Map<string, string>();
  for (const event of events) {
    if (event.type === 'tool.started') intents.set(event.toolCallId, event.idempotencyKey);
  }
  for (const tool of plan.tools) {
    for (const { toolCallId, idempotencyKey } of tool.executions) {
      expect(intents.get(toolCallId), `${tool.name} ${toolCallId}`).toBe(idempotencyKey);
      if (tool.idempotent) continue;
      const times = tool.executions.filter((each) => each.toolCallId === toolCallId).length;
      const allowed = 1 + crowd.timesAgain(toolCallId);
      expect(times, `${tool.name} ${toolCallId}`).toBeLessThanOrEqual(allowed);
    }
  }
}

describe.each([memory, sqlite])(
  'whatever happens to a tree of agents on $name',
  ({ name, open }) => {
    const count = wanted > 0 ? wanted : name === 'memory' ? 150 : 40;

    test(
      'it ends, its journal is sound, and every effect is on record',
      async () => {
        const seeds = Array.from({ length: count }, (_, n) => first + n);
        for (const seed of seeds) {
          const { store, dispose } = await open();
          try {
            await play(store, createPlan(seed));
          } catch (cause) {
            throw new Error(`Tree ${seed} on ${name}: ${String(cause)}`, { cause });
          }
          await dispose();
        }
      },
      60_000 + wanted * 1_000,
    );
  },
);
