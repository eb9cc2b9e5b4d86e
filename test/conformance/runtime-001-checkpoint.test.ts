/** 001: what the columns of the table runs hold of a run, at each of its boundaries. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FrameReader } from '../support/frames.ts';
import { decide, note, RunRow, say, statusOf } from './runtime-client.ts';
import { StoreServer } from './store-server.ts';
import { verifies } from './verifies.ts';

const server = new StoreServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

interface Envelope {
  readonly version: unknown;
  readonly serializedRunState: unknown;
  readonly checkpoint: Readonly<Record<string, unknown>>;
}

interface Output {
  readonly output: string | null;
  readonly approvals: readonly Readonly<Record<string, unknown>>[];
}

async function envelopeOf(runId: string): Promise<Envelope | undefined> {
  const { state } = await new RunRow(server, runId).read();
  return state === null ? undefined : (JSON.parse(state) as Envelope);
}

async function outputOf(runId: string): Promise<Output | undefined> {
  const { output } = await new RunRow(server, runId).read();
  return output === null ? undefined : (JSON.parse(output) as Output);
}

const kinds = ['tool_completion', 'approval_pending', 'resume_request', 'final_result'];

const start = (message: string) => say(server, message, { headers: { 'x-request-id': 'req-7' } });

/** The next approval that a run requests, and a way to decide it. */
async function nextApproval(reader: FrameReader) {
  const { runId, toolCallId } = (await reader.until('tool_approval_requested')).data;
  return {
    decide: (action: 'approve' | 'reject', reason?: string) =>
      decide(server, { runId, toolCallId, action, reason }),
  };
}

describe('runs.serialized_state', () => {
  test('holds an envelope with a version, the state as a string, and what it is about', async () => {
    verifies(
      '001:checkpoint:column',
      '001:checkpoint:version',
      '001:checkpoint:serialized-run-state',
      '001:checkpoint:kind',
      '001:checkpoint:timestamp',
      '001:checkpoint:run-context',
    );
    const began = Date.now();
    const { runId, reader } = await start(note('first'));
    const approval = await nextApproval(reader);
    const pending = await envelopeOf(runId);
    await approval.decide('approve');
    await reader.rest();
    for (const envelope of [pending, await envelopeOf(runId)]) {
      expect(Object.keys(envelope ?? {}).toSorted()).toEqual([
        'checkpoint',
        'serializedRunState',
        'version',
      ]);
      expect(envelope?.version).toBe(1);
      expect(typeof envelope?.serializedRunState).toBe('string');
      expect(envelope?.serializedRunState).not.toBe('');
      expect(envelope?.checkpoint).toMatchObject({ runId, correlationId: 'req-7' });
      expect(kinds).toContain(envelope?.checkpoint['kind']);
      const at = String(envelope?.checkpoint['at']);
      expect(new Date(at).toISOString()).toBe(at);
      expect(Date.parse(at)).toBeGreaterThanOrEqual(began);
      expect(Date.parse(at)).toBeLessThanOrEqual(Date.now());
    }
  });

  test('says approval_pending and which call, while an approval is pending', async () => {
    verifies('001:checkpoint:kind-approval-pending', '001:checkpoint:tool-metadata');
    const { runId, reader } = await start(note('pending'));
    const approval = await nextApproval(reader);
    expect((await envelopeOf(runId))?.checkpoint).toMatchObject({
      kind: 'approval_pending',
      tool: { name: 'send_note', toolCallId: 'call_1' },
    });
    await expect.poll(() => statusOf(server, runId)).toBe('waiting');
    expect((await envelopeOf(runId))?.checkpoint['kind']).toBe('approval_pending');
    await approval.decide('reject');
    await reader.rest();
  });

  test('says tool_completion and which call, once a tool has completed', async () => {
    verifies('001:checkpoint:tool-metadata');
    const { runId, reader } = await start(
      `use calculator {"a":23,"b":47,"op":"*"}\n${note('beside it')}`,
    );
    const approval = await nextApproval(reader);
    // The run waits for a person after the calculator has answered, so its checkpoint stays.
    await expect.poll(() => statusOf(server, runId)).toBe('waiting');
    expect((await envelopeOf(runId))?.checkpoint).toMatchObject({
      kind: 'tool_completion',
      tool: { name: 'calculator', toolCallId: 'call_1' },
    });
    await approval.decide('reject');
    await reader.rest();
  });

  test.each(['say 2', 'calculate 23*47', 'fail 400'])(
    'says final_result and names no tool, once the run has ended: %s',
    async (input) => {
      verifies('001:checkpoint:kind-final-result', '001:checkpoint:tool-metadata');
      const { runId, reader } = await start(input);
      await reader.rest();
      expect(await statusOf(server, runId)).toMatch(/^(completed|failed)$/);
      expect((await envelopeOf(runId))?.checkpoint).toMatchObject({ kind: 'final_result' });
      expect((await envelopeOf(runId))?.checkpoint).not.toHaveProperty('tool');
    },
  );
});

describe('runs.output_json', () => {
  const entry = { name: 'send_note', by: expect.any(String), at: expect.any(String) };

  test('gets an entry for an approval', async () => {
    verifies('001:approval-flow:audit-approve');
    const { runId, reader } = await start(note('audited'));
    const approval = await nextApproval(reader);
    await expect.poll(async () => (await outputOf(runId))?.approvals).toEqual([]);
    const before = Date.now();
    await approval.decide('approve');
    await reader.rest();
    expect((await outputOf(runId))?.approvals).toEqual([
      { ...entry, toolCallId: 'call_1', action: 'approve' },
    ]);
    const [made] = (await outputOf(runId))?.approvals ?? [];
    expect(Date.parse(String(made?.['at']))).toBeGreaterThanOrEqual(before);
    expect(server.notes.map(({ text }) => text)).toContain('audited');
  });

  test('gets an entry for a rejection, with its reason', async () => {
    verifies('001:approval-flow:audit-reject');
    const { runId, reader } = await start(note('never sent'));
    const approval = await nextApproval(reader);
    await approval.decide('reject', 'Not now');
    await reader.rest();
    expect(await outputOf(runId)).toMatchObject({
      // The text is that of a turn, which the journal has.
      output: null,
      approvals: [{ ...entry, toolCallId: 'call_1', action: 'reject', reason: 'Not now' }],
    });
  });

  test('keeps its earlier entries when another decision is made', async () => {
    verifies('001:approval-flow:audit-appended');
    const { runId, reader } = await start(['one', 'two', 'three'].map(note).join('\n'));
    const approvals = [];
    for (let n = 0; n < 3; n += 1) approvals.push(await nextApproval(reader));
    const seen: unknown[][] = [];
    for (const [index, approval] of approvals.entries()) {
      await approval.decide(index === 1 ? 'reject' : 'approve');
      await expect.poll(async () => (await outputOf(runId))?.approvals.length).toBe(index + 1);
      seen.push([...((await outputOf(runId))?.approvals ?? [])]);
    }
    await reader.rest();
    const last = (await outputOf(runId))?.approvals ?? [];
    expect(last.map(({ toolCallId, action }) => [toolCallId, action])).toEqual([
      ['call_1', 'approve'],
      ['call_2', 'reject'],
      ['call_3', 'approve'],
    ]);
    expect(seen).toEqual([last.slice(0, 1), last.slice(0, 2), last]);
  });
});
