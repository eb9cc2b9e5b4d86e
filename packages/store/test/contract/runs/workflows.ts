import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ending, newRun, noon, step, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function workflowTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);
  const identity = { workflowId: 'nightly \u0000' };
  const { workflowId } = identity;

  test('a workflow without runs is not found', async () => {
    const tenant = newTenant();
    await newRun(tenant);
    expect(await tenant.readWorkflow(workflowId)).toBeUndefined();
    expect(await tenant.readWorkflow('')).toBeUndefined();
  });

  test('counts its runs by their status, and what all of them have used', async () => {
    const tenant = newTenant();
    const other = newTenant();
    const usage = (inputTokens: number, costUsd?: number) => ({
      inputTokens,
      outputTokens: 1,
      ...(costUsd === undefined ? {} : { costUsd }),
    });
    await newRun(tenant, { identity });
    const running = await newRun(tenant, { identity, progress: { status: 'running' } });
    await tenant.append(step(running, { progress: { usage: usage(10, 0.5) } }));
    for (const cost of [0.25, 1]) {
      const run = await newRun(tenant, { identity });
      await tenant.append(
        ending(run, { progress: { status: 'completed', endedAt: noon, usage: usage(3, cost) } }),
      );
    }
    await newRun(other, { identity });
    await newRun(tenant, { identity: { workflowId: 'another' } });
    expect(await tenant.readWorkflow(workflowId)).toEqual({
      runs: { queued: 1, running: 1, completed: 2 },
      usage: { inputTokens: 16, outputTokens: 3, costUsd: 1.75 },
    });
    expect(await other.readWorkflow(workflowId)).toMatchObject({ runs: { queued: 1 } });
  });

  test('counts a run once, whatever its states were and if it was created at its end', async () => {
    const tenant = newTenant();
    const usage = { inputTokens: 2, outputTokens: 1 };
    const run = await newRun(tenant, { identity });
    for (const [n, status] of (['running', 'waiting', 'running', 'canceled'] as const).entries()) {
      await tenant.append(step(run, { afterSeq: n + 1, progress: { status, usage } }));
      expect((await tenant.readWorkflow(workflowId))?.runs).toEqual({ [status]: 1 });
    }
    await newRun(tenant, { identity, lease: null, progress: { status: 'failed', usage } });
    expect(await tenant.readWorkflow(workflowId)).toEqual({
      runs: { canceled: 1, failed: 1 },
      usage: { inputTokens: 4, outputTokens: 2 },
    });
  });

  test.each(['running', 'completed'] as const)(
    'has a cost only if that of every %s run is known',
    async (status) => {
      const tenant = newTenant();
      const id = uuidv7();
      const spend = async (usage: {
        inputTokens: number;
        outputTokens: number;
        costUsd?: number;
      }) => {
        const run = await newRun(tenant, { identity: { workflowId: id } });
        await tenant.append(step(run, { progress: { status, usage } }));
      };
      await spend({ inputTokens: 1, outputTokens: 1, costUsd: 2 });
      await spend({ inputTokens: 0, outputTokens: 0 });
      expect((await tenant.readWorkflow(id))?.usage).toMatchObject({ costUsd: 2 });
      await spend({ inputTokens: 1, outputTokens: 0 });
      expect((await tenant.readWorkflow(id))?.usage).toEqual({ inputTokens: 2, outputTokens: 1 });
    },
  );
}
