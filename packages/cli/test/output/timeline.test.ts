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
