/** Bytes that changed on the disk: the run fails clearly, and nothing starts from damaged state. */
import { DatabaseSync } from 'node:sqlite';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { isEnded } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { unpackJson } from '../../packages/store/src/codec/compression.ts';
import { ask, type Kernel, until } from '../support/kernel.ts';
import {
  decide,
  endOf,
  finished,
  journal,
  ofType,
  openFixture,
  stopRun,
  untilAsked,
} from './fixture.ts';
import { mortal, sqlite } from './stores.ts';

const answer = [text('Done.'), finish()];

/** As another program would, past all our checks. */
function tamper(path: string | undefined, sql: string): number {
  const db = new DatabaseSync(path ?? '');
  db.function('inflated', (deflated, size) =>
    deflated === null ? null : unpackJson(deflated as Uint8Array, Number(size)),
  );
  try {
    return Number(db.prepare(sql).run().changes);
  } finally {
    db.close();
  }
}

/** A run in its second turn that asks whether it may pay, and the row that each event lies in. */
async function askedToPay() {
  const fixture = await openFixture(sqlite);
  const tools = [
    createRecordingTool({ name: 'look', allowedByDefault: true }),
    createRecordingTool({ name: 'pay' }),
  ];
  const model = createScriptedModel([
    [text('A look first. '), toolCall('call_1', 'look', { at: 'first' }), finish()],
    [text('May I? '), toolCall('call_2', 'pay', { amount: 700 }), finish()],
    answer,
  ]);
  const kernel = await fixture.boot({ model, tools });
  const run = await ask(kernel);
  const [approval] = await untilAsked(kernel, run.id);
  const harm = (sql: string) => expect(tamper(fixture.path, sql)).toBeGreaterThan(0);
  return {
    ...fixture,
    kernel,
    model,
    run,
    tools,
    pay: tools[1],
    approvalId: approval?.approvalId,
    harm,
  };
}

/** How the run ended, without reading the journal that is damaged. */
async function endedAs(kernel: Kernel, runId: string) {
  const store = kernel.store.tenant(kernel.tenantId);
  const head = await until(async () => {
    const found = await store.readRunHead(runId);
    return found !== undefined && isEnded(found.status) && found;
  }, 'the end');
  const last = await store.readEvents(runId, { after: head.lastSeq - 2, limit: 2 });
  return { status: head.status, last, record: await store.readRun(runId) };
}

/** The events in a row of the journal. */
const events = 'COALESCE(json, inflated(deflated, size))';

/** Changes one text in the rows that hold such an event. */
const changeIn = (type: string, from: string, to: string) =>
  `UPDATE events SET json = replace(${events}, '${from}', '${to}'), deflated = NULL
   WHERE ${events} LIKE '%"${type}"%'`;
const error = { code: 'journal_corrupt', retryable: false };
const corruptEnd = {
  status: 'failed',
  last: [
    { type: 'run.errored', error },
    { type: 'run.ended', status: 'failed', error },
  ],
  record: { error },
};

describe('a damaged row of the journal', () => {
  test.each([
    ['the call that waits', changeIn('approval.requested', '700', '900')],
    ['the beginning', changeIn('run.created', 'Begin', 'Begun')],
  ])('fails the run when its approval is approved, and no tool runs: %s', async (_what, sql) => {
    const { kernel, run, pay, approvalId, harm } = await askedToPay();
    harm(sql);
    await decide(kernel, approvalId);
    expect(await endedAs(kernel, run.id)).toMatchObject(corruptEnd);
    expect(pay?.executions).toEqual([]);
  });

  test('of what the snapshot and the cache stand for still keeps the run from completing', async () => {
    const { kernel, run, approvalId, harm } = await askedToPay();
    harm(changeIn('tool.called', 'first', 'frist'));
    await decide(kernel, approvalId);
    expect(await endedAs(kernel, run.id)).toMatchObject(corruptEnd);
  });

  test('that is missing fails the run too', async () => {
    const { kernel, run, pay, approvalId, harm } = await askedToPay();
    harm(`DELETE FROM events WHERE ${events} LIKE '%700%'`);
    await decide(kernel, approvalId);
    const { status, record } = await endedAs(kernel, run.id);
    expect({ status, record }).toMatchObject({ status: 'failed', record: { error } });
    expect(pay?.executions).toEqual([]);
  });

  test('of an earlier turn fails the run before a tool starts or the model is asked with it', async () => {
    const { boot, kernel, model, run, tools, pay, approvalId, harm } = await askedToPay();
    await kernel.stop();
    harm(changeIn('text.appended', 'A look first', 'A book first'));
    const later = await boot({ model, tools, restarted: true });
    await decide(later, approvalId);
    expect(await endedAs(later, run.id)).toMatchObject(corruptEnd);
    expect(model.requests).toHaveLength(2);
    expect(pay?.executions).toEqual([]);
  });

  test('fails the run after a crash, and its tool does not run again', async () => {
    const { boot, bootWithoutCleanup, store, path } = await openFixture(sqlite);
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true, idempotent: true });
    tool.hold();
    const model = createScriptedModel([
      [text('Now. '), toolCall('call_1', 'pay', { n: 700 }), finish()],
      answer,
    ]);
    const doomed = mortal(store);
    const first = await bootWithoutCleanup({ store: doomed.store, model, tools: [tool] });
    const run = await ask(first);
    await until(async () => tool.executions.length === 1, 'the tool');
    doomed.kill();
    expect(tamper(path, changeIn('tool.started', '700', '900'))).toBe(1);
    const kernel = await boot({ model, tools: [tool], restarted: true });
    expect(await endedAs(kernel, run.id)).toMatchObject(corruptEnd);
    expect(tool.executions).toHaveLength(1);
  });

  test('closes the open approval, which cannot be approved any more', async () => {
    const { kernel, run, pay, approvalId, harm } = await askedToPay();
    harm(changeIn('approval.requested', '700', '900'));
    await stopRun(kernel, run.id);
    await endedAs(kernel, run.id);
    const approval = await kernel.store.tenant(kernel.tenantId).readApproval(approvalId ?? '');
    expect(approval?.status).toBe('closed');
    expect(await decide(kernel, approvalId)).toMatchObject({ kind: 'conflict' });
    expect(pay?.executions).toEqual([]);
  });

  test('does not harm other runs', async () => {
    const { kernel, run, pay, approvalId, harm } = await askedToPay();
    const other = await ask(kernel);
    const [approval] = await untilAsked(kernel, other.id);
    harm(`${changeIn('approval.requested', '700', '900')} AND run_id = '${run.id}'`);
    await decide(kernel, approvalId);
    await endedAs(kernel, run.id);
    await decide(kernel, approval?.approvalId);
    expect(endOf(await finished(kernel, other.id)).status).toBe('completed');
    expect(pay?.executions.map(({ input }) => input)).toEqual([{ amount: 700 }]);
  });
});

describe('a damaged row beside the journal', () => {
  const damages = [
    ['the checkpoint', `UPDATE runs SET serialized_state = replace(serialized_state, '1', '2')`],
    ['the snapshot', `UPDATE snapshots SET body = replace(body, '"turn":2', '"turn":3')`],
  ] as const;

  test.each(damages)('fails the run when it is woken, and no tool runs: %s', async (_what, sql) => {
    const { kernel, run, pay, harm } = await askedToPay();
    const { supervisor } = kernel.control;
    await until(async () => supervisor.activeRuns === 0, 'the run to be suspended');
    harm(sql);
    supervisor.wake({ tenantId: kernel.tenantId, runId: run.id });
    expect(await endedAs(kernel, run.id)).toMatchObject(corruptEnd);
    expect(pay?.executions).toEqual([]);
    const started = ofType(await journal(kernel, run.id), 'tool.started');
    expect(started.map(({ name }) => name)).toEqual(['look']);
  });

  test.each(damages)('fails the run when its approval is answered: %s', async (_what, sql) => {
    const { kernel, run, pay, approvalId, harm } = await askedToPay();
    harm(sql);
    // Whoever answers may be told at once; either way the run must not go on waiting.
    await decide(kernel, approvalId).catch(() => undefined);
    expect(await endedAs(kernel, run.id)).toMatchObject(corruptEnd);
    expect(pay?.executions).toEqual([]);
  });

  test.each([
    ['arguments', `UPDATE approvals SET params = replace(params, '700', '1')`],
    ['tool', `UPDATE approvals SET tool = '"look"'`],
    ['digest', `UPDATE approvals SET digest = 'x' || digest`],
  ])('an approval with other %s cannot be approved', async (_what, sql) => {
    const { kernel, pay, approvalId, harm } = await askedToPay();
    harm(sql);
    await expect(decide(kernel, approvalId)).rejects.toMatchObject({ code: 'journal_corrupt' });
    expect(pay?.executions).toEqual([]);
  });

  test.each([
    ['damaged', `UPDATE grants SET exact = replace(exact, '}', '')`],
    ['changed to another call', `UPDATE grants SET exact = replace(exact, '700', '701')`],
    ['widened', `UPDATE grants SET exact = NULL`],
  ])('a grant that was %s allows nothing: the call is asked about', async (_what, sql) => {
    const { kernel, run, pay, approvalId, harm } = await askedToPay();
    await decide(kernel, approvalId, { always: true });
    await finished(kernel, run.id);
    harm(sql);
    const next = await ask(kernel, { conversationId: run.conversationId });
    expect(await untilAsked(kernel, next.id)).toMatchObject([{ tool: 'pay' }]);
    expect(pay?.executions).toHaveLength(1);
  });
});
