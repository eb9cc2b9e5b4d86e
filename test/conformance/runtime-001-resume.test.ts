/** 001: POST /api/chat/resume, and the persisted state that it reads. */
import { randomUUID } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { type Model, resumeSerializedAgentRun } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { FrameReader } from '../support/frames.ts';
import { ask, bootKernel, untilStatus } from '../support/kernel.ts';
import {
  askFor,
  decide,
  note,
  post,
  resume,
  RunRow,
  say,
  statusOf,
  typesOf,
} from './runtime-client.ts';
import { after, calls, says, type Scripted, startScriptedProcess } from './scripted.ts';
import { openTestStore, StoreServer } from './store-server.ts';
import { verifies } from './verifies.ts';

const server = new StoreServer();
let scripted: Scripted<StoreServer>;
beforeAll(async () => {
  await server.start();
  scripted = await startScriptedProcess();
});
afterAll(async () => {
  await server.dispose();
  await scripted.dispose();
});

interface Envelope {
  readonly version: number;
  readonly serializedRunState: string;
  readonly checkpoint: { readonly kind: string; readonly at: string };
}

async function envelopeOf(of: StoreServer, runId: string): Promise<Envelope> {
  return JSON.parse((await new RunRow(of, runId).read()).state ?? 'null') as Envelope;
}

async function kindOf(of: StoreServer, runId: string): Promise<string> {
  return (await envelopeOf(of, runId)).checkpoint.kind;
}

/** The whole run in the words of /api/chat, with the place of each event. */
async function framesOf(runId: string) {
  const path = `/v1/runs/${runId}/stream?dialect=runtime&follow=false`;
  return new FrameReader(await server.request(path)).rest();
}

/** As the store sums up what it writes. */
async function rewrite(runId: string, envelope: object): Promise<void> {
  const state = JSON.stringify(envelope);
  await new RunRow(server, runId).change(
    'serialized_state = ?, state_checksum = ?',
    state,
    crc32(`${runId}\n${state}`),
  );
}

describe('POST /api/chat/resume', () => {
  test('resumes a run that kill -9 interrupted, and streams the rest', async () => {
    verifies(
      '001:resume:endpoint',
      '001:resume:body',
      '001:resume:response',
      '001:resume-flow:client-call',
      '001:resume-flow:response-status',
      '001:resume-flow:response-events',
    );
    const { runId, reader } = await say(server, 'slow 1500');
    await reader.until('text_delta');
    await server.kill();
    await reader.rest().catch(() => undefined);
    const { serializedRunState } = await envelopeOf(server, runId);
    const { seq } = JSON.parse(serializedRunState) as { seq: number };
    await server.start();
    const { status, body, events } = await resume(server, runId);
    expect(status).toBe(200);
    expect(Object.keys(body).toSorted()).toEqual(['events', 'ok', 'runId', 'status']);
    expect(body).toMatchObject({ ok: true, runId, status: 'succeeded' });
    // The answer that was cut short is void, and a whole one follows.
    expect(typesOf(events)).toContain('text_reset');
    expect(events.at(-1)).toMatchObject({ type: 'done', runId, status: 'succeeded' });
    const since = (await framesOf(runId)).filter(({ id }) => (id ?? 0) > seq);
    expect(events).toEqual(since.map(({ data }) => data));
  });

  test('says at once that a run waits and for which calls, also after a restart', async () => {
    verifies('001:resume-flow:response-status', '001:resume-flow:response-events');
    const message = [note('still waiting'), note('also waiting')].join('\n');
    const { runId, reader } = await askFor(server, message);
    const asked = reader.seen
      .map(({ data }) => data)
      .filter(({ type }) => type === 'tool_approval_requested');
    expect(asked.map(({ toolCallId }) => toolCallId)).toEqual(['call_1', 'call_2']);
    await server.kill();
    await reader.close().catch(() => undefined);
    await server.start();
    const waitingFor = async () => {
      const { body, events } = await resume(server, runId);
      expect(body).toMatchObject({ ok: true, runId, status: 'waiting' });
      expect(typesOf(events)).not.toContain('done');
      return events.filter(({ type }) => type === 'tool_approval_requested');
    };
    expect(await waitingFor()).toEqual(asked);
    // Repeated, it says the same; after a decision it says what is left.
    expect(await waitingFor()).toEqual(asked);
    await decide(server, { runId, toolCallId: 'call_1', action: 'reject' });
    expect(await waitingFor()).toEqual(asked.slice(1));
    const { events } = await decide(server, { runId, toolCallId: 'call_2', action: 'reject' });
    expect(events.at(-1)).toMatchObject({ type: 'done' });
    expect((await resume(server, runId)).body).toEqual({
      ok: true,
      runId,
      status: 'succeeded',
      events: [],
    });
  });

  test('is 400 without runId', async () => {
    verifies('001:resume:body-required');
    for (const body of [{}, { runId: null }, { runId: '' }, [], { run: randomUUID() }]) {
      const response = await post(server, '/api/chat/resume', { body });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: 'runId is required',
        details: [{ path: 'runId', message: 'Required' }],
      });
    }
  });

  test('is 404 for a run that does not exist', async () => {
    verifies('001:resume-flow:loads-by-run-and-org');
    const { status, body } = await resume(server, randomUUID());
    expect(status).toBe(404);
    expect(body).toMatchObject({ error: expect.any(String) });
  });

  test('drives runs by resumeSerializedAgentRun, a function for programs too', async () => {
    verifies('001:resume-flow:function');
    const store = await openTestStore({ onTestFinished });
    const pay = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const hangs = Promise.withResolvers<never>();
    const paying = [toolCall('call_1', 'pay', { amount: 7 }), finish()];
    const first = createScriptedModel([paying]);
    const cut: Model = {
      async *stream(request, signal) {
        if (first.requests.length > 0) await Promise.race([hangs.promise, aborted(signal)]);
        yield* first.stream(request, signal);
      },
    };
    const second = createScriptedModel([paying, [text('Resumed.'), finish()]]);
    // Its clock stands still, so that it finds no run by looking around.
    const kernel = await bootKernel({
      store,
      model: second,
      tools: [pay],
      clock: new ManualClock(),
    });
    onTestFinished(() => kernel.stop());
    const gone = await bootKernel({ store, model: cut, tools: [pay] });
    const run = await ask(gone, { tools: ['pay'] });
    const ref = { tenantId: run.tenantId, runId: run.id };
    const stored = async () => (await store.tenant(run.tenantId).readRun(run.id))?.checkpoint;
    const checkpoint = async () => JSON.parse((await stored()) ?? '{}') as Partial<Envelope>;
    await expect.poll(async () => (await checkpoint()).checkpoint?.kind).toBe('tool_completion');
    await gone.stop();
    const { serializedRunState = '{}' } = await checkpoint();
    const resumed = await resumeSerializedAgentRun(kernel.control, ref);
    const { seq } = JSON.parse(serializedRunState) as { seq: number };
    expect(resumed).toMatchObject({ run: { id: run.id }, after: seq });
    await untilStatus(kernel, run.id, 'completed');
    // It went on from the stored state: the tool is not run again, and the model reads its result.
    expect(pay.executions).toHaveLength(1);
    expect(second.requests).toHaveLength(1);
    expect(JSON.stringify(second.requests[0]?.messages)).toContain('call_1');
    const elsewhere = { ...ref, tenantId: randomUUID() };
    expect(await resumeSerializedAgentRun(kernel.control, elsewhere)).toBeUndefined();
  });

  test('writes a checkpoint of kind resume_request, unless the run has ended', async () => {
    verifies('001:checkpoint:kind-resume-request', '001:resume-flow:function');
    const { runId, reader } = await askFor(server, note('resumed on request'));
    const before = await envelopeOf(server, runId);
    expect(before.checkpoint.kind).toBe('approval_pending');
    expect((await resume(server, runId)).body).toMatchObject({ ok: true, status: 'waiting' });
    const after = await envelopeOf(server, runId);
    expect(after).toEqual({
      version: 1,
      serializedRunState: before.serializedRunState,
      checkpoint: {
        kind: 'resume_request',
        at: expect.any(String),
        runId,
        correlationId: expect.any(String),
      },
    });
    expect(Date.parse(after.checkpoint.at)).toBeGreaterThanOrEqual(
      Date.parse(before.checkpoint.at),
    );
    // The call that waited is decided as if nobody had asked.
    await decide(server, { runId, toolCallId: 'call_1', action: 'approve' });
    expect((await reader.rest()).at(-1)?.data).toMatchObject({ type: 'done' });
    expect(await kindOf(server, runId)).toBe('final_result');
    await resume(server, runId);
    expect(await kindOf(server, runId)).toBe('final_result');
  });

  test('writes it for a run that is still running, too', async () => {
    verifies('001:checkpoint:kind-resume-request');
    const gate = Promise.withResolvers<void>();
    const call = { id: 'call_1', name: 'calculator', input: { a: 1, b: 2, op: '+' } };
    scripted.play(calls(call), after(gate.promise, says('Three.')));
    const { runId, reader } = await say(scripted.server, 'Begin', {
      body: { model: 'gpt-4o-mini' },
    });
    await expect.poll(() => kindOf(scripted.server, runId)).toBe('tool_completion');
    const resuming = resume(scripted.server, runId);
    await expect.poll(() => kindOf(scripted.server, runId)).toBe('resume_request');
    gate.resolve();
    const { body, events } = await resuming;
    expect(body).toMatchObject({ ok: true, runId, status: 'succeeded' });
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    await reader.rest();
  });
});

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('aborted')));
  });
}

describe('the checkpoint', () => {
  test('is read from runs.serialized_state first, and without it from output_json', async () => {
    verifies('001:resume-flow:primary-state', '001:resume-flow:legacy-fallback');
    const { runId, asked, reader } = await askFor(server, note('an older row'));
    const row = new RunRow(server, runId);
    const whole = (await framesOf(runId)).map(({ data }) => data);
    const primary = await resume(server, runId);
    expect(primary.events.length).toBeLessThan(whole.length);
    const { output } = await row.read();
    const { toolCallId } = asked;
    for (const pending of [output, JSON.stringify({ pendingApproval: { toolCallId } })]) {
      // Without its checkpoint the run is resumed from the pending approval, from its beginning.
      await row.change('serialized_state = NULL, output_json = ?', pending);
      const fallback = await resume(server, runId);
      expect(fallback.body).toMatchObject({ ok: true, runId, status: 'waiting' });
      expect(fallback.events).toEqual(whole);
      // That was the only source: without it there is none.
      await row.change('serialized_state = NULL, output_json = NULL');
      expect(await resume(server, runId)).toMatchObject({
        status: 409,
        body: { code: 'checkpoint_missing' },
      });
    }
    // Such a run is decided and goes on like any other, also after a restart.
    const older = JSON.stringify({ pendingApproval: { toolCallId } });
    await row.change('serialized_state = NULL, output_json = ?', older);
    await server.kill();
    await reader.close().catch(() => undefined);
    await server.start();
    const { events } = await decide(server, { runId, toolCallId, action: 'approve' });
    expect(events.at(-1)).toMatchObject({ type: 'done', status: 'succeeded' });
    expect(server.notes.filter((each) => each.text === 'an older row')).toHaveLength(1);
    expect(await kindOf(server, runId)).toBe('final_result');
  });

  test('is what a resume begins from: another position, other events', async () => {
    verifies('001:resume-flow:primary-state');
    const { runId, reader } = await say(server, 'calculate 6*7');
    await reader.rest();
    const whole = await framesOf(runId);
    const envelope = await envelopeOf(server, runId);
    const state = JSON.parse(envelope.serializedRunState) as object;
    for (const { id } of whole) {
      const serializedRunState = JSON.stringify({ ...state, seq: id });
      await rewrite(runId, { ...envelope, serializedRunState });
      const { body, events } = await resume(server, runId);
      expect(body).toMatchObject({ ok: true, status: 'succeeded' });
      expect(events).toEqual(
        whole.filter((frame) => (frame.id ?? 0) > (id ?? 0)).map(({ data }) => data),
      );
    }
  });

  test('that is missing is an explicit error, whatever the run is doing', async () => {
    verifies('001:failure:resume-without-checkpoint');
    const ended = await say(server, 'say 1');
    await ended.reader.rest();
    const waiting = await askFor(server, note('no state'));
    const running = await say(server, 'slow 600000');
    await running.reader.until('text_delta');
    for (const { runId } of [ended, waiting, running]) {
      // Only the column of the document: its checksum is ours.
      const row = new RunRow(server, runId);
      await row.change('serialized_state = NULL');
      if (runId === waiting.runId) await row.change('output_json = NULL');
      const before = await statusOf(server, runId);
      const { status, body } = await resume(server, runId);
      expect(status).toBe(409);
      expect(body).toEqual({
        error: `The run ${runId} has no checkpoint to resume from`,
        code: 'checkpoint_missing',
      });
      expect(await statusOf(server, runId)).toBe(before);
      expect((await row.read()).state).toBeNull();
    }
    for (const { runId, reader } of [waiting, running]) {
      await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
      expect((await reader.rest()).at(-1)?.data).toMatchObject({ type: 'done' });
    }
  });

  test('of another version, or damaged, is a clear error and nothing runs', async () => {
    verifies('001:failure:resume-without-checkpoint');
    const { runId } = await askFor(server, note('of the future'));
    const envelope = await envelopeOf(server, runId);
    await rewrite(runId, { ...envelope, version: 2 });
    expect(await resume(server, runId)).toMatchObject({
      status: 500,
      body: {
        error: 'The checkpoint has version 2; this server reads version 1',
        code: 'journal_corrupt',
      },
    });
    await new RunRow(server, runId).change('serialized_state = ?', JSON.stringify(envelope));
    const damaged = await resume(server, runId);
    expect(damaged).toMatchObject({ status: 500, body: { code: 'journal_corrupt' } });
    expect(damaged.body['error']).toContain('does not match its checksum');
    expect(server.notes.filter((each) => each.text === 'of the future')).toEqual([]);
    expect((await server.request('/health')).status).toBe(200);
  });

  test('of kind resume_request is written when a run starts, and when a decision resumes it', async () => {
    verifies('001:checkpoint:kind-resume-request');
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const call = { id: 'call_1', name: 'send_note', input: { to: 'ann', text: 'resumed' } };
    scripted.play(
      after(gates[0]?.promise ?? Promise.resolve(), calls(call)),
      after(gates[1]?.promise ?? Promise.resolve(), says('Never mind.')),
    );
    const { runId, reader } = await say(scripted.server, 'Begin', {
      body: { model: 'gpt-4o-mini' },
    });
    const kind = () => kindOf(scripted.server, runId);
    await expect.poll(() => scripted.asked().length).toBe(1);
    expect(await kind()).toBe('resume_request');
    gates[0]?.resolve();
    await reader.until('tool_approval_requested');
    await expect.poll(() => statusOf(scripted.server, runId)).toBe('waiting');
    expect(await kind()).toBe('approval_pending');
    const decision = { runId, toolCallId: 'call_1', action: 'reject' };
    const deciding = decide(scripted.server, decision);
    await expect.poll(() => scripted.asked().length).toBe(2);
    // The model is asked while that is still being stored.
    await expect.poll(kind).toBe('resume_request');
    gates[1]?.resolve();
    expect((await deciding).events.at(-1)).toMatchObject({ type: 'done' });
    expect(await kind()).toBe('final_result');
    await reader.rest();
  });

  test('contains the text of the agent so far', async () => {
    verifies('001:checkpoint:partial-output-note');
    const noteIn = async (runId: string) =>
      ((await envelopeOf(server, runId)).checkpoint as { note?: string }).note;
    const talking = await askFor(server, `use nothing {}\n${note('with words')}`);
    expect(await noteIn(talking.runId)).toBe('I have no tool named nothing.');
    const silent = await askFor(server, note('without words'));
    expect(await noteIn(silent.runId)).toBeUndefined();
    const decision = { runId: talking.runId, toolCallId: 'call_1', action: 'reject' };
    await decide(server, decision);
    expect(await kindOf(server, talking.runId)).toBe('final_result');
    expect(await noteIn(talking.runId)).toBeUndefined();
  });
});
