import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  decisionOn,
  clock,
  decisionCommand,
  ending,
  grantOf,
  newApproval,
  newRun,
  noon,
  person,
  step,
  useStore,
  waitingRun,
} from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function approvalTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('a requested approval is pending and reads back as it was written', async () => {
    const tenant = newTenant();
    const { approval } = await waitingRun(tenant, {
      kind: 'question',
      agentPath: ['assistant', 'helper'],
      params: { deep: [{ a: null }, 'text', 1.5, true] },
    });
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
  });

  test('where the paths of a call lead is kept with its approval', async () => {
    const tenant = newTenant();
    const resolvedPaths = { path: '/srv/ws/a "b"\u0000', cwd: '/srv/ws' };
    const { approval } = await waitingRun(tenant, { resolvedPaths });
    expect(await tenant.readApproval(approval.id)).toMatchObject({ resolvedPaths });
    const plain = await waitingRun(tenant);
    expect(await tenant.readApproval(plain.approval.id)).not.toHaveProperty('resolved_paths');
  });

  test('an earlier denial of the same call is kept with its approval', async () => {
    const tenant = newTenant();
    const earlierDenial = { at: '2026-11-15T12:00:00.000Z', by: person, reason: 'No\u0000\ud800' };
    const { approval } = await waitingRun(tenant, { earlierDenial });
    expect(await tenant.readApproval(approval.id)).toMatchObject({ earlierDenial });
    const plain = await waitingRun(tenant);
    expect(await tenant.readApproval(plain.approval.id)).not.toHaveProperty('earlierDenial');
  });

  test('what a program says about its call is kept with its approval', async () => {
    const tenant = newTenant();
    const said = { shown: { why: 'a\u0000' }, isConcrete: false, isEditable: false };
    const { approval } = await waitingRun(tenant, said);
    expect(await tenant.readApproval(approval.id)).toMatchObject(said);
    const plain = await tenant.readApproval((await waitingRun(tenant)).approval.id);
    for (const name of Object.keys(said)) expect(plain).not.toHaveProperty(name);
  });

  test('a question is kept with its approval, and an approval without one has none', async () => {
    const tenant = newTenant();
    const question = { prompt: 'Which\u0000?', schema: { type: 'object', deep: [null, '\ud800'] } };
    const { approval } = await waitingRun(tenant, { kind: 'question', question });
    expect(await tenant.readApproval(approval.id)).toMatchObject({ question });
    const [listed] = (await tenant.listApprovals({ kind: 'question' }, { limit: 1 })).items;
    expect(listed).toMatchObject({ id: approval.id, question });
    const plain = await waitingRun(tenant);
    expect(await tenant.readApproval(plain.approval.id)).not.toHaveProperty('question');
  });

  test('parameters of every JSON type survive', async () => {
    const tenant = newTenant();
    for (const params of [null, 'text', 0, -1.5, true, [], [[]], {}, { a: [] }]) {
      const { approval } = await waitingRun(tenant, { params });
      expect((await tenant.readApproval(approval.id))?.params).toEqual(params);
    }
  });

  test('a decision is stored with who, when and why, together with its command', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant);
    const decision = decisionOn(approval, { status: 'denied', reason: 'not today' });
    expect(await tenant.decideApproval(decision)).toBe(true);
    expect(await tenant.readApproval(approval.id)).toEqual({
      ...approval,
      status: 'denied',
      decidedAt: noon + 1,
      decidedBy: person,
      reason: 'not today',
      edited: null,
      answer: decision.answer,
      ballot: 0,
      votes: null,
    });
    expect(await tenant.readInbox(run.id)).toEqual([decision.queued]);
  });

  test('a decision stores the edited arguments beside the requested ones', async () => {
    const tenant = newTenant();
    const { approval } = await waitingRun(tenant);
    const edited = {
      params: { to: 'ada\u0000', deep: { list: [null, '\ud800'] } },
      digest: 'beef',
    };
    expect(await tenant.decideApproval(decisionOn(approval, { edited }))).toBe(true);
    expect(await tenant.readApproval(approval.id)).toMatchObject({
      params: approval.params,
      edited,
    });
    const [listed] = (await tenant.listApprovals({ runId: approval.runId }, { limit: 1 })).items;
    expect(listed).toMatchObject({ digest: approval.digest, edited });
    expect(
      await tenant.decideApproval(decisionOn(approval, { edited: { params: {}, digest: 'x' } })),
    ).toBe(false);
    expect(await tenant.readApproval(approval.id)).toMatchObject({ edited });
  });

  test('of 50 racing decisions one counts, and one command is stored', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant);
    const decisions = Array.from({ length: 50 }, (_, i) =>
      decisionOn(approval, {
        status: i % 2 === 0 ? 'approved' : 'denied',
        reason: `answer ${i}`,
        grant: grantOf(run),
      }),
    );
    const outcomes = await Promise.all(decisions.map((each) => tenant.decideApproval(each)));
    expect(outcomes.filter(Boolean)).toHaveLength(1);
    const winner = decisions[outcomes.indexOf(true)];
    expect(await tenant.readApproval(approval.id)).toMatchObject({
      status: winner?.status,
      reason: winner?.reason,
    });
    expect(await tenant.readInbox(run.id)).toEqual([winner?.queued]);
    expect(
      await tenant.readGrants({ runId: run.id, conversationId: '', owner: 'ada', now: noon }),
    ).toHaveLength(1);
  });

  test('a second decision does not count, whether it agrees or not', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant);
    expect(await tenant.decideApproval(decisionOn(approval))).toBe(true);
    expect(await tenant.decideApproval(decisionOn(approval))).toBe(false);
    expect(await tenant.decideApproval(decisionOn(approval, { status: 'denied' }))).toBe(false);
    expect(await tenant.readInbox(run.id)).toHaveLength(1);
    expect(await tenant.readApproval(approval.id)).toMatchObject({ status: 'approved' });
  });

  test('a decision counts until the moment of expiry and not at it', async () => {
    const tenant = newTenant();
    const late = await waitingRun(tenant);
    const { expiresAt } = late.approval;
    const grant = grantOf(late.run);
    expect(await tenant.decideApproval(decisionOn(late.approval, { at: expiresAt, grant }))).toBe(
      false,
    );
    expect(await tenant.readApproval(late.approval.id)).toMatchObject({ status: 'pending' });
    expect(await tenant.readInbox(late.run.id)).toEqual([]);
    expect(
      await tenant.readGrants({ runId: late.run.id, conversationId: '', owner: 'ada', now: noon }),
    ).toEqual([]);
    expect(await tenant.decideApproval(decisionOn(late.approval, { at: expiresAt - 1 }))).toBe(
      true,
    );
  });

  test('an approval that expired or was closed cannot be decided', async () => {
    const tenant = newTenant();
    for (const status of ['expired', 'closed'] as const) {
      const run = await newRun(tenant);
      const approval = newApproval(run);
      await tenant.append(step(run, { events: [], approvals: [approval] }));
      const close = { approvalId: approval.id, status, at: noon + 9, by: clock, reason: 'over' };
      expect(await tenant.append(step(run, { closeApprovals: [close] }))).toBe('committed');
      expect(await tenant.readApproval(approval.id)).toEqual({
        ...approval,
        status,
        decidedAt: noon + 9,
        decidedBy: clock,
        reason: 'over',
        edited: null,
        answer: null,
        ballot: 0,
        votes: null,
      });
      expect(await tenant.decideApproval(decisionOn(approval))).toBe(false);
      expect(await tenant.readInbox(run.id)).toEqual([]);
    }
  });

  test.each(['expired', 'closed'] as const)(
    'an approval can be requested and %s in one step',
    async (status) => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const approval = newApproval(run);
      const close = [{ status, at: noon, by: clock, reason: 'at once', approvalId: approval.id }];
      expect(await tenant.append(step(run, { approvals: [approval], closeApprovals: close }))).toBe(
        'committed',
      );
      expect(await tenant.readApproval(approval.id)).toMatchObject({ status, reason: 'at once' });
    },
  );

  test('an approval that was decided cannot expire: the whole step is undone', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const [approval, other] = [newApproval(run), newApproval(run)];
    await tenant.append(step(run, { events: [], approvals: [approval, other] }));
    expect(await tenant.decideApproval(decisionOn(approval))).toBe(true);
    const expire = { status: 'expired', at: noon + 60_000, by: clock, reason: 'late' } as const;
    const close = [other, approval].map(({ id }) => ({ ...expire, approvalId: id }));
    expect(await tenant.append(step(run, { closeApprovals: close }))).toBe('fenced');
    expect(await tenant.readApproval(approval.id)).toMatchObject({ status: 'approved' });
    expect(await tenant.readApproval(other.id)).toMatchObject({ status: 'pending' });
    expect(await tenant.readRun(run.id)).toMatchObject({ lastSeq: 1 });
  });

  test('an approval that was decided keeps its decision when its run closes it', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const approval = newApproval(run);
    await tenant.append(step(run, { events: [], approvals: [approval] }));
    await tenant.decideApproval(decisionOn(approval));
    const close = {
      approvalId: approval.id,
      status: 'closed',
      at: noon,
      by: clock,
      reason: 'r',
    } as const;
    expect(await tenant.append(ending(run, { closeApprovals: [close] }))).toBe('committed');
    expect(await tenant.readApproval(approval.id)).toMatchObject({
      status: 'approved',
      decidedBy: person,
    });
  });

  test('no approval outlives its run, even if its end does not mention it', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const [open, decided] = [newApproval(run), newApproval(run)];
    await tenant.append(step(run, { events: [], approvals: [open, decided] }));
    await tenant.decideApproval(decisionOn(decided));
    const { approval: elsewhere } = await waitingRun(tenant);
    expect(await tenant.append(ending(run))).toBe('committed');
    expect(await tenant.readApproval(open.id)).toMatchObject({ status: 'closed' });
    expect(await tenant.readApproval(decided.id)).toMatchObject({ status: 'approved' });
    expect(await tenant.readApproval(elsewhere.id)).toMatchObject({ status: 'pending' });
  });

  test('a decision counts for the run that requested the approval and no other', async () => {
    const tenant = newTenant();
    const { approval } = await waitingRun(tenant);
    const other = await newRun(tenant);
    expect(await tenant.decideApproval(decisionOn(approval, { runId: other.id }))).toBe(false);
    expect(await tenant.readInbox(other.id)).toEqual([]);
    expect(await tenant.readApproval(approval.id)).toMatchObject({ status: 'pending' });
    const close = { status: 'closed', at: noon, by: clock, reason: 'r' } as const;
    await tenant.append(step(other, { closeApprovals: [{ ...close, approvalId: approval.id }] }));
    expect(await tenant.readApproval(approval.id)).toMatchObject({ status: 'pending' });
  });

  test('an open approval of a run that is over cannot be decided', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const approval = newApproval(run);
    await tenant.append(ending(run, { approvals: [approval] }));
    expect(await tenant.decideApproval(decisionOn(approval, { grant: grantOf(run) }))).toBe(false);
    expect(await tenant.readApproval(approval.id)).toMatchObject({ status: 'closed' });
    expect(
      await tenant.readGrants({ runId: run.id, conversationId: '', owner: 'ada', now: noon }),
    ).toEqual([]);
  });

  test('a decision on an approval that was never requested does not count', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant);
    const unknown = decisionOn(approval, {
      approvalId: uuidv7(),
      queued: decisionCommand(approval.id),
    });
    expect(await tenant.decideApproval(unknown)).toBe(false);
    expect(await tenant.readInbox(run.id)).toEqual([]);
  });

  test('a step requests several approvals and each is decided on its own', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const approvals = [1, 2, 3].map((n) => newApproval(run, { toolCallId: `call_${n}` }));
    await tenant.append(step(run, { approvals }));
    for (const approval of approvals.slice(1)) await tenant.decideApproval(decisionOn(approval));
    const read = await Promise.all(approvals.map(({ id }) => tenant.readApproval(id)));
    expect(read.map((each) => each?.status)).toEqual(['pending', 'approved', 'approved']);
    expect(await tenant.readInbox(run.id)).toHaveLength(2);
  });

  test('grants are found by their run or their conversation, oldest first', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant);
    const ofRun = grantOf(run, { createdAt: noon + 2 });
    await tenant.decideApproval(decisionOn(approval, { grant: ofRun }));
    const second = await waitingRun(tenant);
    const ofConversation = grantOf(run, {
      scope: 'conversation',
      scopeId: run.conversationId,
      createdAt: noon + 1,
      params: { to: 'a*' },
    });
    await tenant.decideApproval(decisionOn(second.approval, { grant: ofConversation }));

    const { id, tool, exact } = ofRun;
    const scope = { runId: run.id, conversationId: run.conversationId, owner: 'ada', now: noon };
    expect(await tenant.readGrants(scope)).toEqual([
      { id: ofConversation.id, tool, exact, params: { to: 'a*' } },
      { id, tool, exact },
    ]);
    expect(await tenant.readGrants({ ...scope, runId: uuidv7() })).toHaveLength(1);
    const swapped = { runId: run.conversationId, conversationId: run.id, owner: 'ada', now: noon };
    expect(await tenant.readGrants(swapped)).toEqual([]);
  });

  test('a decision makes a waiting run due', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant);
    const isDue = async () =>
      (await system().dueRuns(noon, 1_000)).some(({ runId }) => runId === run.id);
    expect(await isDue()).toBe(false);
    await tenant.decideApproval(decisionOn(approval));
    expect(await isDue()).toBe(true);
  });
}
