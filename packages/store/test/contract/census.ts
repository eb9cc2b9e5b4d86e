import { expect, test } from 'vitest';
import { approval, ending, newRun, noon, useStore, waitingRun } from './fixtures.ts';
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
    expect(await system().census()).toEqual({
      runs: { queued: 0, running: 0, waiting: 0 },
      relays: { pending: 0, oldestAt: null },
    });
  });

  test('counts what is open over all tenants, and the oldest request', async () => {
    const [one, two] = [await tenant(), await tenant()];
    await newRun(one, { progress: { status: 'running' } });
    await newRun(two, { progress: { status: 'running' } });
    const over = await newRun(two, { progress: { status: 'running' } });
    await two.append(ending(over));
    await waitingRun(one, { raisedAt: noon + 5 });
    const { relay } = await waitingRun(two, { raisedAt: noon + 3 });
    expect(await system().census()).toMatchObject({
      runs: { running: 2, waiting: 2 },
      relays: { pending: 2, oldestAt: noon + 3 },
    });
    await two.decideRelay(approval(relay));
    expect((await system().census()).relays).toEqual({ pending: 1, oldestAt: noon + 5 });
  });
}
