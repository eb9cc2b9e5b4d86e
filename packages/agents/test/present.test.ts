import type { Tool } from '@relay/core';
import { createRecordingTool } from '@relay/core/testing';
import type { StoredEvent } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import type { RelayEvent } from '../src/index.ts';
import { presentEvent } from '../src/present.ts';

const position = { seq: 7, at: '2026-01-01T00:00:00.000Z' };
const requested = {
  ...position,
  type: 'approval.requested',
  agentId: 'a-1',
  approvalId: 'r-1',
  toolCallId: 'c-1',
  kind: 'permission',
  tool: 'read',
  params: { filePath: 'a.ts', deep: { list: [1] } },
  digest: 'd',
  agentPath: ['assistant'],
  expiresAt: '2126-01-01T00:00:00.000Z',
} satisfies StoredEvent;

function present(event: StoredEvent, tool?: Tool) {
  const answers: unknown[] = [];
  const shown = presentEvent(event, {
    runId: 'run-1',
    findTool: (name) => (tool?.name === name ? tool : undefined),
    respond: (approvalId, response) => void answers.push([approvalId, response]),
  });
  return { shown, answers };
}

function presentRelay(tool?: Tool, event: StoredEvent = requested): RelayEvent {
  const { shown } = present(event, tool);
  if (shown?.type !== 'relay') throw new Error('It is not a relay');
  return shown;
}

describe('a relay', () => {
  test('has the call, the agent path and respond', () => {
    const { shown, answers } = present(requested);
    expect(shown).toEqual({
      type: 'relay',
      kind: 'permission',
      runId: 'run-1',
      agentId: 'a-1',
      id: 'r-1',
      toolCallId: 'c-1',
      tool: 'read',
      params: { filePath: 'a.ts', deep: { list: [1] } },
      display: { text: expect.stringMatching(/^read \{\n {2}"filePath": "a.ts"/), flags: [] },
      agentPath: ['assistant'],
      respond: expect.any(Function),
    });
    if (shown?.type !== 'relay') throw new Error('It is not a relay');
    const { respond } = shown;
    respond({ approved: true });
    expect(answers).toEqual([['r-1', { approved: true }]]);
  });

  test('names the parent of a sub-agent', () => {
    expect(presentRelay(undefined, { ...requested, parentId: 'a-0' })).toMatchObject({
      agentId: 'a-1',
      parentId: 'a-0',
    });
  });

  test('has the rule that its tool suggests', () => {
    const derivePermission = (params: Record<string, unknown>) => ({
      tool: 'read',
      params: { filePath: String(params['filePath']) },
    });
    const relay = presentRelay(createRecordingTool({ name: 'read', derivePermission }));
    expect(relay.suggestedRule).toEqual({ tool: 'read', params: { filePath: 'a.ts' } });
  });

  test('has no rule if the tool suggests none or throws', () => {
    expect(presentRelay(createRecordingTool({ name: 'read' }))).not.toHaveProperty('suggestedRule');
    const failing = createRecordingTool({
      name: 'read',
      derivePermission: () => {
        throw new Error('Nothing comes to mind');
      },
    });
    expect(presentRelay(failing)).not.toHaveProperty('suggestedRule');
  });

  test('has copies: neither a program nor a tool can change the stored event', () => {
    const meddling = createRecordingTool({
      name: 'read',
      derivePermission: (params) => {
        params['filePath'] = 'changed by the tool';
        return { tool: 'read' };
      },
    });
    const relay = presentRelay(meddling);
    relay.params['filePath'] = 'changed by the program';
    (relay.params['deep'] as { list: number[] }).list.push(2);
    expect(requested.params).toEqual({ filePath: 'a.ts', deep: { list: [1] } });
    expect(presentRelay(meddling).params['filePath']).toBe('a.ts');
  });

  test('always has an object as params', () => {
    expect(presentRelay(undefined, { ...requested, params: null }).params).toEqual({});
  });
});

describe('other events', () => {
  test('are those of the chat, and two more', () => {
    const of = { ...position, agentId: 'a-1' };
    const events: StoredEvent[] = [
      { ...of, type: 'agent.started', name: 'assistant', model: 'm' },
      { ...of, type: 'text.appended', textId: 't-1', text: 'Hi' },
      { ...of, type: 'tool.called', toolCallId: 'c-1', name: 'read', input: { a: 1 } },
      { ...of, type: 'tool.completed', toolCallId: 'c-1', name: 'read', context: 'x' },
      { ...of, type: 'agent.handed-off', from: 'one', to: 'other' },
      { ...of, type: 'limit.reached', limit: 'tokens', parentId: 'a-0' },
    ];
    const ids = { runId: 'run-1', agentId: 'a-1' };
    expect(events.map((event) => present(event).shown)).toEqual([
      { type: 'harness_start', ...ids },
      { type: 'text', ...ids, id: 't-1', content: 'Hi' },
      { type: 'tool_call', ...ids, id: 'c-1', name: 'read', input: { a: 1 } },
      { type: 'tool_result', ...ids, id: 'c-1', name: 'read', output: { context: 'x' } },
      { type: 'handoff', ...ids, from: 'one', to: 'other' },
      { type: 'limit', ...ids, parentId: 'a-0', limit: 'tokens' },
    ]);
  });

  test('that are internal are not shown', () => {
    const progress = { partialOutput: '', toolsInvoked: [] };
    expect(present({ ...position, type: 'run.resumed', progress }).shown).toBeUndefined();
  });
});
