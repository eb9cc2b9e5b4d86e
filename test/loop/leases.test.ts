/** Several nodes on one store: one of them drives a run, and the others cannot interfere. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  type RecordingTool,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, openApprovals, until } from '../support/kernel.ts';
import {
  aborted,
  createStreamingModel,
  decide,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
  stopRun,
  untilAsked,
  untilStored,
} from './fixture.ts';
import { mortal, wrapStore } from './stores.ts';

const answer = [text('Done.'), finish()];
const calling = [toolCall('call_1', 'pay', { amount: 1 }), finish()];
const leaseTtlMs = 15_000;

/** A node whose renewals do not get through while it is asleep. */
function drowsy(inner: Parameters<typeof wrapStore>[0]) {
  let awake = Promise.withResolvers<void>();
  awake.resolve();
  return {
    store: wrapStore(inner, async (call) => {
      if (call.method === 'renewLeases') await awake.promise;
      return call.go();
    }),
    fallAsleep: () => {
      awake = Promise.withResolvers();
    },
    wakeUp: () => awake.resolve(),
  };
}

/** Two nodes with one clock; the first sleeps while its run is at `hold`, the second takes over. */
async function takenOver(tools: [RecordingTool, RecordingTool]) {
  const { store, boot } = await openFixture();
  const clock = new ManualClock();
  const first = drowsy(store);
  const settings = { leaseTtlMs };
  const gate = Promise.withResolvers<void>();
  const slow = createStreamingModel(async function* () {
    yield [text('Let me pay. ')];
    await gate.promise;
    yield calling;
  });
  const model = createScriptedModel([calling, answer]);
  const a = await boot({ store: first.store, model: slow, tools: [tools[0]], clock, settings });
  const b = await boot({ model, tools: [tools[1]], clock, settings });
  return { a, b, first, clock, slow, gate };
}

const refOf = (kernel: Kernel, runId: string) => ({ tenantId: kernel.tenantId, runId });

describe('two nodes', () => {
  test('drive each run once, however often both are woken', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const model = createScriptedModel([calling, [toolCall('call_2', 'pay', {}), finish()], answer]);
    const nodes = [await boot({ model, tools: [tool] }), await boot({ model, tools: [tool] })];
    const settings = { maxActiveRuns: 0 };
    const [a, b] = nodes;
    const clerk = await boot({ model, tools: [tool], settings, clock: new ManualClock() });
    const runs = await Promise.all(Array.from({ length: 25 }, () => ask(clerk)));
    for (let times = 0; times < 3; times += 1) {
      for (const { id } of runs) {
        a?.control.supervisor.wake(refOf(clerk, id));
        b?.control.supervisor.wake(refOf(clerk, id));
      }
      await new Promise(setImmediate);
    }
    for (const { id } of runs) {
      const events = await finished(clerk, id);
      expect(endOf(events).output).toBe('Done.');
      expect(ofType(events, 'turn.discarded')).toEqual([]);
    }
    expect(tool.executions).toHaveLength(50);
    expect(model.requests).toHaveLength(75);
    for (const node of nodes) expect(node.warnings).toEqual([]);
  });

  test('leave a run to the one that renews its lease, however long it takes', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    tool.hold();
    const model = createScriptedModel([calling, answer]);
    const settings = { leaseTtlMs };
    const a = await boot({ model, tools: [tool], clock, settings });
    const b = await boot({ model, tools: [tool], clock, settings });
    const run = await ask(a);
    await until(async () => tool.executions.length === 1, 'the tool');
    for (let step = 0; step < 10; step += 1) {
      await clock.advance(leaseTtlMs / 3);
      b.control.supervisor.wake(refOf(b, run.id));
      await until(async () => b.control.supervisor.activeRuns === 0, 'the other node to give up');
    }
    tool.release();
    const events = await finished(a, run.id);
    expect(tool.executions).toHaveLength(1);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(b.published).toEqual([]);
  });

  test('a node that died is replaced when its lease has expired, and not before', async () => {
    const { boot, bootWithoutCleanup, store } = await openFixture();
    const clock = new ManualClock();
    const settings = { leaseTtlMs };
    const doomed = mortal(store);
    const never = new Promise<never>(() => undefined);
    const silent = createStreamingModel(async function* () {
      yield await never;
    });
    const a = await bootWithoutCleanup({ store: doomed.store, model: silent, clock, settings });
    const run = await ask(a);
    await until(async () => silent.requests.length === 1, 'the model');
    doomed.kill();
    const model = createScriptedModel([answer]);
    const b = await boot({ model, clock, settings });
    await clock.advance(leaseTtlMs - 1);
    expect(model.requests).toEqual([]);
    await clock.advance(1_001);
    await finished(b, run.id);
    expect(model.requests).toHaveLength(1);
  });
});

describe('what comes in on one node', () => {
  /** Two nodes: the first drives a run whose tool is at work, the second is told something. */
  async function atWork() {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
    const pay = createRecordingTool({ name: 'pay' });
    slow.hold();
    const calls = [toolCall('call_s', 'slow', {}), toolCall('call_1', 'pay', {})];
    const model = createScriptedModel([[...calls, finish()], answer]);
    const made = { model, tools: [slow, pay], clock, settings: { leaseTtlMs } };
    const [a, b] = [await boot(made), await boot(made)];
    const run = await ask(a);
    await until(async () => slow.executions.length === 1, 'the slow tool');
    const [approval] = openApprovals(await journal(a, run.id));
    /** Time passes, for as long as another node may at most take to take over. */
    const soon = async (look: () => Promise<boolean>) => {
      for (let seconds = 0; seconds < 20; seconds += 1) {
        await clock.advance(1_000);
        // The time that a store really takes goes by as well.
        for (const end = performance.now() + 200; performance.now() < end;) {
          if (await look()) return;
          await new Promise((resolve) => setTimeout(resolve, 2));
        }
      }
      slow.release();
      expect.fail('Nothing happened in 20 seconds');
    };
    return { a, b, run, slow, pay, approval, soon };
  }

  test('as a cancel reaches the other node’s tools', async () => {
    const { a, b, run, soon } = await atWork();
    expect(await stopRun(b, run.id)).toBe(true);
    await soon(async () => (await journal(a, run.id)).at(-1)?.type === 'run.ended');
    expect(endOf(await finished(a, run.id)).status).toBe('canceled');
  });

  test('as an approval starts its call on the other node at once', async () => {
    const { a, b, run, slow, pay, approval, soon } = await atWork();
    expect(await decide(b, approval?.approvalId)).toMatchObject({ kind: 'decided' });
    await soon(async () => pay.executions.length === 1);
    slow.release();
    await finished(a, run.id);
    expect(slow.executions).toHaveLength(1);
  });
});

describe('a node whose run was taken over', () => {
  const pair = (options: { idempotent?: boolean } = {}): [RecordingTool, RecordingTool] => {
    const made = { name: 'pay', allowedByDefault: true, ...options };
    return [createRecordingTool(made), createRecordingTool(made)];
  };

  test('writes nothing more and starts no tool', async () => {
    const tools = pair();
    const { a, b, first, clock, slow, gate } = await takenOver(tools);
    const run = await ask(a);
    await untilStored(a, run.id, { type: 'text.appended' });
    first.fallAsleep();
    await clock.advance(leaseTtlMs);
    b.control.supervisor.wake(refOf(b, run.id));
    const events = await finished(b, run.id);
    const seen = [...a.published];
    gate.resolve();
    await until(async () => a.control.supervisor.activeRuns === 0, 'the first to give up');
    expect(slow.requests).toHaveLength(1);
    expect(tools.map(({ executions }) => executions.length)).toEqual([0, 1]);
    expect(await journal(b, run.id)).toEqual(events);
    expect(a.published).toEqual(seen);
    expect(events.slice(0, seen.length)).toEqual(seen);
    expect(ofType(events, 'turn.discarded')).toHaveLength(1);
    first.wakeUp();
  });

  test('stops its model as soon as the lease is lost', async () => {
    const tools = pair();
    const { a, b, first, clock, slow, gate } = await takenOver(tools);
    const run = await ask(a);
    await untilStored(a, run.id, { type: 'text.appended' });
    first.fallAsleep();
    await clock.advance(leaseTtlMs);
    b.control.supervisor.wake(refOf(b, run.id));
    await finished(b, run.id);
    expect(slow.signals[0]?.aborted).toBe(false);
    first.wakeUp();
    await aborted(slow.signals[0] ?? AbortSignal.abort());
    gate.resolve();
    await until(async () => a.control.supervisor.activeRuns === 0, 'the first to give up');
    expect(tools.map(({ executions }) => executions.length)).toEqual([0, 1]);
  });

  test('cannot store the result of its tool: the new lease holder requests an outcome approval', async () => {
    const tools = pair();
    const { a, b, first, clock, gate } = await takenOver(tools);
    tools[0].hold();
    const run = await ask(a);
    gate.resolve();
    await until(async () => tools[0].executions.length === 1, 'the tool');
    first.fallAsleep();
    await clock.advance(leaseTtlMs);
    b.control.supervisor.wake(refOf(b, run.id));
    const [approval] = await untilAsked(b, run.id);
    expect(approval?.kind).toBe('outcome');
    tools[0].release();
    await until(async () => a.control.supervisor.activeRuns === 0, 'the first to give up');
    expect(ofType(await journal(b, run.id), 'tool.completed')).toEqual([]);
    await decide(b, approval?.approvalId, { outcome: 'completed', output: 'paid' });
    const events = await finished(b, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: 'paid' }]);
    expect(tools.map(({ executions }) => executions.length)).toEqual([1, 0]);
    first.wakeUp();
  });

  test('does not hold up the new holder’s idempotent tool, which has the same key', async () => {
    const tools = pair({ idempotent: true });
    const { a, b, first, clock, gate } = await takenOver(tools);
    tools[0].hold();
    const run = await ask(a);
    gate.resolve();
    await until(async () => tools[0].executions.length === 1, 'the tool');
    first.fallAsleep();
    await clock.advance(leaseTtlMs);
    b.control.supervisor.wake(refOf(b, run.id));
    const events = await finished(b, run.id);
    tools[0].release();
    await until(async () => a.control.supervisor.activeRuns === 0, 'the first to give up');
    expect(await journal(b, run.id)).toEqual(events);
    expect(tools[1].executions).toEqual(tools[0].executions);
    first.wakeUp();
  });

  test('continues with its other runs, and accepts new ones', async () => {
    const tools = pair();
    const { a, b, first, clock, gate } = await takenOver(tools);
    const run = await ask(a);
    await untilStored(a, run.id, { type: 'text.appended' });
    first.fallAsleep();
    await clock.advance(leaseTtlMs);
    b.control.supervisor.wake(refOf(b, run.id));
    await finished(b, run.id);
    first.wakeUp();
    gate.resolve();
    await until(async () => a.control.supervisor.activeRuns === 0, 'the first to give up');
    const next = await ask(a, { maxIterations: 1 });
    const events = await finished(a, next.id);
    expect(ofType(events, 'tool.completed')).toHaveLength(1);
    expect(tools[0].executions).toHaveLength(1);
  });
});
