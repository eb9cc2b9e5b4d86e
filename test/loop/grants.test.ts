/** Standing answers: where they hold, until when, for how many calls, and what they never do. */
import type { Append, NewGrant, Tool, ToolContext } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, type KernelOptions, person, until } from '../support/kernel.ts';
import { createScriptedAgents, delegate, says } from './scripted-agents.ts';
import {
  decide,
  finished,
  journal,
  ofType,
  openFixture,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal, wrapStore } from './stores.ts';

const pay = (n: number, amount = 1) => toolCall(`call_${n}`, 'pay', { amount });
const script = (calls = 1) =>
  createScriptedModel([
    [...Array.from({ length: calls }, (_, n) => pay(n + 1)), finish()],
    [text('Done.'), finish()],
  ]);

async function fixture(options: { calls?: number; idempotent?: boolean } = {}) {
  const opened = await openFixture();
  const clock = new ManualClock();
  const { calls = 1, idempotent = false } = options;
  const tool = createRecordingTool({
    name: 'pay',
    idempotent,
    derivePermission: () => ({ tool: 'pay', params: { amount: '1*' } }),
  });
  const kernel = await opened.boot({ model: script(calls), tools: [tool], clock });
  return { ...opened, kernel, tool, clock };
}

function grantIn(kernel: Kernel, over: Partial<NewGrant> = {}): NewGrant {
  return {
    id: uuidv7(),
    tool: 'pay',
    exact: { amount: 1 },
    scope: 'tenant',
    scopeId: kernel.tenantId,
    createdAt: 0,
    createdBy: person,
    ...over,
  };
}

const add = async (kernel: Kernel, over: Partial<NewGrant> = {}) => {
  const grant = grantIn(kernel, over);
  await kernel.store.tenant(kernel.tenantId).addGrant(grant);
  return grant;
};

describe('a grant', () => {
  test('of the tenant lets calls of every conversation run, until it is revoked', async () => {
    const { kernel, tool } = await fixture();
    const grant = await add(kernel);
    for (let n = 0; n < 2; n += 1) {
      const run = await ask(kernel);
      const events = await finished(kernel, run.id);
      expect(ofType(events, 'tool.started')).toMatchObject([
        { rule: { source: 'grant', id: grant.id } },
      ]);
    }
    await kernel.store.tenant(kernel.tenantId).revokeGrant(grant.id, 1);
    await untilAsked(kernel, (await ask(kernel)).id);
    expect(tool.executions).toHaveLength(2);
  });

  test('never beats a denial', async () => {
    const { kernel, tool } = await fixture();
    await add(kernel);
    const run = await ask(kernel, { permissions: { denylist: [{ tool: 'pay' }] } });
    expect(ofType(await finished(kernel, run.id), 'tool.denied')).toHaveLength(1);
    expect(tool.executions).toEqual([]);
  });

  test('ends at its time', async () => {
    const { kernel, clock, tool } = await fixture();
    await add(kernel, { expiresAt: clock.now() + 5_000 });
    await finished(kernel, (await ask(kernel)).id);
    await clock.advance(5_000);
    await untilAsked(kernel, (await ask(kernel)).id);
    expect(tool.executions).toHaveLength(1);
  });

  test('of two calls lets two of three run, and a person is asked about the third', async () => {
    const { kernel, tool } = await fixture({ calls: 3 });
    const grant = await add(kernel, { uses: 2 });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    expect(approval).toMatchObject({ toolCallId: 'call_3' });
    expect(tool.executions.map(({ toolCallId }) => toolCallId)).toEqual(['call_1', 'call_2']);
    const tenant = kernel.store.tenant(kernel.tenantId);
    expect(await tenant.readGrant(grant.id)).toMatchObject({ usesLeft: 0 });
    await decide(kernel, approval?.approvalId);
    await finished(kernel, run.id);
  });

  test('of one call lets one of ten runs have it that come at once', async () => {
    const { kernel, tool } = await fixture();
    await add(kernel, { uses: 1 });
    const runs = await Promise.all(Array.from({ length: 10 }, () => ask(kernel)));
    const tenant = kernel.store.tenant(kernel.tenantId);
    const still = await until(async () => {
      const now = await Promise.all(runs.map(({ id }) => tenant.readRun(id)));
      const statuses = now.map((run) => run?.status);
      return statuses.every((status) => status === 'waiting' || status === 'completed') && statuses;
    }, 'all runs to settle');
    expect(still.filter((status) => status === 'completed')).toHaveLength(1);
    expect(tool.executions).toHaveLength(1);
    const journals = await Promise.all(runs.map(({ id }) => journal(kernel, id)));
    expect(journals.flatMap((events) => ofType(events, 'turn.discarded'))).toEqual([]);
  });

  /** The grant that a call is about to use is gone when it is stored. */
  async function tooLate(options: Pick<KernelOptions, 'model' | 'tools'>) {
    const opened = await openFixture();
    const taken: string[] = [];
    const store = wrapStore(opened.store, async (call) => {
      const { useGrants = [] } = call.method === 'append' ? (call.args[0] as Append) : {};
      taken.push(...useGrants);
      for (const id of new Set(useGrants)) {
        await opened.store.tenant(kernel.tenantId).revokeGrant(id, 1);
      }
      return call.go();
    });
    const kernel = await opened.boot({ ...options, store });
    return { kernel, taken };
  }

  test('that was used up while a call was being decided leads to an approval request, and nothing runs', async () => {
    const tool = createRecordingTool({ name: 'pay' });
    const model = script();
    const { kernel, taken } = await tooLate({ model, tools: [tool] });
    await add(kernel, { uses: 5 });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    expect(taken).toHaveLength(1);
    expect(tool.executions).toEqual([]);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    // The turn is paid for: it is neither taken back nor asked for again.
    expect(ofType(events, 'turn.discarded')).toEqual([]);
    expect(model.requests).toHaveLength(2);
    expect(kernel.warnings).toEqual([]);
  });

  test('that was used up gives way to another rule that allows the call too', async () => {
    const tool = createRecordingTool({ name: 'pay' });
    const { kernel } = await tooLate({ model: script(), tools: [tool] });
    const grant = await add(kernel, { uses: 1 });
    const run = await ask(kernel, { permissions: { allowOnce: [{ tool: 'pay' }] } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.started')).toMatchObject([{ rule: { list: 'allowOnce' } }]);
    const store = kernel.store.tenant(kernel.tenantId);
    expect(await store.readGrant(grant.id)).toMatchObject({ usesLeft: 1 });
    expect(tool.executions).toHaveLength(1);
  });

  test('that was used up does not affect sibling calls and other agents', async () => {
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const payment = createRecordingTool({ name: 'pay' });
    const model = createScriptedAgents({
      Begin: [[delegate('call_1', 'Work'), delegate('call_2', 'Pay'), finish()], says('Done.')],
      Work: [[toolCall('call_3', 'slow', {}), finish()], says('Worked.')],
      Pay: [
        async () => {
          await until(async () => slow.executions.length === 1, 'the other agent');
          return [pay(4), toolCall('call_5', 'slow', {}), finish()];
        },
        says('Paid.'),
      ],
    });
    const { kernel } = await tooLate({ model, tools: [agentTool, payment, slow] });
    await add(kernel, { uses: 1 });
    const run = await ask(kernel);
    await untilStored(kernel, run.id, { type: 'approval.requested' });
    await until(async () => slow.executions.length === 2, 'the sibling');
    slow.release();
    const [approval] = await untilAsked(kernel, run.id);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toEqual([]);
    expect(ofType(events, 'turn.discarded')).toEqual([]);
    expect([slow.executions.length, payment.executions.length]).toEqual([2, 1]);
  });

  test('that was used up does not start the sub-agent of a call that is delegated', async () => {
    const model = createScriptedAgents({
      Begin: [[delegate('call_1', 'Work'), finish()], says('Done.')],
      Work: [says('Worked.')],
    });
    const { kernel } = await tooLate({ model, tools: [{ ...agentTool, allowedByDefault: false }] });
    const over = { tool: 'agent', exact: { prompt: 'Work' }, uses: 1 };
    await add(kernel, over);
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    expect(ofType(await journal(kernel, run.id), 'agent.started')).toHaveLength(1);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'agent.started')).toHaveLength(2);
    expect(model.requestsFor('Work')).toHaveLength(1);
  });

  test('that was used up is decided again although another agent writes in between', async () => {
    const released = Promise.withResolvers<void>();
    let working: ToolContext | undefined;
    const slow = createRecordingTool({
      name: 'slow',
      allowedByDefault: true,
      async execute(_input, context) {
        working = context;
        await released.promise;
        return { context: 'Done' };
      },
    });
    const model = createScriptedAgents({
      Begin: [[delegate('call_1', 'Work'), delegate('call_2', 'Plan'), finish()], says('Done.')],
      Work: [[toolCall('call_3', 'slow', {}), finish()], says('Worked.')],
      Plan: [
        async () => {
          await until(async () => working !== undefined, 'the other agent');
          return [delegate('call_4', 'Pay'), finish()];
        },
        says('Planned.'),
      ],
      Pay: [says('Paid.')],
    });
    const delegating: Tool = {
      ...agentTool,
      allowedByDefault: false,
      delegates(input) {
        const task = agentTool.delegates?.(input) ?? { prompt: '' };
        // The call is decided and not stored yet: this starts a commit without it.
        if (task.prompt === 'Pay') working?.progress('Half done');
        return task;
      },
    };
    const { kernel } = await tooLate({ model, tools: [delegating, slow] });
    await add(kernel, { tool: 'agent', exact: { prompt: 'Pay' }, uses: 1 });
    const allowlist = ['Work', 'Plan'].map((prompt) => ({ tool: 'agent', params: { prompt } }));
    const run = await ask(kernel, { permissions: { allowlist } });
    const [request] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    released.resolve();
    await decide(kernel, request?.approvalId);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.failed')).toEqual([]);
    expect(ofType(events, 'turn.discarded')).toEqual([]);
    expect(slow.executions).toHaveLength(1);
    expect(model.requestsFor('Pay')).toHaveLength(1);
  });

  test('is used once by a call that a crash makes start again', async () => {
    const { store, bootWithoutCleanup, boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', idempotent: true });
    tool.hold();
    const dying = mortal(store);
    const first = await bootWithoutCleanup({ store: dying.store, model: script(), tools: [tool] });
    const grant = await add(first, { uses: 2 });
    const run = await ask(first);
    await until(async () => tool.executions.length === 1, 'the tool');
    dying.kill();
    tool.release();
    const second = await boot({ model: script(), tools: [tool], restarted: true });
    const events = await finished(second, run.id);
    expect(ofType(events, 'tool.started')).toHaveLength(2);
    expect(tool.executions).toHaveLength(2);
    expect(await store.tenant(second.tenantId).readGrant(grant.id)).toMatchObject({ usesLeft: 1 });
  });
});

describe('“always”', () => {
  test.each([
    ['run', 'asked', 'asked'],
    ['conversation', 'free', 'asked'],
    ['tenant', 'free', 'free'],
  ] as const)('for the %s: the same conversation is %s, another one %s', async (scope, ...then) => {
    const { kernel } = await fixture();
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    await decide(kernel, approval?.approvalId, { always: true, terms: { scope } });
    await finished(kernel, run.id);
    for (const [n, request] of [{ conversationId: run.conversationId }, {}].entries()) {
      const { id } = await ask(kernel, request);
      if (then[n] === 'free') await finished(kernel, id);
      else await untilAsked(kernel, id);
    }
  });

  test('may be counted, expire, or hold for the rule that the tool suggests, and is stored with its creator', async () => {
    const { kernel, clock } = await fixture();
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    const expiresAt = clock.now() + 60_000;
    const terms = { scope: 'tenant', uses: 3, expiresAt, rule: 'suggested' } as const;
    const said = { always: true, terms };
    expect(await decide(kernel, approval?.approvalId, said)).toMatchObject({ kind: 'decided' });
    expect(await decide(kernel, approval?.approvalId, said)).toMatchObject({ kind: 'duplicate' });
    for (const other of [{}, { ...terms, uses: 4 }, { ...terms, scope: 'run' as const }]) {
      const outcome = await decide(kernel, approval?.approvalId, { always: true, terms: other });
      expect(outcome).toMatchObject({ kind: 'conflict' });
    }
    await finished(kernel, run.id);
    const [grant] = await kernel.store.tenant(kernel.tenantId).listGrants({}, { limit: 9 });
    expect(grant).toEqual({
      id: expect.any(String),
      tool: 'pay',
      params: { amount: '1*' },
      scope: 'tenant',
      scopeId: kernel.tenantId,
      createdAt: expect.any(Number),
      createdBy: person,
      approvers: [expect.objectContaining({ person: person.id })],
      expiresAt,
      uses: 3,
      usesLeft: 3,
    });
  });

  test('for the conversation is the default scope', async () => {
    const { kernel } = await fixture();
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    const id = approval?.approvalId;
    expect(await decide(kernel, id, { always: true })).toMatchObject({ kind: 'decided' });
    const terms = { scope: 'conversation', rule: 'exact' } as const;
    expect(await decide(kernel, id, { always: true, terms })).toMatchObject({ kind: 'duplicate' });
  });

  test.each([
    ['no rule', undefined],
    ['a rule of another tool', { tool: 'bash' }],
    ['a rule that does not cover the call', { tool: 'pay', params: { amount: '9*' } }],
    ['a rule that is malformed', { tool: 'pay', params: { amount: '!1' } }],
  ])('for a proposal is refused where the tool proposes %s', async (_what, rule) => {
    const opened = await openFixture();
    const derived = rule === undefined ? {} : { derivePermission: () => rule };
    const tool = createRecordingTool({ name: 'pay', ...derived });
    const kernel = await opened.boot({ model: script(), tools: [tool] });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    const terms = { rule: 'suggested' } as const;
    await expect(
      decide(kernel, approval?.approvalId, { always: true, terms }),
    ).rejects.toMatchObject({
      code: 'invalid_request',
    });
    expect(await untilAsked(kernel, run.id)).toHaveLength(1);
    expect(tool.executions).toEqual([]);
  });

  test('until a time that has passed is refused, and nothing is decided', async () => {
    const { kernel, clock, tool } = await fixture();
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    const terms = { expiresAt: clock.now() };
    await expect(
      decide(kernel, approval?.approvalId, { always: true, terms }),
    ).rejects.toMatchObject({
      code: 'invalid_request',
    });
    expect(await untilAsked(kernel, run.id)).toHaveLength(1);
    expect(tool.executions).toEqual([]);
  });
});
