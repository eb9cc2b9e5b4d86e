import { describe, expect, it } from 'vitest';
import type { EventOf, RunEvent } from '../../src/events/catalogue.ts';
import * as fixture from './fixture-journal.ts';
import { runtime } from '../../src/dialects/runtime.ts';

const { conversationId, framesOf, header, journal, onTheWire, placed, rootId, runId, subId } =
  fixture;

function frame(event: RunEvent): unknown {
  return onTheWire(runtime.project(placed(event), header));
}

function first<Type extends RunEvent['type']>(type: Type): EventOf<Type> {
  const found = journal.find((event) => event.type === type);
  if (found === undefined) throw new Error(`The fixture has no ${type}`);
  return found as EventOf<RunEvent['type']> as EventOf<Type>;
}

describe('runtime dialect', () => {
  it('leaves the SSE event field unset', () => {
    expect(runtime.namesEvents).toBe(false);
  });

  it.each([
    ['completed', 'succeeded'],
    ['limit', 'succeeded'],
    ['failed', 'failed'],
    ['canceled', 'canceled'],
  ] as const)('reports the last progress of a root agent whose end is %s', (reason, status) => {
    const progress = { partialOutput: 'Done.', toolsInvoked: ['bash'] };
    const ended = { ...first('agent.ended'), agentId: rootId, reason };
    const { parentId: _, ...root } = ended;
    expect(frame({ ...root, progress })).toEqual({
      type: 'agent_progress',
      runId,
      status,
      runState: status,
      ...progress,
      correlationId: 'req-7',
    });
    expect(frame(root)).toBeUndefined();
  });

  it('reports progress when the root agent begins another turn', () => {
    const progress = { partialOutput: 'Let me look.', toolsInvoked: ['bash'] };
    const turn = first('turn.started');
    expect(frame({ ...turn, progress })).toMatchObject({ status: 'running', ...progress });
    expect(frame(turn)).toBeUndefined();
  });

  it('projects the whole fixture journal', () => {
    const progress = { type: 'agent_progress', runId, correlationId: 'req-7' };
    expect(framesOf(runtime)).toEqual([
      [
        2,
        {
          ...progress,
          status: 'running',
          runState: 'running',
          partialOutput: '',
          toolsInvoked: [],
        },
      ],
      [5, { type: 'text_delta', content: 'Let me' }],
      [6, { type: 'text_reset', after: 4 }],
      [9, { type: 'text_delta', content: '23' }],
      [10, { type: 'text_delta', content: ' *' }],
      [
        16,
        {
          type: 'tool_approval_requested',
          name: 'bash',
          args: { command: 'rm -rf ./temp' },
          toolCallId: 'call_bash',
          runId,
          kind: 'permission',
        },
      ],
      [
        17,
        {
          type: 'tool_approval_requested',
          name: 'fetch',
          args: { url: 'https://example.com' },
          toolCallId: 'call_fetch~2',
          runId,
          kind: 'permission',
        },
      ],
      [
        18,
        {
          type: 'tool_approval_requested',
          name: 'send_note',
          args: { to: 'ann', text: 'hi' },
          toolCallId: 'call_note',
          runId,
          kind: 'permission',
          earlierDenial: fixture.earlierDenial,
        },
      ],
      [
        19,
        {
          type: 'tool_start',
          name: 'calculator',
          args: { a: 23, b: 47, op: '*' },
          toolCallId: 'call_sum',
        },
      ],
      [
        21,
        {
          type: 'tool_end',
          name: 'calculator',
          result: 1081,
          status: 'succeeded',
          toolCallId: 'call_sum',
        },
      ],
      [
        22,
        {
          ...progress,
          status: 'waiting',
          runState: 'waiting',
          partialOutput: '23 *',
          toolsInvoked: ['calculator'],
        },
      ],
      [
        23,
        {
          ...progress,
          status: 'running',
          runState: 'running',
          partialOutput: '23 *',
          toolsInvoked: ['calculator'],
        },
      ],
      [
        25,
        {
          type: 'tool_start',
          name: 'bash',
          args: { command: 'rm -rf ./tmp' },
          toolCallId: 'call_bash',
        },
      ],
      [
        26,
        {
          type: 'tool_end',
          name: 'bash',
          result: { status: 'error', error: 'No such folder', code: 'tool_failed' },
          status: 'failed',
          toolCallId: 'call_bash',
        },
      ],
      [
        28,
        {
          type: 'tool_end',
          name: 'fetch',
          result: { status: 'expired', reason: 'Nobody answered in time' },
          status: 'expired',
          toolCallId: 'call_fetch~2',
        },
      ],
      [
        30,
        {
          type: 'tool_end',
          name: 'send_note',
          result: { status: 'denied', reason: 'Not now' },
          status: 'denied',
          toolCallId: 'call_note',
        },
      ],
      [31, { type: 'handoff', from: 'assistant', to: 'researcher' }],
      [32, { type: 'agent_switch', agentName: 'researcher' }],
      [
        44,
        {
          type: 'tool_approval_requested',
          name: 'look_up',
          args: { word: 'relay' },
          toolCallId: 'call_look',
          runId,
          kind: 'outcome',
          agentId: subId,
          agentPath: ['researcher', 'helper'],
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
      [
        48,
        {
          type: 'tool_end',
          name: 'look_up',
          result: { status: 'error', error: 'The model is overloaded', code: 'provider_failed' },
          status: 'failed',
          toolCallId: 'call_look',
          agentId: subId,
        },
      ],
      [
        54,
        {
          type: 'agent_summary',
          runId,
          trust: {
            toolsInvoked: ['calculator', 'bash'],
            toolFailures: 2,
            evidenceCitations: [{ toolCallId: 'call_sum', tool: 'calculator' }],
            evidenceHash: 'e5a1',
            confidence: 1 / 3,
            missingEvidence: [],
            verificationSteps: [],
            retryAttempts: 1,
            durationMs: 1200,
          },
        },
      ],
      [55, { type: 'done', runId, status: 'failed', conversationId, finishReason: 'length' }],
    ]);
  });

  /** The types that the runtime's documentation lists, with the fields it gives to each. */
  it.each([
    ['text_delta', [], first('text.appended')],
    ['agent_switch', ['agentName'], first('agent.switched')],
    ['handoff', ['from', 'to'], first('agent.handed-off')],
    [
      'tool_approval_requested',
      ['name', 'args', 'toolCallId', 'runId'],
      first('approval.requested'),
    ],
    ['tool_start', ['name', 'args', 'toolCallId'], first('tool.started')],
    ['tool_end', ['name', 'result', 'status', 'toolCallId'], first('tool.completed')],
    [
      'agent_progress',
      ['runId', 'status', 'partialOutput', 'toolsInvoked', 'runState', 'correlationId'],
      first('run.started'),
    ],
    ['agent_summary', ['runId', 'trust'], first('run.summarized')],
    ['done', ['runId', 'status', 'conversationId'], first('run.ended')],
    ['error', [], first('run.errored')],
  ] as const)('fills every documented field of %s', (type, fields, event) => {
    const shown = frame(event) as Record<string, unknown>;
    expect(shown['type']).toBe(type);
    for (const field of fields) expect(shown[field], field).toBeDefined();
  });

  it('hides the text of sub-agents and puts the agentId on their calls and approvals', () => {
    const sub = { agentId: subId, parentId: rootId };
    const call = { ...sub, toolCallId: 'c1', name: 'bash' };
    expect(
      frame({ type: 'text.appended', ...sub, textId: fixture.subTextId, text: 'x' }),
    ).toBeUndefined();
    const discarded = { turn: 1, textId: fixture.subTextId, after: 3, reason: 'crash' } as const;
    expect(frame({ type: 'turn.discarded', ...sub, ...discarded })).toBeUndefined();
    expect(frame({ type: 'tool.started', ...call, input: {}, idempotencyKey: 'k' })).toHaveProperty(
      'agentId',
      subId,
    );
    expect(frame({ type: 'tool.completed', ...call, result: 1 })).toHaveProperty('agentId', subId);
    expect(frame(first('tool.started'))).not.toHaveProperty('agentId');
  });

  it('shows handoffs of the root agent only', () => {
    const root = { agentId: rootId };
    const sub = { ...root, agentId: subId, parentId: rootId };
    const handed = { type: 'agent.handed-off', from: 'a', to: 'b' } as const;
    const switched = { type: 'agent.switched', name: 'b', model: 'demo', tools: [] } as const;
    expect(frame({ ...handed, ...root })).toEqual({ type: 'handoff', from: 'a', to: 'b' });
    expect(frame({ ...switched, ...root, tools: [] })).toEqual({
      type: 'agent_switch',
      agentName: 'b',
    });
    expect(frame({ ...handed, ...sub })).toBeUndefined();
    expect(frame({ ...switched, ...sub, tools: [] })).toBeUndefined();
  });

  it('shows the result of a tool, else its context, else null', () => {
    const call = { agentId: rootId, toolCallId: 'c1', name: 'read' };
    expect(frame({ type: 'tool.completed', ...call, context: 'text' })).toMatchObject({
      result: 'text',
    });
    expect(frame({ type: 'tool.completed', ...call })).toMatchObject({ result: null });
    expect(frame({ type: 'tool.completed', ...call, result: false })).toMatchObject({
      result: false,
    });
  });

  it.each([
    ['completed', 'succeeded'],
    ['failed', 'failed'],
    ['canceled', 'canceled'],
  ] as const)('calls a run that is %s %s in its last frame', (status, shown) => {
    const usage = { inputTokens: 1, outputTokens: 2 };
    expect(frame({ type: 'run.ended', status, output: 'x', usage })).toEqual({
      type: 'done',
      runId,
      status: shown,
      conversationId,
    });
  });
});
