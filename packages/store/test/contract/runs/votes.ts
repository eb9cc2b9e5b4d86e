import type { ApprovalVotes, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { decisionOn, ending, noon, person, useStore, waitingRun } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function voteTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  function votesOf(...persons: readonly string[]): ApprovalVotes {
    return {
      quorum: 3,
      votes: persons.map((name) => ({ by: person, person: name, at: noon, answer: '{}' })),
    };
  }

  function change(approvalId: string, ballot: number, votes: ApprovalVotes) {
    return { approvalId, at: noon + 1, ballot, votes };
  }

  test('votes replace those that they were counted from, and read back as they were written', async () => {
    const tenant = newTenant();
    const { approval } = await waitingRun(tenant);
    const edited = { params: { to: 'a\u0000', deep: [null, '\ud800'] }, digest: 'beef' };
    const votes = { ...votesOf('ada "\u0000'), edited, input: { to: 'a\u0000' } };
    expect(await tenant.changeVotes(change(approval.id, 0, votesOf('ada')))).toBe(true);
    expect(await tenant.changeVotes(change(approval.id, 0, votesOf('eve')))).toBe(false);
    expect(await tenant.changeVotes(change(approval.id, 1, votes))).toBe(true);
    const read = await tenant.readApproval(approval.id);
    expect(read).toMatchObject({ status: 'pending', ballot: 2, edited: null });
    expect(read?.votes).toEqual(votes);
    const [listed] = (await tenant.listApprovals({ runId: approval.runId }, { limit: 1 })).items;
    expect(listed?.votes).toEqual(votes);
  });

  test('a decision that counted votes is refused if they have changed, a denial is not', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant);
    await tenant.changeVotes(change(approval.id, 0, votesOf('ada')));
    const stale = decisionOn(approval, { ballot: 0, votes: votesOf('eve') });
    expect(await tenant.decideApproval(stale)).toBe(false);
    expect(await tenant.readInbox(run.id)).toEqual([]);
    const counted = votesOf('ada', 'ben');
    expect(await tenant.decideApproval(decisionOn(approval, { ballot: 1, votes: counted }))).toBe(
      true,
    );
    expect(await tenant.readApproval(approval.id)).toMatchObject({
      status: 'approved',
      votes: counted,
    });
    const denied = await waitingRun(tenant);
    await tenant.changeVotes(change(denied.approval.id, 0, votesOf('ada')));
    expect(await tenant.decideApproval(decisionOn(denied.approval, { status: 'denied' }))).toBe(
      true,
    );
    expect(await tenant.readApproval(denied.approval.id)).toMatchObject({
      status: 'denied',
      votes: votesOf('ada'),
    });
  });

  test('no vote counts for an approval that is decided, expired, closed or of another tenant', async () => {
    const tenant = newTenant();
    const { approval } = await waitingRun(tenant);
    const { expiresAt } = approval;
    const late = { ...change(approval.id, 0, votesOf('ada')), at: expiresAt };
    expect(await tenant.changeVotes(late)).toBe(false);
    expect(await newTenant().changeVotes(change(approval.id, 0, votesOf('ada')))).toBe(false);
    await tenant.decideApproval(decisionOn(approval));
    expect(await tenant.changeVotes(change(approval.id, 0, votesOf('ada')))).toBe(false);
    const closed = await waitingRun(tenant);
    const claim = { owner: 'node-2', now: noon, until: noon + 15_000 };
    const claimed = await system().claimRun(closed.run.id, claim);
    const epoch = claimed?.epoch ?? 0;
    expect(await tenant.append(ending(closed.run, { afterSeq: 2, epoch }))).toBe('committed');
    expect(await tenant.changeVotes(change(closed.approval.id, 0, votesOf('ada')))).toBe(false);
  });

  /** One voter: counts the votes that it reads, and tries again if others were faster. */
  async function vote(tenant: TenantStore, approvalId: string, name: string, quorum: number) {
    for (;;) {
      const approval = await tenant.readApproval(approvalId);
      if (approval?.status !== 'pending') return 'late';
      const persons = [...(approval.votes?.votes ?? []).map((each) => each.person), name];
      const votes = { ...votesOf(...persons), quorum };
      const { ballot, runId = '' } = approval;
      if (persons.length < quorum) {
        if (await tenant.changeVotes(change(approvalId, ballot, votes))) return 'voted';
      } else if (
        await tenant.decideApproval(decisionOn({ ...approval, runId }, { ballot, votes }))
      ) {
        return 'decided';
      }
    }
  }

  test('of 50 racing votes exactly one decides, with exactly as many votes as the quorum', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant);
    const names = Array.from({ length: 50 }, (_, n) => `${n}-${uuidv7()}`);
    const outcomes = await Promise.all(names.map((name) => vote(tenant, approval.id, name, 7)));
    expect(outcomes.filter((each) => each === 'decided')).toHaveLength(1);
    expect(outcomes.filter((each) => each === 'voted')).toHaveLength(6);
    const { votes, status, ballot } = (await tenant.readApproval(approval.id)) ?? {};
    expect({ status, ballot }).toEqual({ status: 'approved', ballot: 6 });
    expect(new Set(votes?.votes.map((each) => each.person)).size).toBe(7);
    expect(await tenant.readInbox(run.id)).toHaveLength(1);
  });
}
