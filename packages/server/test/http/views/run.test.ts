import type { RunRecord } from '@relay/core';
import type { Message, StoredEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { presentRun } from '../../../src/http/views/run.ts';

const noon = Date.UTC(2026, 0, 1, 12);

const run: RunRecord = {
  id: 'run-1',
  tenantId: 'tenant-1',
  conversationId: 'conversation-1',
  correlationId: 'request-1',
  surface: 'runs',
  agent: 'assistant',
  model: 'demo',
  labels: { team: 'red' },
  parentRunId: null,
  workflowId: null,
  keyId: null,
  owner: 'ada',
  createdAt: noon,
  status: 'queued',
  startedAt: null,
  endedAt: null,
  firstTokenMs: null,
  usage: { inputTokens: 3, outputTokens: 2 },
  error: null,
  finishReason: null,
  checkpoint: null,
  answerSeq: null,
  outputJson: null,
  snapshot: '{"secret":"state"}',
  snapshotSeq: 1,
  wakeAt: 99,
  lastSeq: 1,
  epoch: 4,
  journalSize: 100,
};

function specWith(messages: Message[]): StoredEvent {
  return {
    type: 'run.created',
    seq: 1,
    at: new Date(noon).toISOString(),
    surface: 'runs',
    agent: 'assistant',
    model: 'demo',
    conversationId: 'conversation-1',
    correlationId: 'request-1',
    messages,
    history: null,
    tools: [],
    permissions: {},
    maxIterations: 50,
    labels: {},
  };
}

const asked = specWith([{ role: 'user', content: 'What is 2 * 3?' }]);

describe('presentRun', () => {
  it('omits fields without a value', () => {
    expect(presentRun(run, asked)).toEqual({
      id: 'run-1',
      status: 'queued',
      model: 'demo',
      agent: 'assistant',
      conversationId: 'conversation-1',
      owner: 'ada',
      input: 'What is 2 * 3?',
      usage: { input_tokens: 3, output_tokens: 2 },
      labels: { team: 'red' },
      lastSeq: 1,
      createdAt: '2026-01-01T12:00:00.000Z',
    });
  });

  it('returns all fields of an ended run', () => {
    const error = { code: 'provider_failed', message: 'It said no', retryable: true };
    const checkpoint = { version: 1, serializedRunState: '{}' };
    const full: RunRecord = {
      ...run,
      status: 'failed',
      parentRunId: 'run-0',
      workflowId: 'workflow-1',
      startedAt: noon + 1,
      endedAt: noon + 2,
      error,
      checkpoint: JSON.stringify(checkpoint),
      outputJson: JSON.stringify({ output: 'Six', approvals: [] }),
    };
    expect(presentRun(full, asked)).toMatchObject({
      status: 'failed',
      parentRunId: 'run-0',
      workflowId: 'workflow-1',
      startedAt: '2026-01-01T12:00:00.001Z',
      endedAt: '2026-01-01T12:00:00.002Z',
      error,
      checkpoint,
      output: 'Six',
    });
  });

  it('omits internal fields', () => {
    const shown = JSON.stringify(presentRun({ ...run, status: 'running' }, asked));
    for (const hidden of ['tenant-1', 'secret', 'epoch', 'wakeAt', 'snapshot', 'correlationId']) {
      expect(shown).not.toContain(hidden);
    }
  });

  it('returns an empty output', () => {
    const withOutput = (output: string | null) =>
      presentRun({ ...run, outputJson: JSON.stringify({ output, approvals: [] }) }, asked);
    expect(withOutput('')).toHaveProperty('output', '');
    expect(withOutput(null).output).toBeUndefined();
  });

  it('returns messages as messages', () => {
    const messages: Message[] = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'hello' },
      { role: 'user', content: 'again' },
    ];
    expect(presentRun(run, specWith(messages)).input).toEqual(messages);
    const parts: Message[] = [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }];
    expect(presentRun(run, specWith(parts)).input).toEqual(parts);
    const system: Message[] = [{ role: 'system', content: 'Be brief' }];
    expect(presentRun(run, specWith(system)).input).toEqual(system);
  });

  it('returns no input if the first event is not run.created', () => {
    expect(presentRun(run, undefined).input).toBeNull();
  });
});
