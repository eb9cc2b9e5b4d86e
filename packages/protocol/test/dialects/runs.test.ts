import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../src/events/catalogue.ts';
import * as fixture from './fixture-journal.ts';
import { runs } from '../../src/dialects/runs.ts';

const { framesOf, header, onTheWire, placed, rootId, subId } = fixture;

function frame(event: RunEvent): unknown {
  return onTheWire(runs.project(placed(event), header));
}

describe('runs dialect', () => {
  it('leaves the SSE event field unset', () => {
    expect(runs.namesEvents).toBe(false);
  });

  it('repeats an output of up to 256 KiB in done, and marks a longer one', () => {
    const usage = { inputTokens: 1, outputTokens: 2 };
    const done = (output: string) =>
      frame({ type: 'run.ended', status: 'completed', output, usage }) as {
        output: string;
        outputTruncated?: true;
      };
    const limit = 256 * 1024;
    expect(done('x'.repeat(limit))).toMatchObject({ output: 'x'.repeat(limit) });
    expect(done('x'.repeat(limit))).not.toHaveProperty('outputTruncated');
    const long = done('x'.repeat(limit + 1));
    expect(long).toMatchObject({ output: 'x'.repeat(limit), outputTruncated: true });
    // Neither half of a character is left, and bytes count.
    expect(done(`x${'😀'.repeat(100_000)}`).output).toBe(`x${'😀'.repeat((limit - 4) / 4)}`);
  });

  it('projects the whole fixture journal', () => {
    const permission = { type: 'approval_requested', kind: 'permission', agentId: rootId };
    expect(framesOf(runs)).toEqual([
      [
        1,
        {
          type: 'run',
          id: header.runId,
          conversationId: header.conversationId,
          agent: 'assistant',
        },
      ],
      [5, { type: 'token', text: 'Let me' }],
      [6, { type: 'reset', after: 4 }],
      [9, { type: 'token', text: '23' }],
      [10, { type: 'token', text: ' *' }],
      [
        11,
        { type: 'tool_call', id: 'call_sum', name: 'calculator', input: { a: 23, b: 47, op: '*' } },
      ],
      [
        12,
        { type: 'tool_call', id: 'call_bash', name: 'bash', input: { command: 'rm -rf ./temp' } },
      ],
      [
        13,
        {
          type: 'tool_call',
          id: 'call_fetch~2',
          name: 'fetch',
          input: { url: 'https://example.com' },
        },
      ],
      [
        14,
        {
          type: 'tool_call',
          id: 'call_note',
          name: 'send_note',
          input: { to: 'ann', text: 'hi' },
        },
      ],
      [
        16,
        {
          ...permission,
          id: fixture.bashApprovalId,
          toolCallId: 'call_bash',
          tool: 'bash',
          params: { command: 'rm -rf ./temp' },
        },
      ],
      [
        17,
        {
          ...permission,
          id: fixture.fetchApprovalId,
          toolCallId: 'call_fetch~2',
          tool: 'fetch',
          params: { url: 'https://example.com' },
        },
      ],
      [
        18,
        {
          ...permission,
          id: fixture.noteApprovalId,
          toolCallId: 'call_note',
          tool: 'send_note',
          params: { to: 'ann', text: 'hi' },
          earlierDenial: fixture.earlierDenial,
        },
      ],
      [21, { type: 'tool_result', id: 'call_sum', output: 1081 }],
      [
        24,
        {
          type: 'approval_resolved',
          id: fixture.bashApprovalId,
          status: 'approved',
          executedParams: { command: 'rm -rf ./tmp' },
        },
      ],
      [
        26,
        {
          type: 'tool_result',
          id: 'call_bash',
          output: { status: 'error', error: 'No such folder', code: 'tool_failed' },
        },
      ],
      [27, { type: 'approval_resolved', id: fixture.fetchApprovalId, status: 'expired' }],
      [
        28,
        {
          type: 'tool_result',
          id: 'call_fetch~2',
          output: { status: 'expired', reason: 'Nobody answered in time' },
        },
      ],
      [29, { type: 'approval_resolved', id: fixture.noteApprovalId, status: 'denied' }],
      [
        30,
        {
          type: 'tool_result',
          id: 'call_note',
          output: { status: 'denied', reason: 'Not now' },
          rule: { list: 'allowlist', index: 0, source: 'request' },
        },
      ],
      [31, { type: 'handoff', from: 'assistant', to: 'researcher' }],
      [32, { type: 'agent_switch', agentName: 'researcher' }],
      [
        41,
        {
          type: 'tool_call',
          id: 'call_look',
          name: 'look_up',
          input: { word: 'relay' },
          agentId: subId,
        },
      ],
      [
        44,
        {
          type: 'approval_requested',
          kind: 'outcome',
          agentId: subId,
          parentId: rootId,
          agentPath: ['researcher', 'helper'],
          id: fixture.subApprovalId,
          toolCallId: 'call_look',
          tool: 'look_up',
          params: { word: 'relay' },
        },
      ],
      [
        45,
        {
          type: 'approval_expiring',
          id: fixture.subApprovalId,
          expiresAt: '2026-03-02T10:00:00.000Z',
        },
      ],
      [
        46,
        {
          type: 'error',
          error: 'The model is overloaded',
          code: 'provider_failed',
          retryable: true,
        },
      ],
      [47, { type: 'approval_resolved', id: fixture.subApprovalId, status: 'closed' }],
      [
        48,
        {
          type: 'tool_result',
          id: 'call_look',
          output: { status: 'error', error: 'The model is overloaded', code: 'provider_failed' },
          agentId: subId,
        },
      ],
      [
        52,
        {
          type: 'message',
          id: fixture.messageId,
          from: fixture.sender,
          channel: 'ops',
          content: 'Look at the logs first',
        },
      ],
      [
        55,
        {
          type: 'done',
          status: 'failed',
          output: '23 *',
          usage: { input_tokens: 239, output_tokens: 18 },
          agent: 'researcher',
          finishReason: 'length',
        },
      ],
    ]);
  });

  it('writes the documented frames exactly', () => {
    const call = { agentId: rootId, toolCallId: 'call_…', name: 'calculator' };
    const lines = [
      { type: 'text.appended', agentId: rootId, textId: fixture.textId, text: '23' },
      { type: 'text.appended', agentId: rootId, textId: fixture.textId, text: ' *' },
      { type: 'tool.called', ...call, input: { a: 23, b: 47, op: '*' } },
      { type: 'tool.completed', ...call, context: '1081', result: 1081 },
    ] satisfies RunEvent[];
    expect(lines.map((event) => JSON.stringify(frame(event)))).toEqual([
      '{"type":"token","text":"23"}',
      '{"type":"token","text":" *"}',
      '{"type":"tool_call","id":"call_…","name":"calculator","input":{"a":23,"b":47,"op":"*"}}',
      '{"type":"tool_result","id":"call_…","output":1081}',
    ]);
  });

  it('keeps every documented field of the last frame', () => {
    const usage = { inputTokens: 234, outputTokens: 12 };
    expect(frame({ type: 'run.ended', status: 'completed', output: '…', usage })).toMatchObject({
      type: 'done',
      output: '…',
      usage: { input_tokens: 234, output_tokens: 12 },
    });
  });

  it.each(['completed', 'failed', 'canceled'] as const)(
    'ends a run that is %s with done',
    (status) => {
      const usage = { inputTokens: 0, outputTokens: 0 };
      expect(frame({ type: 'run.ended', status, output: 'so far', usage })).toEqual({
        type: 'done',
        status,
        output: 'so far',
        usage: { input_tokens: 0, output_tokens: 0 },
      });
    },
  );

  it('shows the result of a tool, else its context, else null', () => {
    const call = { agentId: rootId, toolCallId: 'c1', name: 'read' };
    const output = (event: RunEvent) => (frame(event) as { output: unknown }).output;
    expect(output({ type: 'tool.completed', ...call, context: 'text', result: 0 })).toBe(0);
    expect(output({ type: 'tool.completed', ...call, context: 'text', result: '' })).toBe('');
    expect(output({ type: 'tool.completed', ...call, context: 'text' })).toBe('text');
    expect(output({ type: 'tool.completed', ...call })).toBeNull();
  });

  it('shows the parent on approvals of sub-agents only', () => {
    const shown = fixture.journal
      .filter((event) => event.type === 'approval.requested')
      .map((event) => frame(event));
    expect(shown.map((each) => (each as { parentId?: string }).parentId)).toEqual([
      undefined,
      undefined,
      undefined,
      rootId,
    ]);
  });

  it('names the agent that answered in the last frame', () => {
    const usage = { inputTokens: 0, outputTokens: 0 };
    const ended = { type: 'run.ended', status: 'completed', output: '', usage } as const;
    expect(frame({ ...ended, agent: 'researcher' })).toHaveProperty('agent', 'researcher');
    expect(frame(ended)).not.toHaveProperty('agent');
  });

  it('says when a provider that failed is called again', () => {
    const retry = { attempt: 2, delayMs: 4_000 };
    const turn = { agentId: rootId, turn: 1, textId: fixture.subTextId, after: 3 };
    const failed = { type: 'turn.discarded', ...turn, reason: 'retry', code: 'provider_failed' };
    expect(frame({ ...failed, retry } as RunEvent)).toEqual({
      type: 'reset',
      after: 3,
      retry: { ...retry, code: 'provider_failed' },
    });
  });

  it('hides the handoffs of sub-agents', () => {
    const sub = { agentId: subId, parentId: rootId };
    const handed: RunEvent = { type: 'agent.handed-off', ...sub, from: 'a', to: 'b' };
    const switched: RunEvent = {
      type: 'agent.switched',
      ...sub,
      name: 'b',
      model: 'demo',
      tools: [],
    };
    expect([frame(handed), frame(switched)]).toEqual([undefined, undefined]);
  });

  it('hides the text and the resets of sub-agents', () => {
    const sub = { agentId: subId, parentId: rootId };
    const text: RunEvent = { type: 'text.appended', ...sub, textId: fixture.subTextId, text: 'x' };
    const discarded: RunEvent = {
      type: 'turn.discarded',
      ...sub,
      turn: 1,
      textId: fixture.subTextId,
      after: 3,
      reason: 'crash',
    };
    expect([frame(text), frame(discarded)]).toEqual([undefined, undefined]);
    const { parentId: _, ...root } = { ...text, agentId: rootId };
    expect(frame(root)).toEqual({ type: 'token', text: 'x' });
  });
});
