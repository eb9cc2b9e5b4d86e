/**
 * A store that fails for a while: nothing that was acknowledged is lost, and the runs go on by
 * themselves when it works again, without a restart.
 */
import { StatementRefused, type SystemStore } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { isEnded, RelayError, textOf } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { ask, type Kernel, openApprovals, until, untilStatus } from '../support/kernel.ts';
import {
  appendWith,
  createStreamingModel,
  decide,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
  publishedToTheEnd,
  stopRun,
  untilAsked,
} from './fixture.ts';
import { type StoreCall, wrapStore } from './stores.ts';

const answer = [text('Done.'), finish()];
const full = () => new RelayError('storage_full', 'The disk is full');
const writing = new Set<StoreCall['method']>([
  'append',
  'createRun',
  'decideApproval',
  'postRunCommand',
  'claimRun',
  'releaseRun',
  'renewLeases',
]);

/** A store that refuses what `refuses` names, while it does. */
function failing(inner: SystemStore, refuses: (call: StoreCall) => boolean): SystemStore {
  return wrapStore(inner, async (call) => {
    if (refuses(call)) throw full();
    return call.go();
  });
}

/** Lets time pass until the run is over; questions about outcomes are answered meanwhile. */
async function endAfterwards(kernel: Kernel, clock: ManualClock, runId: string) {
  await until(async () => {
    await clock.advance(1_000);
    const run = await kernel.store.tenant(kernel.tenantId).readRun(runId);
    if (run !== undefined && isEnded(run.status)) return true;
    for (const { approvalId, kind } of openApprovals(await journal(kernel, runId))) {
      const known = { outcome: 'completed', output: 'it ran' } as const;
      await decide(kernel, approvalId, kind === 'outcome' ? known : {});
    }
    return undefined;
  }, 'the end');
  return finished(kernel, runId);
}

describe('a disk that is full for a while', () => {
  test.each(['appends', 'writes'] as const)(
    'stops %s, and later all runs continue',
    async (what) => {
      const fixture = await openFixture();
      let isFull = false;
      const store = failing(
        fixture.store,
        ({ method }) => isFull && (what === 'appends' ? method === 'append' : writing.has(method)),
      );
      const clock = new ManualClock();
      const tool = createRecordingTool({ name: 'pay' });
      const slow = createRecordingTool({ name: 'slow', allowedByDefault: true });
      const gate = Promise.withResolvers<void>();
      const model = createScriptedModel([
        async ({ messages }) => {
          const name = textOf(messages[0]?.content ?? '');
          if (name === 'talk') await gate.promise;
          return name === 'talk' ? answer : [toolCall('call_1', name, {}), finish()];
        },
        answer,
      ]);
      const kernel = await fixture.boot({ store, model, tools: [tool, slow], clock });
      const begin = (content: string) => ask(kernel, { messages: [{ role: 'user', content }] });
      slow.hold();
      const talking = await begin('talk');
      const waiting = await begin('pay');
      const working = await begin('slow');
      const [approval] = await untilAsked(kernel, waiting.id);
      await until(async () => slow.executions.length === 1, 'the slow tool');

      isFull = true;
      gate.resolve();
      slow.release();
      if (what === 'writes') {
        await expect(begin('talk')).rejects.toMatchObject({ code: 'storage_full' });
        await expect(decide(kernel, approval?.approvalId)).rejects.toMatchObject({
          code: 'storage_full',
        });
        await expect(stopRun(kernel, talking.id)).rejects.toMatchObject({ code: 'storage_full' });
      } else {
        // The decision itself is stored and acknowledged; only the journal cannot take it yet.
        expect(await decide(kernel, approval?.approvalId)).toMatchObject({ kind: 'decided' });
      }
      await clock.advance(20_000);
      expect(tool.executions).toEqual([]);
      for (const { id } of [talking, waiting, working]) {
        expect(ofType(await journal(kernel, id), 'run.ended')).toEqual([]);
      }

      isFull = false;
      for (const { id } of [talking, waiting, working]) {
        const events = await endAfterwards(kernel, clock, id);
        expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
      }
      expect(tool.executions).toHaveLength(1);
      expect(slow.executions).toHaveLength(1);
      await until(async () => kernel.control.supervisor.activeRuns === 0, 'rest');
    },
  );

  test('does not lose what was shown before it', async () => {
    const fixture = await openFixture();
    let isFull = false;
    const store = failing(fixture.store, ({ method }) => isFull && method === 'append');
    const clock = new ManualClock();
    const model = createStreamingModel(
      async function* () {
        for (let n = 0; n < 20; n += 1) {
          yield [text(`${n} `)];
          if (n !== 12) continue;
          await until(async () => ofType(kernel.published, 'text.appended').length > n, 'them all');
          isFull = true;
        }
        yield [finish()];
      },
      () => [[text('Anew.'), finish()]],
    );
    const kernel = await fixture.boot({ store, model, clock });
    const run = await ask(kernel);
    await until(async () => kernel.warnings.length > 0, 'the fault');
    isFull = false;
    const events = await endAfterwards(kernel, clock, run.id);
    expect(await publishedToTheEnd(kernel)).toEqual(events);
    expect(ofType(events, 'text.appended')).toHaveLength(13 + 1);
    expect(ofType(events, 'turn.discarded')).toHaveLength(1);
    expect(endOf(events).output).toBe('Anew.');
  });
});

describe('a single append that fails', () => {
  test.each(['before', 'after'] as const)(
    '%s it was stored, whichever it is, changes nothing in the end',
    async (when) => {
      for (let nth = 1; ; nth += 1) {
        const { store: inner, boot } = await openFixture();
        let count = 0;
        const store = wrapStore(inner, async (call) => {
          if (call.method !== 'append') return call.go();
          count += 1;
          if (count === nth && when === 'before') throw full();
          const value = await call.go();
          if (count === nth) throw full();
          return value;
        });
        const clock = new ManualClock();
        const pay = createRecordingTool({ name: 'pay' });
        const look = createRecordingTool({
          name: 'look',
          allowedByDefault: true,
          idempotent: true,
        });
        const model = createScriptedModel([
          [text('Both. '), toolCall('call_1', 'pay', {}), toolCall('call_2', 'look', {}), finish()],
          answer,
        ]);
        const kernel = await boot({ store, model, tools: [pay, look], clock });
        const run = await ask(kernel);
        const events = await endAfterwards(kernel, clock, run.id);
        expect(endOf(events), `append ${nth}`).toMatchObject({ status: 'completed' });
        expect(endOf(events).output).toBe('Done.');
        expect(pay.executions.length, `append ${nth}`).toBeLessThanOrEqual(1);
        expect(new Set(look.executions.map((each) => each.idempotencyKey)).size).toBe(1);
        await kernel.stop();
        if (count < nth) break;
        expect(nth).toBeLessThan(30);
      }
    },
  );
});

describe('a read that fails once', () => {
  test('does not lose a cancel that was acknowledged while a tool runs', async () => {
    const fixture = await openFixture();
    let failures = 0;
    const store = failing(fixture.store, ({ method }) => {
      if (method !== 'readInbox' || failures === 0) return false;
      failures -= 1;
      return true;
    });
    const tool = createRecordingTool({ name: 'slow', allowedByDefault: true });
    tool.hold();
    const model = createScriptedModel([[toolCall('call_1', 'slow', {}), finish()], answer]);
    const kernel = await fixture.boot({ store, model, tools: [tool] });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    failures = 1;
    expect(await stopRun(kernel, run.id)).toBe(true);
    const events = await finished(kernel, run.id);
    expect(failures).toBe(0);
    expect(endOf(events).status).toBe('canceled');
  });
});

describe('a fault of the store', () => {
  /** As models and tools may pass it on. */
  const wrapped = () => new Error('No answer', { cause: new Error('No key', { cause: full() }) });

  test('is not taken for a failure of the model, even if the model wraps it', async () => {
    const { boot } = await openFixture();
    let faults = 2;
    const model = createStreamingModel(async function* () {
      yield [text('Well. ')];
      faults -= 1;
      if (faults >= 0) throw wrapped();
      yield [finish()];
    });
    const clock = new ManualClock();
    const kernel = await boot({ model, clock });
    const events = await endAfterwards(kernel, clock, (await ask(kernel)).id);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Well. ' });
    expect(ofType(events, 'turn.discarded').map(({ reason }) => reason)).toEqual([
      'crash',
      'crash',
    ]);
  });

  test('does not fail an idempotent tool: it runs again with the same key', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({
      name: 'look',
      allowedByDefault: true,
      idempotent: true,
      execute: async () => {
        if (tool.executions.length < 3) throw wrapped();
        return { result: 'seen' };
      },
    });
    const model = createScriptedModel([[toolCall('call_1', 'look', {}), finish()], answer]);
    const clock = new ManualClock();
    const kernel = await boot({ model, tools: [tool], clock });
    const events = await endAfterwards(kernel, clock, (await ask(kernel)).id);
    expect(endOf(events).status).toBe('completed');
    expect(ofType(events, 'tool.failed')).toEqual([]);
    expect(tool.executions).toHaveLength(3);
    expect(new Set(tool.executions.map((each) => each.idempotencyKey)).size).toBe(1);
  });

  test('does not reach a tool that uses the memories of its run: the tool waits', async () => {
    const fixture = await openFixture();
    let faults = 3;
    const store = failing(fixture.store, ({ method }) => {
      if (method !== 'addMemory' || faults === 0) return false;
      faults -= 1;
      return true;
    });
    const tool = createRecordingTool({
      name: 'note',
      allowedByDefault: true,
      execute: async (_input, { memory }) => ({ result: (await memory?.remember('x'))?.text }),
    });
    const model = createScriptedModel([[toolCall('call_1', 'note', {}), finish()], answer]);
    const clock = new ManualClock();
    const kernel = await fixture.boot({ store, model, tools: [tool], clock });
    const run = await ask(kernel, { memory: { namespace: 'notes' } });
    const events = await endAfterwards(kernel, clock, run.id);
    expect(ofType(events, 'tool.completed')).toMatchObject([{ result: 'x' }]);
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(tool.executions).toHaveLength(1);
    expect(faults).toBe(0);
  });

  test('that concerns only reading keeps the result of a tool that is running', async () => {
    const fixture = await openFixture();
    let fails = false;
    const store = failing(fixture.store, ({ method }) => fails && method === 'readInbox');
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    tool.hold();
    const model = createScriptedModel([[toolCall('call_1', 'pay', {}), finish()], answer]);
    const kernel = await fixture.boot({
      store,
      model,
      tools: [tool],
      settings: { stopTimeoutMs: 5_000 },
    });
    const run = await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    fails = true;
    kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    await until(
      async () => kernel.warnings.some((line) => line.includes('abandoned')),
      'the fault',
    );
    fails = false;
    tool.release();
    const events = await finished(kernel, run.id);
    expect(endOf(events).status).toBe('completed');
    expect(ofType(events, 'approval.requested')).toEqual([]);
    expect(tool.executions).toHaveLength(1);
  });

  test('that lasts makes each attempt wait longer than the one before, up to a limit', async () => {
    const fixture = await openFixture();
    const clock = new ManualClock();
    const attempts: number[] = [];
    let fails = true;
    const store = failing(fixture.store, ({ method }) => {
      if (method !== 'readGrants' || !fails) return false;
      attempts.push(clock.now());
      return true;
    });
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const model = createScriptedModel([[toolCall('call_1', 'pay', {}), finish()], answer]);
    const kernel = await fixture.boot({ store, model, tools: [tool], clock });
    const run = await ask(kernel);
    // Notifications of other nodes do not shorten the wait.
    for (let second = 0; second < 120; second += 1) {
      await clock.advance(1_000);
      kernel.control.supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    }
    const waits = attempts.slice(1).map((at, index) => at - (attempts[index] ?? 0));
    expect(attempts.length).toBeGreaterThan(6);
    expect(attempts.length).toBeLessThan(30);
    expect(waits[0]).toBeLessThanOrEqual(1_000);
    expect(Math.max(...waits)).toBeLessThanOrEqual(17_000);
    expect(Math.max(...waits.slice(-3))).toBeGreaterThan(5_000);
    fails = false;
    const events = await endAfterwards(kernel, clock, run.id);
    expect(endOf(events).status).toBe('completed');
    expect(tool.executions).toHaveLength(1);
  });

  test('that repetition cannot cure ends the run with a clear error', async () => {
    const fixture = await openFixture();
    const store = wrapStore(fixture.store, async (call) => {
      if (appendWith(call, 'turn.completed') === undefined) return call.go();
      const cause = new StatementRefused('SQLite: string or blob too big (18)');
      throw new RelayError('storage_failed', 'The database operation failed', { cause });
    });
    const model = createScriptedModel([answer]);
    const kernel = await fixture.boot({ store, model });
    const { error } = await untilStatus(kernel, (await ask(kernel)).id, 'failed');
    expect(error).toMatchObject({ code: 'storage_failed' });
  });
});

describe('a fault that ends a run', () => {
  test('ends it at once, although one of its commits is still on its way', async () => {
    const fixture = await openFixture();
    const headRead = Promise.withResolvers<void>();
    const store = wrapStore(fixture.store, async (call) => {
      if (call.method === 'readGrants') throw new RelayError('journal_corrupt', 'A bad grant');
      // The text arrives late: when the end of the journal was looked up, or else a little later.
      if (appendWith(call, 'text.appended') !== undefined) {
        const later = new Promise((resolve) => setTimeout(resolve, 50));
        await Promise.race([headRead.promise, later]);
      }
      const value = await call.go();
      if (call.method === 'readRunHead') {
        headRead.resolve();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      return value;
    });
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const calling = [text('Now. '), toolCall('call_1', 'pay', {}), finish()];
    const model = createScriptedModel([calling, answer]);
    const kernel = await fixture.boot({ store, model, tools: [tool], clock: new ManualClock() });
    const run = await ask(kernel);
    const { error } = await untilStatus(kernel, run.id, 'failed');
    expect(error).toMatchObject({ code: 'journal_corrupt', message: 'A bad grant' });
    const events = await journal(kernel, run.id);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(await publishedToTheEnd(kernel)).toEqual(events);
    expect(endOf(events).status).toBe('failed');
    expect(tool.executions).toEqual([]);
  });

  test('leaves no call without its end, for the journal itself is sound (E6)', async () => {
    const fixture = await openFixture();
    const store = wrapStore(fixture.store, async (call) => {
      if (call.method === 'readGrants') throw new RelayError('journal_corrupt', 'A bad grant');
      return call.go();
    });
    const tool = createRecordingTool({ name: 'pay' });
    const model = createScriptedModel([[toolCall('call_1', 'pay', {}), finish()], answer]);
    const kernel = await fixture.boot({ store, model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(endOf(events)).toMatchObject({ status: 'failed', error: { code: 'journal_corrupt' } });
    expect(ofType(events, 'agent.ended')).toMatchObject([{ reason: 'failed' }]);
    expect(tool.executions).toEqual([]);
  });
});
