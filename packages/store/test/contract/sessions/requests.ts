/** Approvals and grants without a run: of invocations, and of the programs of sessions. */
import type { NewApproval, NewGrant, RequestDecision, TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { noon, type Open, person, useStore } from '../fixtures.ts';
import { addSession, changeOf, newInvocation } from './fixtures.ts';

export function requestTests(open: Open): void {
  const { tenant: newTenant, system } = useStore(open);

  function newRequest(over: Partial<NewApproval> = {}): NewApproval {
    return {
      id: uuidv7(),
      kind: 'permission',
      agentPath: [],
      tool: 'action:deploy',
      params: { where: 'here' },
      digest: 'c0ffee',
      keyId: 'key-1',
      requestedAt: noon,
      expiresAt: noon + 60_000,
      ...over,
    };
  }

  function decisionOn({ id }: NewApproval, over: Partial<RequestDecision> = {}): RequestDecision {
    const answer = '{"approved":true}';
    const decision = { approvalId: id, status: 'approved', at: noon + 1, by: person } as const;
    return { ...decision, reason: null, answer, ...over };
  }

  async function waiting(tenant: TenantStore) {
    const sessionId = await addSession(tenant);
    const invocation = newInvocation({ status: 'waiting' });
    const conversationId = uuidv7();
    const approval = newRequest({ sessionId, conversationId, invocationId: invocation.id });
    const { kind } = await tenant.sessions.change({
      changes: [changeOf(sessionId)],
      invocations: [invocation],
      approvals: [approval],
    });
    expect(kind).toBe('committed');
    return { sessionId, invocation, approval };
  }

  const grantFor = (sessionId: string, over: Partial<NewGrant> = {}): NewGrant => ({
    id: uuidv7(),
    tool: 'action:deploy',
    scope: 'session',
    scopeId: sessionId,
    createdAt: noon,
    createdBy: person,
    ...over,
  });

  async function release(tenant: TenantStore, sessionId: string): Promise<void> {
    const { version } = (await tenant.sessions.read(sessionId)) ?? { version: 0 };
    const progress = { releasedAt: noon + 5 };
    const change = changeOf(sessionId, { ifVersion: version, at: noon + 5, progress });
    expect(await tenant.sessions.change({ changes: [change] })).toMatchObject({
      kind: 'committed',
    });
  }

  test('an approval without a run is found by its session, conversation and invocation', async () => {
    const tenant = newTenant();
    const { sessionId, approval, invocation } = await waiting(tenant);
    await waiting(tenant);
    const { conversationId = '' } = approval;
    expect(await tenant.readApproval(approval.id)).toEqual({
      ...approval,
      status: 'pending',
      decidedAt: null,
      decidedBy: null,
      reason: null,
      edited: null,
      answer: null,
      ballot: 0,
      votes: null,
    });
    const filters = [{ sessionId }, { conversationId }, { invocationId: invocation.id }];
    for (const filter of filters) {
      for (const more of [{}, { status: 'pending', kind: 'permission' } as const]) {
        const found = (await tenant.listApprovals({ ...filter, ...more }, { limit: 9 })).items;
        expect(found.map(({ id }) => id)).toEqual([approval.id]);
      }
    }
    expect((await tenant.listApprovals({}, { limit: 9 })).items).toHaveLength(2);
    expect((await newTenant().listApprovals({ sessionId }, { limit: 9 })).items).toEqual([]);
  });

  test('of all decisions one is stored, with what it means for the invocation', async () => {
    const tenant = newTenant();
    const { approval, invocation, sessionId } = await waiting(tenant);
    const { id } = invocation;
    const decide = (n: number) =>
      tenant.sessions.change({
        changes: [],
        invocationChanges: [{ id, from: ['waiting'], to: 'running', at: noon + 1, dueAt: n }],
        decision: decisionOn(approval, {
          answer: String(n),
          grant: grantFor(sessionId, { params: { n: String(n) } }),
          edited: { params: { n }, digest: 'beef' },
        }),
      });
    const outcomes = await Promise.all([1, 2, 3].map(decide));
    const winner = outcomes.findIndex(({ kind }) => kind === 'committed') + 1;
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual([
      'committed',
      'conflict',
      'conflict',
    ]);
    expect(await tenant.readApproval(approval.id)).toMatchObject({
      status: 'approved',
      decidedBy: person,
      answer: String(winner),
      edited: { params: { n: winner } },
    });
    expect(await tenant.actions.readInvocation(id)).toMatchObject({ dueAt: winner });
    const grants = await tenant.readGrants({ sessionId, owner: 'ada', now: noon });
    expect(grants).toMatchObject([{ params: { n: String(winner) } }]);
  });

  test('a decision is refused after the expiry, with old votes, and for an approval of a run', async () => {
    const tenant = newTenant();
    const { approval } = await waiting(tenant);
    const decide = async (over: Partial<RequestDecision>) =>
      (await tenant.sessions.change({ changes: [], decision: decisionOn(approval, over) })).kind;
    const vote = { by: person, person: 'ada', at: noon, answer: 'a' };
    const votes = { quorum: 2, votes: [vote] };
    expect(await decide({ at: approval.expiresAt })).toBe('conflict');
    const change = { approvalId: approval.id, at: noon, ballot: 0, votes };
    expect(await tenant.changeVotes(change)).toBe(true);
    expect(await decide({ ballot: 0 })).toBe('conflict');
    const both = { quorum: 2, votes: [vote, { ...vote, person: 'eve' }] };
    expect(await decide({ ballot: 1, votes: both })).toBe('committed');
    expect(await tenant.readApproval(approval.id)).toMatchObject({ votes: both });
  });

  test('one that was decided does not expire, and one that is closed stays decided', async () => {
    const tenant = newTenant();
    const { approval } = await waiting(tenant);
    const close = (status: 'expired' | 'closed') => {
      const closure = { approvalId: approval.id, status, at: noon, by: person, reason: 'Over' };
      return tenant.sessions.change({ changes: [], closures: [closure] });
    };
    await tenant.sessions.change({ changes: [], decision: decisionOn(approval) });
    expect(await close('expired')).toEqual({ kind: 'conflict' });
    expect(await close('closed')).toMatchObject({ kind: 'committed' });
    expect(await tenant.readApproval(approval.id)).toMatchObject({ status: 'approved' });
  });

  test('a released session closes its approvals, and what waited for them is due', async () => {
    const tenant = newTenant();
    const { approval, sessionId, invocation } = await waiting(tenant);
    const other = await waiting(tenant);
    await release(tenant, sessionId);
    expect(await tenant.readApproval(approval.id)).toMatchObject({
      status: 'closed',
      decidedAt: noon + 5,
    });
    expect(await tenant.actions.readInvocation(invocation.id)).toMatchObject({
      dueAt: invocation.at,
    });
    expect(await tenant.readApproval(other.approval.id)).toMatchObject({ status: 'pending' });
    expect(await tenant.actions.readInvocation(other.invocation.id)).toMatchObject({
      dueAt: other.invocation.dueAt,
    });
  });

  test('the grant of a session holds for it alone, and ends with it', async () => {
    const tenant = newTenant();
    const [sessionId, other] = [await addSession(tenant), await addSession(tenant)];
    const grant = grantFor(sessionId);
    await tenant.addGrant(grant);
    const ids = async (id: string) =>
      (await tenant.readGrants({ sessionId: id, owner: 'ada', now: noon })).map((each) => each.id);
    expect(await ids(sessionId)).toEqual([grant.id]);
    expect(await ids(other)).toEqual([]);
    expect(await tenant.readGrants({ runId: sessionId, owner: 'ada', now: noon })).toEqual([]);
    const active = async () => tenant.listGrants({ activeAt: noon }, { limit: 9 });
    expect(await active()).toHaveLength(1);
    await release(tenant, sessionId);
    expect(await ids(sessionId)).toEqual([]);
    expect(await active()).toEqual([]);
  });

  test('a counted grant is used by one of two writes', async () => {
    const tenant = newTenant();
    const sessionId = await addSession(tenant);
    const grant = grantFor(sessionId, { uses: 1 });
    await tenant.addGrant(grant);
    const use = () =>
      tenant.sessions.change({ changes: [changeOf(sessionId)], useGrants: [grant.id] });
    const kinds = (await Promise.all([use(), use()])).map(({ kind }) => kind);
    expect(kinds.toSorted()).toEqual(['committed', 'conflict']);
    expect(await tenant.readGrant(grant.id)).toMatchObject({ usesLeft: 0 });
  });

  test('approvals that have ended are pruned, open ones are not', async () => {
    const tenant = newTenant();
    const [ended, left] = [await waiting(tenant), await waiting(tenant)];
    await tenant.sessions.change({ changes: [], decision: decisionOn(ended.approval) });
    while ((await system().sessions.prune(noon + 1, 100)) > 0);
    expect(await tenant.readApproval(ended.approval.id)).toBeUndefined();
    expect(await tenant.readApproval(left.approval.id)).toBeDefined();
  });
}
