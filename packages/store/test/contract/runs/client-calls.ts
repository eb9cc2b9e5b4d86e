import type { CallClaim, PostedResult, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ending, hostileText, newRun, noon, step, useStore } from '../fixtures.ts';
import type { Open, TestRun } from '../fixtures.ts';

const resultBy = noon + 60_000;

async function runWithCall(tenant: TenantStore, toolCallId = 'call_1'): Promise<TestRun> {
  const run = await newRun(tenant);
  await tenant.append(step(run, { clientCalls: [{ toolCallId, resultBy }] }));
  return run;
}

function posted(run: TestRun, over: Partial<PostedResult> = {}): PostedResult {
  const { toolCallId = 'call_1' } = over;
  return {
    runId: run.id,
    toolCallId,
    at: noon + 1,
    result: { digest: 'd1', failed: false, output: { ok: true } },
    queued: { id: uuidv7(), command: { kind: 'result', toolCallId } },
    ...over,
  };
}

function claim(run: TestRun, claimId: string, now = noon): CallClaim {
  return { runId: run.id, toolCallId: 'call_1', claimId, now, until: now + 30_000 };
}

export function clientCallTests(open: Open): void {
  const { tenant: newTenant, system } = useStore(open);

  test('a call that is awaited is pending until it gets its result', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    const pending = {
      runId: run.id,
      toolCallId: 'call_1',
      resultBy,
      claimId: null,
      claimedBefore: false,
    };
    expect(await tenant.readClientCall(run.id, 'call_1')).toEqual({
      ...pending,
      status: 'pending',
      result: null,
    });
    const result = posted(run);
    expect(await tenant.postResult(result)).toBe(true);
    expect(await tenant.readClientCall(run.id, 'call_1')).toEqual({
      ...pending,
      status: 'answered',
      result: { digest: 'd1', failed: false, output: { ok: true } },
    });
    expect(await tenant.readInbox(run.id)).toEqual([result.queued]);
  });

  test('of fifty results that race, one counts, and there is one command', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    const results = Array.from({ length: 50 }, (_, n) =>
      posted(run, { result: { digest: `d${n}`, failed: false, output: n } }),
    );
    const won = await Promise.all(results.map((result) => tenant.postResult(result)));
    expect(won.filter(Boolean)).toHaveLength(1);
    const call = await tenant.readClientCall(run.id, 'call_1');
    expect(call?.result?.output).toBe(won.indexOf(true));
    expect(await tenant.readInbox(run.id)).toHaveLength(1);
  });

  test.each([null, false, 0, '', [], {}, 'text', [1, { a: null }]])(
    'the output %j comes back as it was',
    async (output) => {
      const tenant = newTenant();
      const run = await runWithCall(tenant);
      await tenant.postResult(posted(run, { result: { digest: 'd', failed: true, output } }));
      const call = await tenant.readClientCall(run.id, 'call_1');
      expect(call?.result).toEqual({ digest: 'd', failed: true, output });
    },
  );

  test('ids and outputs hold whatever text there is', async () => {
    const tenant = newTenant();
    for (const text of Object.values(hostileText)) {
      const run = await runWithCall(tenant, text);
      const result = { digest: 'd', failed: false, output: text };
      expect(await tenant.postResult(posted(run, { toolCallId: text, result }))).toBe(true);
      const call = await tenant.readClientCall(run.id, text);
      expect(call).toMatchObject({ toolCallId: text, result: { output: text } });
    }
  });

  test('no result is taken from the moment on at which it was due', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    expect(await tenant.postResult(posted(run, { at: resultBy }))).toBe(false);
    expect(await tenant.readInbox(run.id)).toEqual([]);
    expect(await tenant.postResult(posted(run, { at: resultBy - 1 }))).toBe(true);
  });

  test('a call that timed out accepts no result', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    const late = step(run, { afterSeq: 2, abandonedCalls: ['call_1'] });
    expect(await tenant.append(late)).toBe('committed');
    expect(await tenant.postResult(posted(run))).toBe(false);
    expect(await tenant.readClientCall(run.id, 'call_1')).toMatchObject({
      status: 'closed',
      result: null,
    });
  });

  test('a result that came first undoes the step that gives its call up', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    await tenant.postResult(posted(run));
    const late = step(run, { afterSeq: 2, abandonedCalls: ['call_1'] });
    expect(await tenant.append(late)).toBe('fenced');
    expect((await tenant.readRun(run.id))?.lastSeq).toBe(2);
    expect(await tenant.readClientCall(run.id, 'call_1')).toMatchObject({ status: 'answered' });
  });

  test('a step that is fenced out awaits nothing', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const clientCalls = [{ toolCallId: 'call_1', resultBy }];
    expect(await tenant.append(step(run, { epoch: 7, clientCalls }))).toBe('fenced');
    expect(await tenant.readClientCall(run.id, 'call_1')).toBeUndefined();
  });

  test('the end of a run closes what is pending and keeps only the digest of a result', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const clientCalls = ['call_1', 'call_2'].map((toolCallId) => ({ toolCallId, resultBy }));
    await tenant.append(step(run, { clientCalls }));
    await tenant.postResult(posted(run));
    await tenant.append(ending(run, { afterSeq: 2 }));
    expect(await tenant.readClientCall(run.id, 'call_1')).toMatchObject({
      status: 'answered',
      result: { digest: 'd1', failed: false },
    });
    const call = await tenant.readClientCall(run.id, 'call_1');
    expect(Object.keys(call?.result ?? {})).not.toContain('output');
    expect(await tenant.readClientCall(run.id, 'call_2')).toMatchObject({ status: 'closed' });
    expect(await tenant.postResult(posted(run, { toolCallId: 'call_2' }))).toBe(false);
  });

  test('one client at a time has a claim, prolongs it, and loses it when it runs out', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    const [a, b] = [uuidv7(), uuidv7()];
    expect(await tenant.claimCall(claim(run, a))).toBe(true);
    expect(await tenant.claimCall(claim(run, b, noon + 29_999))).toBe(false);
    expect(await tenant.claimCall(claim(run, a, noon + 29_999))).toBe(true);
    expect(await tenant.claimCall(claim(run, b, noon + 59_998))).toBe(false);
    expect(await tenant.claimCall(claim(run, b, noon + 59_999))).toBe(true);
    expect(await tenant.claimCall(claim(run, a, noon + 60_000))).toBe(false);
  });

  test('a call remembers that another client had claimed it, also when the claim is prolonged', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    const [a, b] = [uuidv7(), uuidv7()];
    const claimedBefore = async (claimId: string, now: number) => {
      expect(await tenant.claimCall(claim(run, claimId, now))).toBe(true);
      return (await tenant.readClientCall(run.id, 'call_1'))?.claimedBefore;
    };
    expect(await claimedBefore(a, noon)).toBe(false);
    expect(await claimedBefore(a, noon + 1)).toBe(false);
    expect(await claimedBefore(b, noon + 30_001)).toBe(true);
    expect(await claimedBefore(b, noon + 30_002)).toBe(true);
  });

  test('of fifty claims that race, one wins', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    const claims = Array.from({ length: 50 }, () => tenant.claimCall(claim(run, uuidv7())));
    expect((await Promise.all(claims)).filter(Boolean)).toHaveLength(1);
  });

  test('a claim is no lock: the first result counts', async () => {
    const tenant = newTenant();
    const run = await runWithCall(tenant);
    await tenant.claimCall(claim(run, uuidv7()));
    expect(await tenant.postResult(posted(run))).toBe(true);
    expect(await tenant.claimCall(claim(run, uuidv7(), resultBy))).toBe(false);
  });

  test('another tenant sees no call, and can neither claim nor answer it', async () => {
    const [tenant, other] = [newTenant(), newTenant()];
    const run = await runWithCall(tenant);
    expect(await other.readClientCall(run.id, 'call_1')).toBeUndefined();
    expect(await other.postResult(posted(run))).toBe(false);
    expect(await other.claimCall(claim(run, uuidv7()))).toBe(false);
    expect(await tenant.readClientCall(run.id, 'call_1')).toMatchObject({ status: 'pending' });
    expect(await tenant.readInbox(run.id)).toEqual([]);
  });

  test('the system knows whose run it is', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    expect(await system().tenantOfRun(run.id)).toBe(tenant.tenantId);
    expect(await system().tenantOfRun(uuidv7())).toBeUndefined();
  });
}
