import { expect, test } from 'vitest';
import {
  cancelCommand,
  clock,
  decisionOn,
  delta,
  hostileText,
  newApproval,
  newRun,
  noon,
  step,
  useStore,
  waitingRun,
} from './fixtures.ts';
import type { Open } from './fixtures.ts';

/** Own keys that must neither vanish nor reach a prototype. */
const odd = JSON.parse(
  '{"__proto__":{"polluted":true},"constructor":1,"":"","a.b":[],"toString":null}',
);

export function textTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  for (const [name, text] of Object.entries(hostileText)) {
    test(`${name} survives in every free text`, async () => {
      const tenant = newTenant();
      const identity = { correlationId: text, agent: text, model: text, workflowId: text };
      const labels = { [text]: text };
      const run = await newRun(tenant, { identity: { ...identity, labels } });
      const by = { type: 'key', id: text, name: text } as const;
      const approval = newApproval(run, {
        toolCallId: text,
        tool: text,
        agentPath: [text],
        params: { [text]: text, list: [text] },
      });
      const error = { code: text, message: text, retryable: false };
      await tenant.append(
        step(run, { approvals: [approval], progress: { error }, events: [delta(text)] }),
      );
      const queued = cancelCommand(text);
      await tenant.postRunCommand(run.id, queued);
      const exact = { [text]: text };
      await tenant.decideApproval(
        decisionOn(approval, {
          by,
          reason: text,
          grant: {
            id: approval.id,
            tool: text,
            exact,
            params: exact,
            scope: 'run',
            scopeId: run.id,
            createdAt: noon,
            createdBy: by,
          },
        }),
      );

      expect(await tenant.readRun(run.id)).toMatchObject({ ...identity, labels, error });
      expect(await tenant.readApproval(approval.id)).toMatchObject({
        toolCallId: text,
        tool: text,
        agentPath: [text],
        params: { [text]: text, list: [text] },
        decidedBy: by,
        reason: text,
      });
      expect((await tenant.readInbox(run.id))[0]).toEqual(queued);
      expect(
        await tenant.readGrants({ runId: run.id, conversationId: '', owner: 'ada', now: noon }),
      ).toEqual([{ id: approval.id, tool: text, exact, params: exact }]);
      expect(await tenant.readEvents(run.id, { after: 1, limit: 1 })).toMatchObject([{ text }]);
    });
  }

  test('a reason for closing an approval survives', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const approval = newApproval(run);
    const reason = Object.values(hostileText).join('|');
    const close = {
      approvalId: approval.id,
      status: 'closed',
      at: noon,
      by: clock,
      reason,
    } as const;
    await tenant.append(step(run, { events: [], approvals: [approval] }));
    await tenant.append(step(run, { closeApprovals: [close] }));
    expect(await tenant.readApproval(approval.id)).toMatchObject({ reason });
  });

  test('odd keys survive and pollute nothing', async () => {
    const tenant = newTenant();
    const { run, approval } = await waitingRun(tenant, { params: odd });
    await tenant.decideApproval(
      decisionOn(approval, {
        grant: {
          id: approval.id,
          tool: 't',
          exact: odd,
          scope: 'run',
          scopeId: run.id,
          createdAt: noon,
          createdBy: clock,
        },
      }),
    );
    const other = await newRun(tenant, {
      events: [{ type: 'tool.called', agentId: run.id, toolCallId: 'c', name: 't', input: odd }],
    });
    const [event] = await tenant.readEvents(other.id, { after: 0, limit: 1 });
    const [grant] = await tenant.readGrants({
      runId: run.id,
      conversationId: '',
      owner: 'ada',
      now: noon,
    });
    const read = [
      (await tenant.readApproval(approval.id))?.params,
      grant?.exact,
      event?.type === 'tool.called' ? event.input : undefined,
    ];
    for (const value of read) {
      expect(JSON.stringify(value)).toBe(JSON.stringify(odd));
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    }
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test('numbers survive as they are', async () => {
    const tenant = newTenant();
    const numbers = [0, -1, 0.1, 1e21, 5e-324, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER];
    const { approval } = await waitingRun(tenant, { params: { numbers } });
    expect((await tenant.readApproval(approval.id))?.params).toEqual({ numbers });
  });
}
