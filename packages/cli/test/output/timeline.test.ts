import type { StoredEvent } from '@relay/sdk';
import { expect, test } from 'vitest';
import { Timeline } from '../../src/output/timeline.ts';

test('the timeline of a run shows recalled memories, and calls that run again after a restart', () => {
  const timeline = new Timeline((_, text) => text);
  const agentId = 'a';
  const call = (toolCallId: string) => ({ agentId, toolCallId, name: 'look_up', input: {} });
  const lines = [
    { type: 'memory.recalled', agentId, namespace: 'support', memories: [{ id: 'm' }] },
    { type: 'tool.started', ...call('1') },
    { type: 'tool.started', ...call('1') },
    // It asked a question, and goes on with the answer.
    { type: 'tool.started', ...call('2') },
    {
      type: 'approval.requested',
      ...call('2'),
      tool: 'look_up',
      approvalId: 'q',
      kind: 'question',
    },
    { type: 'tool.started', ...call('2') },
    { type: 'memory.stored', agentId, namespace: 'support', memoryId: 'm2' },
  ].flatMap((event) =>
    timeline.add({ ...event, at: '2026-11-15T12:00:00Z' } as unknown as StoredEvent),
  );
  expect(lines.map((line) => line.replace(/^ *\+0ms +/, ''))).toEqual([
    'recalled 1 memory of support',
    '↻ look_up runs again: the server was restarted',
    '? look_up waits for an answer q',
    'remembered in support',
  ]);
});

test('the timeline of a canceled run shows the results of its calls', () => {
  const timeline = new Timeline((_, text) => text);
  const call = { agentId: 'a', toolCallId: '1', name: 'refund' };
  const usage = { inputTokens: 1, outputTokens: 1 };
  const lines = [
    { type: 'tool.started', ...call, input: {} },
    { type: 'tool.completed', ...call, result: { refunded: 12 }, durationMs: 2_000 },
    { type: 'run.ended', status: 'canceled', output: '', usage },
  ].flatMap((event) =>
    timeline.add({ ...event, at: '2026-11-15T12:00:00Z' } as unknown as StoredEvent),
  );
  expect(lines.map((line) => line.replace(/^ *\+0ms +/, '').trim())).toEqual([
    '← refund 2s {"refunded":12}',
    'canceled (1 in, 1 out)',
  ]);
});
