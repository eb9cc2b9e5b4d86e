import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  decisionOn,
  ending,
  hostileText,
  newRun,
  noon,
  type Open,
  useStore,
  waitingRun,
} from './fixtures.ts';

export function metadataTests(open: Open): void {
  const { system } = useStore(open);

  test('an entry that was never written is not there', async () => {
    expect(await system().readMetadata(uuidv7())).toBeUndefined();
  });

  test('an entry holds what was written last', async () => {
    const name = uuidv7();
    expect(await system().writeMetadata(name, 'one')).toBe(true);
    expect(await system().writeMetadata(name, 'two', { ifAbsent: false })).toBe(true);
    expect(await system().readMetadata(name)).toBe('two');
  });

  test('a write with ifAbsent keeps an existing value', async () => {
    const name = uuidv7();
    expect(await system().writeMetadata(name, 'one', { ifAbsent: true })).toBe(true);
    expect(await system().writeMetadata(name, 'two', { ifAbsent: true })).toBe(false);
    expect(await system().readMetadata(name)).toBe('one');
  });

  test('of 20 that write it first one does', async () => {
    const name = uuidv7();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        system().writeMetadata(name, `${n}`, { ifAbsent: true }),
      ),
    );
    expect(answers.filter(Boolean)).toHaveLength(1);
    expect(await system().readMetadata(name)).toBe(`${answers.indexOf(true)}`);
  });

  test('hostile names and values survive and do not meet', async () => {
    const texts = Object.values(hostileText);
    for (const text of texts) expect(await system().writeMetadata(text, text)).toBe(true);
    for (const text of texts) expect(await system().readMetadata(text)).toBe(text);
  });
}

export function statsTests(open: Open): void {
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

  test('counts what is open over all tenants or of one, and the oldest request', async () => {
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
    expect(await system().stats(one.tenantId)).toEqual({
      runs: { queued: 0, running: 1, waiting: 1 },
      approvals: { pending: 1, oldestAt: noon + 5 },
    });
    await two.decideApproval(decisionOn(approval));
    expect((await system().stats()).approvals).toEqual({ pending: 1, oldestAt: noon + 5 });
  });
}
