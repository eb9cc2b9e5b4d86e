/** What sub-agents may do is decided as for any agent: by the rules of the run, and by people. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { SystemStore } from '@relay/core';
import {
  createRecordingTool,
  finish,
  ManualClock,
  type RecordingTool,
  text,
  toolCall,
} from '@relay/core/testing';
import type { ToolPermission } from '@relay/protocol';
import { agentTool } from '@relay/tools';
import { describe, expect, test } from 'vitest';
import { ask, openApprovals, until } from '../support/kernel.ts';
import {
  agentFor,
  createScriptedAgents,
  delegate,
  endFor,
  resultOf,
  says,
} from './scripted-agents.ts';
import {
  decide,
  endOf,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
  untilAsked,
  untilStored,
} from './fixture.ts';

const done = says('Done.');
const pay = (id: string, amount = 1) => toolCall(id, 'pay', { amount });

/** First agent, middle, deep: the last one wants to pay. */
function threeDeep() {
  return createScriptedAgents({
    Begin: [[text('First. '), delegate('call_1', 'Middle', 'manager'), finish()], done],
    Middle: [[text('Second. '), delegate('call_2', 'Deep', 'worker'), finish()], says('Managed.')],
    Deep: [[text('Third. '), pay('call_3'), finish()], says('Worked.')],
  });
}

const staff = [
  { name: 'manager', instructions: 'Manage.' },
  { name: 'worker', instructions: 'Work.' },
];

/** Two sub-agents, and each wants to pay once. */
function twoPayers() {
  return createScriptedAgents({
    Begin: [[delegate('a', 'x'), delegate('b', 'y'), finish()], done],
    x: [[pay('pay_x', 1), finish()], says('X.')],
    y: [[pay('pay_y', 2), finish()], says('Y.')],
  });
}

function paidCalls(tool: RecordingTool): string[] {
  return tool.executions.map(({ toolCallId }) => toolCallId);
}

/** The same store; `left` says how many views of it for a tenant are still in use somewhere. */
function watchTenants(inner: SystemStore) {
  const views: WeakRef<object>[] = [];
  const tenant = (id: string) => {
    const view = proxyOf(inner.tenant(id));
    views.push(new WeakRef(view));
    return view;
  };
  const left = () => views.filter((view) => view.deref() !== undefined).length;
  return { store: proxyOf(inner, { tenant }), left };
}

/** An object of its own for each caller: the store gives all of them the same one. */
function proxyOf<Target extends object>(target: Target, replaced: Partial<Target> = {}): Target {
  return new Proxy(target, {
    get(_, key) {
      const value: unknown = Reflect.get(replaced, key) ?? Reflect.get(target, key, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

describe('an approval of a sub-agent', () => {
  test('comes up from three deep with its path, while nothing stays in memory', async () => {
    const fixture = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay' });
    const { store, left } = watchTenants(fixture.store);
    const tools = [agentTool, tool];
    const kernel = await fixture.boot({ store, model: threeDeep(), tools, agents: staff, clock });
    await until(async () => clock.sleepers === 2, 'the supervisor’s own timers');
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    const events = await journal(kernel, run.id);
    const middle = agentFor(events, 'Middle');
    const deep = agentFor(events, 'Deep');
    expect(deep.parentId).toBe(middle.agentId);
    expect(approval).toMatchObject({
      agentId: deep.agentId,
      parentId: middle.agentId,
      agentPath: ['assistant', 'manager', 'worker'],
      tool: 'pay',
      toolCallId: 'call_3',
      kind: 'permission',
    });
    const stored = await kernel.store
      .tenant(kernel.tenantId)
      .readApproval(approval?.approvalId ?? '');
    expect(stored).toMatchObject({
      agentId: deep.agentId,
      agentPath: ['assistant', 'manager', 'worker'],
      status: 'pending',
    });
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'the place to be free');
    expect(clock.sleepers).toBe(2);
    await until(async () => {
      collectGarbage();
      return left() === 0;
    }, 'the run to leave memory');
    expect(tool.executions).toEqual([]);
  });

  test('that is approved lets all agents above it finish', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = threeDeep();
    const kernel = await boot({ model, tools: [agentTool, tool], agents: staff });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    expect(paidCalls(tool)).toEqual(['call_3']);
    expect(ofType(events, 'agent.ended').map(({ output }) => output)).toEqual([
      'Worked.',
      'Managed.',
      undefined,
    ]);
    expect(resultOf(events, 'call_1')).toMatchObject({ context: 'Managed.' });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
    // Nobody was asked the same thing twice.
    expect(model.requests).toHaveLength(6);
  });

  test('that is denied is reported to the sub-agent only, which continues', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = threeDeep();
    const kernel = await boot({ model, tools: [agentTool, tool], agents: staff });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    await decide(kernel, approval?.approvalId, { approved: false, reason: 'Too dear' });
    const events = await finished(kernel, run.id);
    expect(tool.executions).toEqual([]);
    expect(resultsIn(lastOf(model.requestsFor('Deep')))).toEqual([
      JSON.stringify({ status: 'denied', reason: 'Too dear' }),
    ]);
    expect(resultsIn(lastOf(model.requestsFor('Middle')))).toEqual(['Worked.']);
    expect(endOf(events).status).toBe('completed');
  });

  test('that expires is reported to the sub-agent, and the run continues', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay' });
    const model = threeDeep();
    const settings = { approvalTtlMs: 60_000 };
    const tools = [agentTool, tool];
    const kernel = await boot({ model, tools, agents: staff, clock, settings });
    const run = await ask(kernel);
    await untilAsked(kernel, run.id);
    await until(async () => kernel.control.supervisor.activeRuns === 0, 'sleep');
    await clock.advance(62_000);
    const events = await finished(kernel, run.id);
    expect(resultOf(events, 'call_3')).toMatchObject({ type: 'tool.denied', status: 'expired' });
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  });

  test('does not hold up its siblings, who finish while it is open', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'Pays'), delegate('b', 'Slow'), finish()], done],
      Pays: [[pay('c'), finish()], says('Paid.')],
      Slow: [
        [toolCall('d', 'slow', {}), finish()],
        [toolCall('e', 'slow', {}), finish()],
        says('Slow.'),
      ],
    });
    const kernel = await boot({ model, tools: [agentTool, tool, slow] });
    const run = await ask(kernel);
    const [approval] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    await until(async () => slow.executions.length === 1, 'the sibling to be at work');
    // One waits and one is at work: the run is running.
    const row = await kernel.store.tenant(kernel.tenantId).readRun(run.id);
    expect(row?.status).toBe('running');
    slow.release();
    await untilAsked(kernel, run.id);
    const parked = await journal(kernel, run.id);
    expect(endFor(parked, 'Slow')).toMatchObject({ output: 'Slow.' });
    expect(slow.executions).toHaveLength(2);
    await decide(kernel, approval?.approvalId);
    expect(endOf(await finished(kernel, run.id)).status).toBe('completed');
  });

  test('that is approved starts at once, while a sibling is still at work', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    slow.hold();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'Pays'), delegate('b', 'Slow'), finish()], done],
      Pays: [[pay('c'), finish()], says('Paid.')],
      Slow: [[toolCall('d', 'slow', {}), finish()], says('Slow.')],
    });
    const kernel = await boot({ model, tools: [agentTool, tool, slow] });
    const run = await ask(kernel);
    const [approval] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    await until(async () => slow.executions.length === 1, 'the sibling to be at work');
    await decide(kernel, approval?.approvalId);
    await until(async () => endFor(await journal(kernel, run.id), 'Pays'), 'the payer’s end');
    expect(slow.executions).toHaveLength(1);
    slow.release();
    expect(ofType(await finished(kernel, run.id), 'run.suspended')).toEqual([]);
  });

  test.each([
    ['in order', 0],
    ['in reverse', 1],
  ] as const)('and one of its sibling are decided %s, each on its own', async (...given) => {
    const [, first] = given;
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const kernel = await boot({ model: twoPayers(), tools: [agentTool, tool] });
    const run = await ask(kernel);
    const approvals = await untilAsked(kernel, run.id, 2);
    await decide(kernel, approvals[first]?.approvalId);
    await untilStored(kernel, run.id, { type: 'agent.ended' });
    await untilAsked(kernel, run.id, 1);
    expect(paidCalls(tool)).toEqual([approvals[first]?.toolCallId]);
    await decide(kernel, approvals[1 - first]?.approvalId);
    const events = await finished(kernel, run.id);
    expect(paidCalls(tool).toSorted()).toEqual(['pay_x', 'pay_y']);
    expect(ofType(events, 'run.suspended')).toHaveLength(2);
    expect(endOf(events).status).toBe('completed');
  });

  test('that is decided while the run is on its way to sleep is not lost', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const clock = new ManualClock();
    const kernel = await boot({ model: twoPayers(), tools: [agentTool, tool], clock });
    const run = await ask(kernel);
    const seen = new Set<string>();
    await until(async () => {
      const events = await journal(kernel, run.id);
      for (const { approvalId } of openApprovals(events)) {
        if (seen.has(approvalId)) continue;
        seen.add(approvalId);
        await decide(kernel, approvalId);
      }
      return events.at(-1)?.type === 'run.ended';
    }, 'the end');
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(2);
  });
});

describe('the rules of a run', () => {
  const anyPayment: ToolPermission = { tool: 'pay' };

  test('hold for its sub-agents: what is allowed runs, what is denied does not', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const kernel = await boot({ model: twoPayers(), tools: [agentTool, tool] });
    const permissions = {
      allowlist: [anyPayment],
      denylist: [{ tool: 'pay', params: { amount: '2' } }],
    };
    const run = await ask(kernel, { permissions });
    const events = await finished(kernel, run.id);
    expect(paidCalls(tool)).toEqual(['pay_x']);
    expect(resultOf(events, 'pay_y')).toMatchObject({ type: 'tool.denied' });
  });

  test('may deny sub-agents altogether', async () => {
    const { boot } = await openFixture();
    const model = twoPayers();
    const kernel = await boot({ model, tools: [agentTool] });
    const run = await ask(kernel, { permissions: { denylist: [{ tool: 'agent' }] } });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'agent.started')).toHaveLength(1);
    expect(ofType(events, 'tool.denied')).toHaveLength(2);
    expect(model.requestsFor('x')).toEqual([]);
  });

  test('allow once means once in the whole tree', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), delegate('b', 'y'), pay('pay_0'), finish()], done],
      x: [[pay('pay_x'), finish()], says('X.')],
      y: [[pay('pay_y'), finish()], says('Y.')],
    });
    const kernel = await boot({ model, tools: [agentTool, tool] });
    const run = await ask(kernel, { permissions: { allowOnce: [anyPayment, anyPayment] } });
    const [approval] = await untilAsked(kernel, run.id);
    expect(tool.executions).toHaveLength(2);
    const rules = ofType(await journal(kernel, run.id), 'tool.started').flatMap(({ rule }) =>
      rule?.list === 'allowOnce' ? [rule.index] : [],
    );
    expect(rules).toEqual([0, 1]);
    await decide(kernel, approval?.approvalId, { approved: false });
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(2);
  });

  test('take in what one sub-agent was always allowed, for the others too', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    const hold = Promise.withResolvers<void>();
    const model = createScriptedAgents({
      Begin: [[delegate('a', 'x'), delegate('b', 'y'), finish()], [pay('pay_0'), finish()], done],
      x: [[pay('pay_x'), finish()], says('X.')],
      y: [() => hold.promise.then(() => [pay('pay_y'), pay('pay_z', 9), finish()]), says('Y.')],
    });
    const kernel = await boot({ model, tools: [agentTool, tool] });
    const run = await ask(kernel);
    const [approval] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    await decide(kernel, approval?.approvalId, { always: true });
    await untilStored(kernel, run.id, { type: 'tool.completed' });
    hold.resolve();
    const [other] = await untilAsked(kernel, run.id);
    // The grant is of that very call: another amount is asked about.
    expect(other).toMatchObject({ toolCallId: 'pay_z', params: { amount: 9 } });
    await decide(kernel, other?.approvalId, { approved: false });
    await finished(kernel, run.id);
    expect(paidCalls(tool).toSorted()).toEqual(['pay_0', 'pay_x', 'pay_y']);
  });

  test('of a program are read for each call, and an allow-once is used up in it', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay' });
    let allowOnce = [anyPayment];
    const rules = () => ({
      current: () => ({ allowOnce }),
      useOnce(index: number) {
        allowOnce = allowOnce.filter((_, at) => at !== index);
      },
    });
    const kernel = await boot({ model: twoPayers(), tools: [agentTool, tool], rules });
    const run = await ask(kernel);
    const [approval] = await untilAsked(kernel, run.id);
    expect(allowOnce).toEqual([]);
    expect(tool.executions).toHaveLength(1);
    const started = ofType(await journal(kernel, run.id), 'tool.started');
    expect(started.find(({ name }) => name === 'pay')?.rule).toMatchObject({
      list: 'allowOnce',
      source: 'program',
    });
    await decide(kernel, approval?.approvalId);
    await finished(kernel, run.id);
    expect(tool.executions).toHaveLength(2);
  });
});
