import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { delta, identityIn, newRun, noon, started, step, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function runTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('a new run reads back exactly as it was made', async () => {
    const tenant = newTenant();
    const identity = identityIn(tenant, {
      surface: 'chat',
      labels: { team: 'blue', 'a b': '' },
      parentRunId: uuidv7(),
      workflowId: 'nightly',
    });
    await tenant.createRun({ identity, lease: null, events: [started, delta('a')] });
    expect(await tenant.readRun(identity.id)).toEqual({
      ...identity,
      status: 'queued',
      startedAt: null,
      endedAt: null,
      firstTokenMs: null,
      usage: { inputTokens: 0, outputTokens: 0 },
      error: null,
      finishReason: null,
      checkpoint: null,
      outputJson: null,
      answerSeq: null,
      snapshot: null,
      snapshotSeq: 0,
      wakeAt: null,
      lastSeq: 2,
      epoch: 0,
      journalSize: expect.any(Number),
    });
  });

  test('the last event of many runs, of any tenant, is found at once', async () => {
    const [one, two] = [newTenant(), newTenant()];
    const first = await newRun(one);
    const second = await newRun(two);
    await two.append(step(second, { events: [delta('a'), delta('b')] }));
    const others = Array.from({ length: 150 }, () => uuidv7());
    const found = await system().lastSeqs([first.id, ...others, second.id]);
    const expected = [await one.readRunHead(first.id), await two.readRunHead(second.id)];
    expect(found).toEqual(new Map(expected.map((run) => [run?.id, run?.lastSeq])));
    expect(found.get(second.id)).toBe((found.get(first.id) ?? 0) + 2);
    expect(await system().lastSeqs([])).toEqual(new Map());
  });

  test('a new run can begin with progress and a lease', async () => {
    const tenant = newTenant();
    const progress = {
      status: 'running',
      startedAt: noon,
      usage: { inputTokens: 1, outputTokens: 2 },
      checkpoint: '{"version":1}',
      outputJson: '{"output":null}',
      snapshot: '{"seq":1}',
      snapshotSeq: 1,
      wakeAt: noon + 5,
    } as const;
    const run = await newRun(tenant, { progress });
    expect(await tenant.readRun(run.id)).toMatchObject({ ...progress, epoch: 1, lastSeq: 1 });
  });

  test('a checkpoint is replaced only while it is the one that was read', async () => {
    const tenant = newTenant();
    const checkpointOf = async (id: string) => (await tenant.readRun(id))?.checkpoint;
    const run = await newRun(tenant, { progress: { status: 'waiting', checkpoint: 'c1' } });
    const none = await newRun(tenant);
    const replace = (id: string, expected: string | null, checkpoint: string) =>
      tenant.replaceCheckpoint(id, { expected, checkpoint });
    expect(await replace(run.id, 'c1', 'c2')).toBe(true);
    expect(await checkpointOf(run.id)).toBe('c2');
    for (const stale of ['c1', null]) {
      expect(await replace(run.id, stale, 'c3')).toBe(false);
    }
    expect(await checkpointOf(run.id)).toBe('c2');
    expect(await replace(none.id, 'c1', 'c2')).toBe(false);
    expect(await replace(none.id, null, 'c2')).toBe(true);
    expect(await checkpointOf(none.id)).toBe('c2');
    expect(await newTenant().replaceCheckpoint(run.id, { expected: 'c2', checkpoint: 'x' })).toBe(
      false,
    );
    expect(await replace(uuidv7(), null, 'c2')).toBe(false);
    // The next append of the run is not fenced by it.
    expect(await tenant.append(step(run, { progress: { checkpoint: 'c4' } }))).toBe('committed');
    expect(await checkpointOf(run.id)).toBe('c4');
  });

  test('what a provider says of tokens beyond their number is kept with the run', async () => {
    const tenant = newTenant();
    const usage = { inputTokens: 9, outputTokens: 8, cachedInputTokens: 7, reasoningTokens: 0 };
    const run = await newRun(tenant, { progress: { status: 'running', usage } });
    expect((await tenant.readRun(run.id))?.usage).toEqual(usage);
    const more = { ...usage, cacheWriteTokens: 3, costUsd: 0.5 };
    await tenant.append(step(run, { progress: { usage: more } }));
    expect((await tenant.readRun(run.id))?.usage).toEqual(more);
    const [listed] = (await tenant.listRuns({}, { limit: 5 })).items;
    expect(listed?.usage).toEqual(more);
  });

  test('a new run without events is empty', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant, { events: [] });
    expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: 0 });
    expect(await tenant.readEvents(run.id, { after: 0, limit: 10 })).toEqual([]);
    expect(await tenant.append(step(run, { afterSeq: 0 }))).toBe('committed');
  });

  test('an id that is taken is refused, and nothing of the second run is stored', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const before = await tenant.readRun(run.id);
    const connection = { id: uuidv7(), node: 'node-1' };
    const again = newRun(tenant, {
      identity: { id: run.id, agent: 'other' },
      events: [started, started],
      connection,
    });
    await expect(again).rejects.toMatchObject({ code: 'storage_failed' });
    expect(await tenant.readRun(run.id)).toEqual(before);
    expect(await tenant.readEvents(run.id, { after: 0, limit: 10 })).toHaveLength(1);
    expect(await tenant.findConnection(connection.id)).toBeUndefined();
  });

  test('a run of another tenant cannot be made', async () => {
    const tenant = newTenant();
    const identity = { ...identityIn(tenant), tenantId: uuidv7() };
    const made = tenant.createRun({ identity, lease: null, events: [] });
    await expect(made).rejects.toMatchObject({ code: 'internal' });
  });

  test('a run that was never made is not there', async () => {
    const tenant = newTenant();
    expect(await tenant.readRun(uuidv7())).toBeUndefined();
    expect(await tenant.readApproval(uuidv7())).toBeUndefined();
    expect(await tenant.readEvents(uuidv7(), { after: 0, limit: 10 })).toEqual([]);
    expect(await tenant.readInbox(uuidv7())).toEqual([]);
  });

  test('a step changes what its progress names and leaves the rest', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant, {
      progress: { status: 'running', startedAt: noon, checkpoint: 'c1', wakeAt: 7 },
    });
    await tenant.append(step(run, { progress: { outputJson: '{}', checkpoint: 'c2' } }));
    expect(await tenant.readRun(run.id)).toMatchObject({
      status: 'running',
      startedAt: noon,
      checkpoint: 'c2',
      outputJson: '{}',
      wakeAt: 7,
      lastSeq: 2,
    });
  });

  test('what a step sets to null is gone', async () => {
    const tenant = newTenant();
    const error = { code: 'internal', message: 'm', retryable: false };
    const progress = { error, checkpoint: 'c', outputJson: '{}', wakeAt: 7, endedAt: 9 };
    const run = await newRun(tenant, { progress: { ...progress, snapshot: '{}', snapshotSeq: 1 } });
    expect(await tenant.readRun(run.id)).toMatchObject(progress);
    const nothing = {
      error: null,
      checkpoint: null,
      outputJson: null,
      wakeAt: null,
      endedAt: null,
    };
    await tenant.append(step(run, { progress: { ...nothing, snapshot: null } }));
    const after = { ...nothing, snapshot: null, snapshotSeq: 0 };
    expect(await tenant.readRun(run.id)).toMatchObject(after);
  });

  test('a snapshot is replaced by the next one', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant, { progress: { snapshot: 'one', snapshotSeq: 1 } });
    await tenant.append(step(run, { progress: { snapshot: 'two', snapshotSeq: 2 } }));
    expect(await tenant.readRun(run.id)).toMatchObject({ snapshot: 'two', snapshotSeq: 2 });
    await tenant.append(step(run, { afterSeq: 2 }));
    expect(await tenant.readRun(run.id)).toMatchObject({ snapshot: 'two', snapshotSeq: 2 });
  });

  test('a snapshot without its seq is refused', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    for (const progress of [{ snapshot: '{}' }, { snapshotSeq: 3 }]) {
      const lonely = tenant.append(step(run, { progress }));
      await expect(lonely).rejects.toMatchObject({ code: 'internal' });
    }
    expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: 1, snapshot: null });
  });

  test('what is read cannot be used to change what is stored', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant, { identity: { labels: { a: '1' } } });
    const first = await tenant.readRun(run.id);
    Object.assign(first?.labels ?? {}, { a: 'changed' });
    expect((await tenant.readRun(run.id))?.labels).toEqual({ a: '1' });
  });
}
