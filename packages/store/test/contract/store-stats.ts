import { expect, test } from 'vitest';
import { decisionOn, ending, newRun, noon, useStore, waitingRun } from './fixtures.ts';
import type { Open } from './fixtures.ts';

export function censusTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  /** A tenant that exists, as every one with runs does. */
  async function tenant() {
    const made = newTenant();
    await system().ensureTenant({ id: made.tenantId, name: made.tenantId, at: noon });
    return made;
  }

  test('of an empty store counts nothing', async () => {
    expect(await system().stats()).toEqual({
      runs: { queued: 0, running: 0, waiting: 0 },
      approvals: { pending: 0, oldestAt: null },
    });
  });

  test('counts what is open over all tenants, and the oldest request', async () => {
    const [one, two] = [await tenant(), await tenant()];
    await newRun(one, { progress: { status: 'running' } });
    await newRun(two, { progress: { status: 'running' } });
    const over = await newRun(two, { progress: { status: 'running' } });
    await two.append(ending(over));
    await waitingRun(one, { requestedAt: noon + 5 });
    const { approval } = await waitingRun(two, { requestedAt: noon + 3 });
    expect(await system().stats()).toMatchObject({
      runs: { running: 2, waiting: 2 },
      approvals: { pending: 2, oldestAt: noon + 3 },
    });
    await two.decideApproval(decisionOn(approval));
    expect((await system().stats()).approvals).toEqual({ pending: 1, oldestAt: noon + 5 });
  });
}
