/** An append that claims a waiting run and carries the decision that resumes it. */
import type { Append, AppendOutcome } from '@relay/core';
import { expect, test } from 'vitest';
import {
  cancelCommand,
  decisionOn,
  delta,
  grantOf,
  newAudit,
  noon,
  type Open,
  step,
  useStore,
  waitingRun,
} from '../fixtures.ts';

export function resumptionTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  const claimBy = (owner: string) => ({ owner, now: noon, until: noon + 15_000 });

  type Waiting = Awaited<ReturnType<typeof waitingRun>>;

  /** The first step of a run that `waitingRun` made, with a decision. */
  function resumption({ run, approval }: Waiting, over: Partial<Append> = {}): Append {
    return step(run, {
      epoch: 2,
      afterSeq: 2,
      claim: claimBy('node-2'),
      decision: decisionOn(approval, { grant: grantOf(run), audit: [newAudit()] }),
      progress: { status: 'running' },
      ...over,
    });
  }

  /** What an append that did not count must leave as it was. */
  async function contentOf({ run, approval }: Waiting) {
    const scope = { runId: run.id, conversationId: '', owner: 'ada', now: noon };
    return {
      run: await run.tenant.readRun(run.id),
      approval: await run.tenant.readApproval(approval.id),
      inbox: await run.tenant.readInbox(run.id),
      grants: await run.tenant.readGrants(scope),
      audit: await run.tenant.audit.unsealed(10),
    };
  }

  test('stores the decision, its grant, its audit entries and the lease, and no command', async () => {
    const waiting = await waitingRun(newTenant());
    const { run } = waiting;
    expect(await run.tenant.append(resumption(waiting))).toBe('committed');
    expect(await contentOf(waiting)).toMatchObject({
      run: { status: 'running', epoch: 2, lastSeq: 3 },
      approval: { status: 'approved', decidedAt: noon + 1 },
      inbox: [],
      grants: [{}],
      audit: [{}],
    });
    const next = step(run, { epoch: 2, afterSeq: 3, events: [delta('b')] });
    expect(await system().claimRun(run.id, claimBy('node-3'))).toBeUndefined();
    expect(await run.tenant.append(next)).toBe('committed');
    const later = { owner: 'node-3', now: noon + 15_000, until: noon + 30_000 };
    expect(await system().claimRun(run.id, later)).toMatchObject({ epoch: 3, crashes: 1 });
  });

  test('may release the lease at once', async () => {
    const waiting = await waitingRun(newTenant());
    const { run } = waiting;
    const released = resumption(waiting, { release: true, progress: { status: 'waiting' } });
    expect(await run.tenant.append(released)).toBe('committed');
    expect(await system().claimRun(run.id, claimBy('node-3'))).toMatchObject({ epoch: 3 });
  });

  const obstacles: readonly (readonly [string, (waiting: Waiting) => Promise<unknown>])[] = [
    [
      'the approval was decided',
      ({ run, approval }) => run.tenant.decideApproval(decisionOn(approval)),
    ],
    [
      'a command waits in the inbox',
      ({ run }) => run.tenant.postRunCommand(run.id, cancelCommand('Enough')),
    ],
    ['another node holds the lease', ({ run }) => system().claimRun(run.id, claimBy('node-3'))],
    [
      'another node drove it in the meantime',
      async ({ run }) => {
        await system().claimRun(run.id, claimBy('node-3'));
        await run.tenant.append(step(run, { epoch: 2, afterSeq: 2, release: true }));
      },
    ],
    [
      'its last process died',
      async ({ run }) => {
        await system().claimRun(run.id, claimBy('node-3'));
        await system().releaseAllLeases();
      },
    ],
  ];

  test.each(obstacles)('stores nothing if %s', async (_what, prevent) => {
    const waiting = await waitingRun(newTenant());
    await prevent(waiting);
    const before = await contentOf(waiting);
    const epoch = (before.run?.epoch ?? 0) + 1;
    expect(await waiting.run.tenant.append(resumption(waiting, { epoch }))).toBe('fenced');
    expect(await contentOf(waiting)).toEqual(before);
  });

  test.each([
    ['epoch', { epoch: 3 }],
    ['seq', { afterSeq: 1 }],
  ])('stores nothing with another %s', async (_what, over) => {
    const waiting = await waitingRun(newTenant());
    const before = await contentOf(waiting);
    expect(await waiting.run.tenant.append(resumption(waiting, over))).toBe('fenced');
    expect(await contentOf(waiting)).toEqual(before);
  });

  test('stores nothing after the approval has expired', async () => {
    const waiting = await waitingRun(newTenant());
    const before = await contentOf(waiting);
    const decision = decisionOn(waiting.approval, { at: waiting.approval.expiresAt });
    expect(await waiting.run.tenant.append(resumption(waiting, { decision }))).toBe('fenced');
    expect(await contentOf(waiting)).toEqual(before);
  });

  test('counts once, whoever else decides or claims at the same time', async () => {
    const waiting = await waitingRun(newTenant());
    const { run, approval } = waiting;
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, i): Promise<AppendOutcome | boolean> => {
        const owner = `node-${i + 2}`;
        if (i % 3 === 0) return run.tenant.decideApproval(decisionOn(approval));
        return run.tenant.append(resumption(waiting, { claim: claimBy(owner) }));
      }),
    );
    const counted = outcomes.filter((outcome) => outcome === true || outcome === 'committed');
    expect(counted).toHaveLength(1);
    const { inbox, approval: decided } = await contentOf(waiting);
    expect(inbox).toHaveLength(counted[0] === true ? 1 : 0);
    expect(decided?.status).toBe('approved');
  });
}
