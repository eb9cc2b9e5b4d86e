import { runStatuses, type RunStatus } from '@relay/protocol';
import { describe, expect, it, vi } from 'vitest';
import type { RunControl } from '../../src/commands/start-run.ts';
import type { CheckpointChange, RunRecord, RunRef } from '../../src/ports/index.ts';
import { pendingApprovalsOf, resumeSerializedAgentRun } from '../../src/commands/resume.ts';

const id = '01963a5c-7891-7abc-8ef0-123456789abc';
const ref: RunRef = { tenantId: 'tenant-1', runId: id };

function checkpointAt(seq: unknown, change: object = {}): string {
  return JSON.stringify({
    version: 1,
    serializedRunState: JSON.stringify({ runId: id, seq, agent: 'assistant' }),
    checkpoint: {
      kind: 'resume_request',
      at: '2026-03-01T10:00:00.000Z',
      runId: id,
      correlationId: 'req-7',
    },
    ...change,
  });
}

function runWith(change: Partial<RunRecord> = {}): RunRecord {
  return {
    id,
    tenantId: 'tenant-1',
    conversationId: 'conversation-1',
    correlationId: 'req-7',
    surface: 'runtime',
    agent: 'assistant',
    model: 'demo',
    labels: {},
    parentRunId: null,
    workflowId: null,
    keyId: null,
    owner: 'ada',
    createdAt: 0,
    status: 'running',
    startedAt: 0,
    endedAt: null,
    firstTokenMs: null,
    usage: { inputTokens: 0, outputTokens: 0 },
    error: null,
    finishReason: null,
    checkpoint: checkpointAt(5),
    outputJson: null,
    answerSeq: null,
    snapshot: null,
    snapshotSeq: 0,
    wakeAt: null,
    lastSeq: 9,
    epoch: 1,
    journalSize: 100,
    ...change,
  };
}

/** A store of one run, and a supervisor that remembers whom it was told of. */
function controlOf(stored: RunRecord | undefined) {
  const wake = vi.fn();
  const replaced: CheckpointChange[] = [];
  const tenant = (tenantId: string) => ({
    readRun: async (runId: string) =>
      tenantId === stored?.tenantId && runId === stored.id ? stored : undefined,
    replaceCheckpoint: async (_runId: string, change: CheckpointChange) => replaced.push(change),
  });
  const engine = { store: { tenant }, clock: { now: () => 42 } };
  const control = { engine, supervisor: { wake } };
  return { control: control as unknown as RunControl, wake, replaced };
}

const pending = JSON.stringify({
  output: null,
  approvals: [],
  pendingApprovals: [
    { toolCallId: 'call_1', name: 'pay', args: {}, approvalId: 'approval-1', seq: 4 },
    { toolCallId: 'call_2', name: 'pay', args: {}, approvalId: 'approval-2', seq: 5 },
  ],
});

describe('resuming a run', () => {
  it.each(runStatuses)(
    'returns the position of the checkpoint of a run that is %s',
    async (status) => {
      const run = runWith({ status });
      const { control } = controlOf(run);
      expect(await resumeSerializedAgentRun(control, ref)).toEqual({ run, after: 5 });
    },
  );

  it.each<[RunStatus, number]>([
    ['queued', 1],
    ['running', 1],
    ['waiting', 0],
    ['completed', 0],
    ['failed', 0],
    ['canceled', 0],
  ])('of one that is %s wakes it %i times', async (status, times) => {
    const { control, wake } = controlOf(runWith({ status }));
    await resumeSerializedAgentRun(control, ref);
    expect(wake.mock.calls).toEqual(Array.from({ length: times }, () => [ref]));
  });

  it('finds nothing of another tenant, and nothing that was never there', async () => {
    const { control, wake } = controlOf(runWith());
    expect(await resumeSerializedAgentRun(control, { ...ref, tenantId: 'tenant-2' })).toBe(
      undefined,
    );
    expect(await resumeSerializedAgentRun(control, { ...ref, runId: 'run-2' })).toBe(undefined);
    expect(wake).not.toHaveBeenCalled();
  });

  it('takes the checkpoint before the approval that is pending', async () => {
    const { control } = controlOf(runWith({ status: 'waiting', outputJson: pending }));
    expect(await resumeSerializedAgentRun(control, ref)).toMatchObject({ after: 5 });
  });

  it('begins at the beginning where only an approval is pending', async () => {
    const stored = { status: 'waiting', checkpoint: null, outputJson: pending } as const;
    const { control } = controlOf(runWith(stored));
    expect(await resumeSerializedAgentRun(control, ref)).toMatchObject({ after: 0 });
  });

  it.each<[RunStatus, string | undefined]>([
    ['queued', 'resume_request'],
    ['running', 'resume_request'],
    ['waiting', 'resume_request'],
    ['completed', undefined],
    ['failed', undefined],
    ['canceled', undefined],
  ])('of one that is %s stores the checkpoint %s, at the same position', async (status, kind) => {
    const { control, replaced } = controlOf(runWith({ status }));
    await resumeSerializedAgentRun(control, ref);
    expect(replaced).toHaveLength(kind === undefined ? 0 : 1);
    for (const { expected, checkpoint } of replaced) {
      expect(expected).toBe(checkpointAt(5));
      expect(JSON.parse(checkpoint)).toEqual({
        version: 1,
        serializedRunState: JSON.stringify({ runId: id, seq: 5, agent: 'assistant' }),
        checkpoint: { kind, at: '1970-01-01T00:00:00.042Z', runId: id, correlationId: 'req-7' },
      });
    }
  });

  it('stores a checkpoint where only an approval is pending', async () => {
    const stored = { status: 'waiting', checkpoint: null, outputJson: pending } as const;
    const { control, replaced } = controlOf(runWith(stored));
    await resumeSerializedAgentRun(control, ref);
    expect(replaced).toMatchObject([{ expected: null }]);
    const checkpoint = replaced[0]?.checkpoint ?? '';
    const again = controlOf(runWith({ status: 'waiting', checkpoint }));
    expect(await resumeSerializedAgentRun(again.control, ref)).toMatchObject({ after: 0 });
  });

  it.each(runStatuses)(
    'is refused without a checkpoint where the run is %s, and nothing is driven',
    async (status) => {
      const { control, wake, replaced } = controlOf(runWith({ status, checkpoint: null }));
      await expect(resumeSerializedAgentRun(control, ref)).rejects.toMatchObject({
        code: 'checkpoint_missing',
        status: 409,
      });
      expect(wake).not.toHaveBeenCalled();
      expect(replaced).toEqual([]);
    },
  );

  it.each<[string, string]>([
    ['has another version', checkpointAt(5, { version: 2 })],
    ['is no JSON', checkpointAt(5).slice(1)],
    ['has no metadata', checkpointAt(5, { checkpoint: undefined })],
    ['has a state that is no text', checkpointAt(5, { serializedRunState: { seq: 5 } })],
    ['has a state that is no JSON', checkpointAt(5, { serializedRunState: 'seq 5' })],
    ['has an empty state', checkpointAt(5, { serializedRunState: '' })],
    ['has a state of null', checkpointAt(5, { serializedRunState: 'null' })],
    ['is of another run', checkpointAt(5, { serializedRunState: '{"runId":"other","seq":5}' })],
    ['has no place', checkpointAt(undefined)],
    ['has a place that is text', checkpointAt('5')],
    ['has a place between two others', checkpointAt(1.5)],
    ['has a place before the first', checkpointAt(-1)],
    ['has a place past the last', checkpointAt(10)],
  ])('is a clear error where the checkpoint %s, and nothing is driven', async (_what, text) => {
    const { control, wake } = controlOf(runWith({ checkpoint: text }));
    await expect(resumeSerializedAgentRun(control, ref)).rejects.toMatchObject({
      name: 'RelayError',
      code: 'journal_corrupt',
    });
    expect(wake).not.toHaveBeenCalled();
  });
});

describe('the pending approval of a run', () => {
  it('is what its output says', () => {
    expect(pendingApprovalsOf({ outputJson: pending })).toEqual([
      { toolCallId: 'call_1', approvalId: 'approval-1', seq: 4 },
      { toolCallId: 'call_2', approvalId: 'approval-2', seq: 5 },
    ]);
  });

  it('is the only one that an older row names', () => {
    const older = '{"pendingApproval":{"toolCallId":"call_2"}}';
    expect(pendingApprovalsOf({ outputJson: older })).toEqual([{ toolCallId: 'call_2' }]);
  });

  it.each([
    null,
    '',
    '{',
    'null',
    '[]',
    '"pendingApproval"',
    '{}',
    '{"pendingApproval":null}',
    '{"pendingApproval":7}',
    '{"pendingApproval":{}}',
    '{"pendingApproval":{"toolCallId":7,"approvalId":"approval-1"}}',
    '{"pendingApprovals":[],"pendingApproval":{"toolCallId":"call_1"}}',
    '{"pendingApprovals":[null,7,{}]}',
  ])('is none where the output is %j', (outputJson) => {
    expect(pendingApprovalsOf({ outputJson })).toEqual([]);
  });
});
