/**
 * The reply to a COMMIT is lost: it is unknown whether it is stored. Each commit of a scenario
 * loses its answer once; the run must end as if nothing had happened, and no tool run twice.
 */
import { recordDecision } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { isEnded } from '@relay/protocol';
import { openPostgresStore } from '@relay/store';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { expectSoundJournal } from '../support/invariants.ts';
import { ask, bootKernel, journalOf, openApprovals, person, until } from '../support/kernel.ts';
import { createDatabase, type TestDatabase } from '../support/postgres.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { transcriptOf } from '../support/transcript.ts';

let database: TestDatabase;
beforeEach(async () => {
  database = await createDatabase();
});
afterEach(() => database.drop());

/** A run with an approval, in which the n-th commit loses its answer; 0: none does. */
async function play(n: number) {
  const proxy = new TcpProxy(database.url);
  const store = await openPostgresStore({ url: await proxy.open() });
  const pay = createRecordingTool({ name: 'pay' });
  const model = createScriptedModel([
    [text('A payment. '), toolCall('call_1', 'pay', { amount: 1 }), finish()],
    [text('Done.'), finish()],
  ]);
  const settings = { leaseTtlMs: 300 };
  const kernel = await bootKernel({ store, model, tools: [pay], settings });
  let commits = 0;
  proxy.fate = (piece) => {
    if (!piece.includes('COMMIT')) return 'pass';
    commits += 1;
    return commits === n ? 'deliver-then-drop' : 'pass';
  };
  const idempotency = { key: `lost ${n}`, fingerprint: 'f' };
  const start = () => ask(kernel, { idempotency }).catch(() => undefined);
  // A client without a response retries with the same key.
  const { id: runId } = (await start()) ?? (await until(async () => start()));
  const ref = { tenantId: kernel.tenantId, runId };
  const ended = await until(async () => {
    const row = await store.tenant(ref.tenantId).readRun(runId);
    const events = await journalOf(store, ref);
    if (row !== undefined && isEnded(row.status)) return { row, events };
    for (const { approvalId, kind } of openApprovals(events)) {
      const known =
        pay.executions.length > 0
          ? ({ outcome: 'completed', output: { ran: 'pay' } } as const)
          : ({ outcome: 'rerun' } as const);
      const answer = {
        approvalId,
        ...(kind === 'outcome' ? known : { approved: true }),
        always: false,
        reason: null,
        by: person,
      };
      await recordDecision(kernel.control, ref.tenantId, answer).catch(() => undefined);
    }
    return undefined;
  }, `the end of the run whose commit ${n} was lost`);
  proxy.fate = () => 'pass';
  await kernel.stop();
  await store.close();
  await proxy.close();
  expectSoundJournal(ended.events, ended.row);
  return { ...ended, executions: pay.executions.length, commits };
}

test('at any commit, nothing happens twice and nothing is lost', async () => {
  const calm = await play(0);
  expect(calm.executions).toBe(1);
  let lost = 0;
  for (let n = 1; n <= 12; n += 1) {
    const disturbed = await play(n);
    expect(disturbed.executions).toBe(1);
    expect(transcriptOf(disturbed.events)).toEqual(transcriptOf(calm.events));
    expect(disturbed.row.status).toBe('completed');
    if (disturbed.commits >= n) lost += 1;
  }
  expect(lost).toBeGreaterThanOrEqual(6);
}, 120_000);
