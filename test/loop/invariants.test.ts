/** What is shown is what is stored, in order and never sooner (E1); effects follow their record. */
import { DatabaseSync } from 'node:sqlite';
import { ProviderFailure, Supervisor } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import type { StoredEvent } from '@relay/protocol';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ask, type Kernel, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  decide,
  endOf,
  finished,
  ofType,
  openFixture,
  stopRun,
  untilStored,
} from './fixture.ts';
import { type OpenedStore } from './stores.ts';

/** Where a journal ends at this very moment, for everyone who reads the store. */
function createEndReader(opened: OpenedStore): (runId: string) => number | undefined {
  if (opened.path === undefined) return () => undefined;
  const db = new DatabaseSync(opened.path, { readOnly: true });
  onTestFinished(() => db.close());
  const select = db.prepare('SELECT max(last_seq) AS last FROM events WHERE run_id = ?');
  return (runId) => Number(select.get(runId)?.['last'] ?? 0);
}

interface Shown {
  readonly runId: string;
  readonly events: readonly StoredEvent[];
  /** What the store returned when it was asked at the moment of showing. */
  readonly stored: Promise<StoredEvent[]>;
  readonly endThen: number | undefined;
}

/** The kernel with a publisher that asks the store about whatever it is told. */
async function watched(opened: OpenedStore, kernel: Kernel) {
  await kernel.stop();
  const shown: Shown[] = [];
  const endOfJournal = createEndReader(opened);
  const { store, tenantId } = kernel;
  const publish = (runId: string, events: readonly StoredEvent[]) => {
    const after = (events[0]?.seq ?? 1) - 1;
    // Both stores read at the moment of the call; only the answer comes later.
    const stored = store.tenant(tenantId).readEvents(runId, { after, limit: events.length });
    shown.push({ runId, events: [...events], stored, endThen: endOfJournal(runId) });
  };
  const engine = { ...kernel.control.engine, publisher: { publish } };
  const supervisor = new Supervisor(engine);
  supervisor.start();
  onTestFinished(() => supervisor.stop());
  return { kernel: { ...kernel, control: { engine, supervisor } }, shown };
}

async function everything() {
  const opened = await openFixture();
  const tools = [
    createRecordingTool({ name: 'pay' }),
    createRecordingTool({
      name: 'look',
      allowedByDefault: true,
      execute(_input, { progress }) {
        progress('looking');
        return { context: 'seen' };
      },
    }),
  ];
  let failures = 1;
  const flaky = createStreamingModel(({ messages }) => {
    const answers = messages.filter(({ role }) => role === 'assistant').length;
    if (answers === 1 && failures > 0) {
      failures -= 1;
      throw new ProviderFailure('Busy', { retryable: true });
    }
    const calls = [
      [toolCall('a', 'look', {}), toolCall('b', 'pay', {}), toolCall('c', 'pay', {})],
      [toolCall('d', 'no-such-tool', {}), toolCall('e', 'look', '{')],
      [],
    ];
    const words = Array.from({ length: 20 }, (_, n) => [text(`${n} `)]);
    return [...words, [...(calls[answers] ?? []), finish()]];
  });
  const booted = await opened.boot({ model: flaky, tools });
  return watched(opened, booted);
}

describe('on $name', () => {
  test('what is shown equals what is stored, in order, and is never shown before', async () => {
    const { kernel, shown } = await everything();
    const runs = await Promise.all(Array.from({ length: 8 }, () => ask(kernel)));
    for (const [n, { id }] of runs.entries()) {
      const raised = await untilStored(kernel, id, { type: 'approval.requested', count: 2 });
      if (n % 4 === 3) {
        await stopRun(kernel, id);
        continue;
      }
      await decide(kernel, raised[0]?.approvalId);
      await decide(kernel, raised[1]?.approvalId, { approved: false });
    }
    for (const { id } of runs) {
      const events = await finished(kernel, id);
      await until(async () => shown.some((each) => isEndOf(each, id)), 'the end to be shown');
      const mine = shown.filter(({ runId }) => runId === id);
      expect(mine.flatMap((each) => each.events)).toEqual(events);
      for (const each of mine) {
        expect(await each.stored).toEqual(each.events);
        const last = each.events.at(-1)?.seq ?? 0;
        if (each.endThen !== undefined) expect(each.endThen).toBeGreaterThanOrEqual(last);
      }
    }
    const ends = await Promise.all(runs.map(async ({ id }) => endOf(await finished(kernel, id))));
    expect(ends.filter(({ status }) => status === 'canceled')).toHaveLength(2);
    expect(ends.filter(({ status }) => status === 'completed')).toHaveLength(6);
  });

  test('a tool begins after its intent and its approval are stored (E2, E7)', async () => {
    const { boot, store } = await openFixture();
    const seen: Promise<StoredEvent[]>[] = [];
    const readNow = (tenantId: string, runId: string) =>
      store.tenant(tenantId).readEvents(runId, { after: 0, limit: 1000 });
    const tool = createRecordingTool({
      name: 'pay',
      execute(_input, { tenantId, runId }) {
        seen.push(readNow(tenantId, runId));
        return { context: 'paid' };
      },
    });
    const model = createScriptedModel([
      [toolCall('a', 'pay', { n: 1 }), toolCall('b', 'pay', { n: 2 }), finish()],
      [text('Done.'), finish()],
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const permissions = { allowOnce: [{ tool: 'pay', params: { n: '1' } }] };
    const run = await ask(kernel, { permissions });
    const [approval] = await untilStored(kernel, run.id, { type: 'approval.requested' });
    await decide(kernel, approval?.approvalId);
    const events = await finished(kernel, run.id);
    const [first, second] = await Promise.all(seen);
    expect(ofType(first ?? [], 'tool.started')).toMatchObject([
      { toolCallId: 'a', rule: { list: 'allowOnce' } },
    ]);
    expect(ofType(second ?? [], 'approval.decided')).toMatchObject([{ approved: true }]);
    expect(ofType(second ?? [], 'tool.started').at(-1)).toMatchObject({ toolCallId: 'b' });
    expect(ofType(second ?? [], 'tool.completed').map(({ toolCallId }) => toolCallId)).toEqual([
      'a',
    ]);
    expect(ofType(events, 'tool.completed')).toHaveLength(2);
  });

  test('the rows beside the journal say what it says', async () => {
    const { kernel } = await everything();
    const run = await ask(kernel);
    const raised = await untilStored(kernel, run.id, { type: 'approval.requested', count: 2 });
    await decide(kernel, raised[0]?.approvalId);
    await decide(kernel, raised[1]?.approvalId, { approved: false });
    const events = await finished(kernel, run.id);
    const end = endOf(events);
    const record = await kernel.store.tenant(kernel.tenantId).readRun(run.id);
    expect(record).toMatchObject({
      status: end.status,
      usage: end.usage,
      lastSeq: end.seq,
      endedAt: Date.parse(end.at),
      startedAt: Date.parse(ofType(events, 'run.started')[0]?.at ?? ''),
      error: null,
      snapshot: null,
      wakeAt: null,
    });
    // The output is the text of the last turn, which the journal has.
    expect(record?.answerSeq).toBe(ofType(events, 'turn.started').at(-1)?.seq);
    expect(JSON.parse(record?.outputJson ?? '')).toMatchObject({
      output: null,
      approvals: [{ action: 'approve' }, { action: 'reject' }],
    });
    expect(JSON.parse(record?.checkpoint ?? '')).toMatchObject({
      version: 1,
      checkpoint: { kind: 'final_result', runId: run.id },
    });
  });
});

function isEndOf({ runId, events }: Shown, id: string): boolean {
  return runId === id && events.some(({ type }) => type === 'run.ended');
}
