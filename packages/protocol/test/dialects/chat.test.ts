import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../src/events/catalogue.ts';
import { chat } from '../../src/dialects/chat.ts';
import * as fixture from './fixture-journal.ts';

const { framesOf, header, journal, onTheWire, placed, rootId, runId, subId } = fixture;

const root = { runId, agentId: rootId };
const sub = { runId, agentId: subId, parentId: rootId };

function frame(event: RunEvent): unknown {
  return onTheWire(chat.project(placed(event), header));
}

describe('chat dialect', () => {
  it('names its frames in the SSE event field', () => {
    expect(chat.namesEvents).toBe(true);
  });

  it('projects the whole fixture journal', () => {
    expect(framesOf(chat)).toEqual([
      [3, { type: 'harness_start', ...root }],
      [5, { type: 'text', ...root, id: fixture.firstTextId, content: 'Let me' }],
      [6, { type: 'text_discard', ...root, id: fixture.firstTextId }],
      [8, { type: 'reasoning', ...root, id: fixture.reasoningId, content: 'A product.' }],
      [9, { type: 'text', ...root, id: fixture.textId, content: '23' }],
      [10, { type: 'text', ...root, id: fixture.textId, content: ' *' }],
      [
        11,
        {
          type: 'tool_call',
          ...root,
          id: 'call_sum',
          name: 'calculator',
          input: { a: 23, b: 47, op: '*' },
        },
      ],
      [
        12,
        {
          type: 'tool_call',
          ...root,
          id: 'call_bash',
          name: 'bash',
          input: { command: 'rm -rf ./temp' },
        },
      ],
      [
        13,
        {
          type: 'tool_call',
          ...root,
          id: 'call_fetch~2',
          name: 'fetch',
          input: { url: 'https://example.com' },
        },
      ],
      [
        14,
        {
          type: 'tool_call',
          ...root,
          id: 'call_note',
          name: 'send_note',
          input: { to: 'ann', text: 'hi' },
        },
      ],
      [15, { type: 'usage', ...root, inputTokens: 234, outputTokens: 12 }],
      [
        16,
        {
          type: 'relay',
          kind: 'permission',
          ...root,
          id: fixture.bashApprovalId,
          toolCallId: 'call_bash',
          tool: 'bash',
          params: { command: 'rm -rf ./temp' },
        },
      ],
      [
        17,
        {
          type: 'relay',
          kind: 'permission',
          ...root,
          id: fixture.fetchApprovalId,
          toolCallId: 'call_fetch~2',
          tool: 'fetch',
          params: { url: 'https://example.com' },
        },
      ],
      [
        18,
        {
          type: 'relay',
          kind: 'permission',
          ...root,
          id: fixture.noteApprovalId,
          toolCallId: 'call_note',
          tool: 'send_note',
          params: { to: 'ann', text: 'hi' },
          earlierDenial: fixture.earlierDenial,
        },
      ],
      [
        20,
        {
          type: 'tool_progress',
          ...root,
          id: fixture.progressId,
          toolCallId: 'call_sum',
          name: 'calculator',
          content: 'halfway',
        },
      ],
      [
        21,
        {
          type: 'tool_result',
          ...root,
          id: 'call_sum',
          name: 'calculator',
          output: { context: '23 * 47 = 1081', result: 1081 },
        },
      ],
      [
        24,
        {
          type: 'relay_resolved',
          ...root,
          id: fixture.bashApprovalId,
          toolCallId: 'call_bash',
          status: 'approved',
          executedParams: { command: 'rm -rf ./tmp' },
        },
      ],
      [
        26,
        {
          type: 'tool_result',
          ...root,
          id: 'call_bash',
          name: 'bash',
          output: { status: 'error', error: 'No such folder', code: 'tool_failed' },
        },
      ],
      [
        28,
        {
          type: 'tool_result',
          ...root,
          id: 'call_fetch~2',
          name: 'fetch',
          output: { status: 'expired', reason: 'Nobody answered in time' },
        },
      ],
      [
        30,
        {
          type: 'tool_result',
          ...root,
          id: 'call_note',
          name: 'send_note',
          output: { status: 'denied', reason: 'Not now' },
          rule: { list: 'allowlist', index: 0, source: 'request' },
        },
      ],
      [34, { type: 'harness_start', ...sub }],
      [36, { type: 'text', ...sub, id: expect.any(String), content: 'sub lost' }],
      [37, { type: 'text_discard', ...sub, id: expect.any(String) }],
      [39, { type: 'reasoning', ...sub, id: fixture.subReasoningId, content: 'sub thought' }],
      [40, { type: 'text', ...sub, id: fixture.subTextId, content: 'sub text' }],
      [
        41,
        { type: 'tool_call', ...sub, id: 'call_look', name: 'look_up', input: { word: 'relay' } },
      ],
      [42, { type: 'usage', ...sub, inputTokens: 5, outputTokens: 6 }],
      [
        44,
        {
          type: 'relay',
          kind: 'outcome',
          ...sub,
          id: fixture.subApprovalId,
          toolCallId: 'call_look',
          tool: 'look_up',
          params: { word: 'relay' },
          agentPath: ['researcher', 'helper'],
        },
      ],
      [46, { type: 'error', runId, message: 'The model is overloaded', code: 'provider_failed' }],
      [
        48,
        {
          type: 'tool_result',
          ...sub,
          id: 'call_look',
          name: 'look_up',
          output: { status: 'error', error: 'The model is overloaded', code: 'provider_failed' },
        },
      ],
      [
        49,
        {
          type: 'harness_end',
          ...sub,
          reason: 'failed',
          iterations: 1,
          totalUsage: { inputTokens: 5, outputTokens: 6 },
        },
      ],
      [
        53,
        {
          type: 'harness_end',
          ...root,
          reason: 'failed',
          iterations: 1,
          totalUsage: { inputTokens: 234, outputTokens: 12 },
        },
      ],
    ]);
  });

  it('writes an approval exactly as in the documented example', () => {
    const documented = {
      type: 'relay',
      kind: 'permission',
      runId: '01963a5c-7891-7abc-def0-123456789abc',
      id: '01963a5c-7893-7abc-def0-123456789abc',
      agentId: '01963a5c-7892-7abc-def0-123456789abc',
      toolCallId: 'call_abc123',
      tool: 'bash',
      params: { command: 'rm -rf ./temp' },
    };
    const event = placed({
      type: 'approval.requested',
      agentId: documented.agentId,
      approvalId: documented.id,
      toolCallId: 'call_abc123',
      kind: 'permission',
      tool: 'bash',
      params: { command: 'rm -rf ./temp' },
      digest: 'd1',
      agentPath: ['assistant'],
      expiresAt: '2026-03-02T10:00:00.000Z',
    });
    const run = { ...header, runId: documented.runId };
    expect(onTheWire(chat.project(event, run))).toEqual(documented);
  });

  it('puts the run and the agent on every frame, and the parent on frames of sub-agents', () => {
    const frames = journal.flatMap((event) => {
      const shown = chat.project(event, header);
      return shown === undefined || shown.type === 'error' ? [] : [{ event, shown }];
    });
    for (const { event, shown } of frames) {
      expect(shown).toMatchObject({ runId, agentId: 'agentId' in event ? event.agentId : '' });
      expect(shown['parentId']).toBe('parentId' in event ? event.parentId : undefined);
    }
    expect(new Set(frames.map(({ shown }) => shown['agentId']))).toEqual(new Set([rootId, subId]));
  });

  it('shows a denial without a reason as its status alone', () => {
    const call = { agentId: rootId, toolCallId: 'c1', name: 'bash' };
    expect(frame({ type: 'tool.denied', ...call, status: 'denied' })).toEqual({
      type: 'tool_result',
      ...root,
      id: 'c1',
      name: 'bash',
      output: { status: 'denied' },
    });
  });

  it.each(['completed', 'failed', 'canceled', 'limit'] as const)(
    'ends with one harness_end when the root agent ended as %s, and shows no end of the run',
    (reason) => {
      const usage = { inputTokens: 1, outputTokens: 2 };
      const ended = frame({ type: 'agent.ended', agentId: rootId, reason, iterations: 3, usage });
      expect(ended).toEqual({
        type: 'harness_end',
        ...root,
        reason,
        iterations: 3,
        totalUsage: usage,
      });
      expect(frame({ type: 'run.ended', status: 'completed', output: 'x', usage })).toBeUndefined();
    },
  );
});
