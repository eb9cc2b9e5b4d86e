import {
  checkpointEnvelopeSchema,
  type EventOf,
  type RunEvent,
  type StoredEvent,
} from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import type { RunIdentity } from '../../../src/ports/index.ts';
import { boundaryOf, checkpointOf, parseCheckpoint } from '../../../src/run/state/checkpoint.ts';
import { evolve, initialState, type RunState } from '../../../src/run/state/state.ts';

const at = '2026-03-01T10:00:00.000Z';
const id = '01963a5c-7891-7abc-8ef0-123456789abc';
const run: RunIdentity = {
  id,
  tenantId: 'tenant',
  conversationId: 'conversation',
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
};
const root = { agentId: 'root' };
const call = { ...root, toolCallId: 'c1', name: 'bash' };
const progress = { partialOutput: '', toolsInvoked: [] };
const usage = { inputTokens: 0, outputTokens: 0 };

const started: RunEvent = { type: 'run.started', progress };
const agentStarted: RunEvent = { type: 'agent.started', ...root, name: 'assistant', model: 'demo' };
const turn: EventOf<'turn.started'> = {
  type: 'turn.started',
  ...root,
  turn: 1,
  textId: 't',
  reasoningId: 'r',
};
const called: EventOf<'tool.called'> = { type: 'tool.called', ...call, input: {} };
const finished: EventOf<'turn.completed'> = {
  type: 'turn.completed',
  ...root,
  turn: 1,
  finishReason: 'tool_calls',
  usage,
};
const toolStarted: EventOf<'tool.started'> = {
  type: 'tool.started',
  ...call,
  input: {},
  idempotencyKey: 'k',
};
const completed: EventOf<'tool.completed'> = { type: 'tool.completed', ...call, result: 1 };
const failed: RunEvent = { type: 'tool.failed', ...call, error: 'e', code: 'tool_failed' };
const ended: RunEvent = { type: 'run.ended', status: 'completed', output: 'x', usage };
const requested: RunEvent = {
  type: 'approval.requested',
  ...root,
  toolCallId: 'c1',
  approvalId: 'relay',
  kind: 'permission',
  tool: 'bash',
  params: {},
  digest: 'd',
  agentPath: ['assistant'],
  expiresAt: at,
};

function place(...events: readonly RunEvent[]): StoredEvent[] {
  return events.map((event, index) => ({ ...event, seq: index + 1, at }));
}

function fold(events: readonly StoredEvent[]): RunState {
  return events.reduce(evolve, initialState);
}

/** The envelope after a batch that ends a journal. */
function envelopeAfter(...events: readonly RunEvent[]) {
  const placed = place(...events);
  const text = checkpointOf(placed, fold(placed), run);
  return text === undefined ? undefined : parseCheckpoint(text);
}

describe('the boundaries of a run', () => {
  it.each<[string, RunEvent, string | undefined]>([
    ['its start', started, 'resume_request'],
    ['its resumption', { type: 'run.resumed', progress }, 'resume_request'],
    ['the result of a tool', completed, 'tool_completion'],
    ['the error of a tool', failed, 'tool_completion'],
    ['an approval', requested, 'approval_pending'],
    ['its end', ended, 'final_result'],
    ['text', { type: 'text.appended', ...root, textId: 't', text: 'x' }, undefined],
    ['the intent to run a tool', toolStarted, undefined],
    ['the end of a turn', finished, undefined],
  ])('are marked by %s', (_what, event, kind) => {
    expect(boundaryOf({ ...event, seq: 1, at })).toBe(kind);
  });
});

describe('a checkpoint', () => {
  it('is not written where there is no boundary', () => {
    expect(envelopeAfter(agentStarted, turn)).toBeUndefined();
    expect(checkpointOf([], initialState, run)).toBeUndefined();
  });

  it('points at the end of its batch, for the agent that works', () => {
    const envelope = envelopeAfter(started, agentStarted, turn);
    expect(envelope).toEqual({
      version: 1,
      serializedRunState: JSON.stringify({ runId: id, seq: 3, agent: 'assistant' }),
      checkpoint: { kind: 'resume_request', at, runId: id, correlationId: 'req-7' },
    });
  });

  it('names the agent that took over', () => {
    const envelope = envelopeAfter(started, agentStarted, {
      type: 'agent.switched',
      ...root,
      name: 'expert',
      model: 'demo',
      tools: [],
    });
    expect(JSON.parse(envelope?.serializedRunState ?? '')).toMatchObject({ agent: 'expert' });
  });

  it('names the root agent even where a sub-agent’s tool is what it marks', () => {
    const of = { agentId: 'sub', parentId: 'root' };
    const spawned = { toolCallId: 'c1', nth: 1, task: 'look', tools: ['bash'] };
    const envelope = envelopeAfter(
      started,
      agentStarted,
      turn,
      called,
      finished,
      { ...toolStarted, via: 'agent' },
      { type: 'agent.started', ...of, name: 'helper', model: 'demo', spawned },
      { ...turn, ...of },
      { ...called, ...of, toolCallId: 'c2' },
      { ...finished, ...of },
      { ...toolStarted, ...of, toolCallId: 'c2' },
      { ...completed, ...of, toolCallId: 'c2' },
    );
    expect(JSON.parse(envelope?.serializedRunState ?? '')).toMatchObject({ agent: 'assistant' });
    expect(envelope?.checkpoint.tool).toEqual({ name: 'bash', toolCallId: 'c2' });
  });

  it('names the tool that finished or that a person is asked about', () => {
    const before = [started, agentStarted, turn, called, finished];
    const tool = { name: 'bash', toolCallId: 'c1' };
    expect(envelopeAfter(...before, requested)?.checkpoint).toMatchObject({
      kind: 'approval_pending',
      tool,
    });
    expect(envelopeAfter(...before, toolStarted, completed)?.checkpoint).toMatchObject({
      kind: 'tool_completion',
      tool,
    });
    expect(envelopeAfter(...before, failed)?.checkpoint).toMatchObject({ tool });
  });

  it('is of the last boundary of its batch', () => {
    const envelope = envelopeAfter(
      started,
      agentStarted,
      turn,
      called,
      finished,
      failed,
      { type: 'agent.ended', ...root, reason: 'completed', iterations: 1, usage },
      ended,
    );
    expect(envelope?.checkpoint.kind).toBe('final_result');
    expect(envelope?.checkpoint).not.toHaveProperty('tool');
  });

  const spoken = (text: string) => [
    started,
    agentStarted,
    turn,
    { type: 'text.appended', ...root, textId: 't', text } as const,
    called,
    finished,
  ];

  it('notes the end of the text before a tool result and before an approval', () => {
    const before = spoken('Let me see.');
    const note = 'Let me see.';
    expect(envelopeAfter(...before, requested)?.checkpoint).toMatchObject({ note });
    expect(envelopeAfter(...before, toolStarted, completed)?.checkpoint).toMatchObject({ note });
    const resumed: RunEvent = { type: 'run.resumed', progress };
    const suspended: RunEvent = { type: 'run.suspended', progress, approvalIds: [] };
    for (const events of [
      spoken(''),
      [...before, requested, suspended, resumed],
      [started, agentStarted, ended],
    ]) {
      expect(envelopeAfter(...events)?.checkpoint).not.toHaveProperty('note');
    }
    expect(envelopeAfter(...spoken(''), requested)?.checkpoint).not.toHaveProperty('note');
  });

  it('notes 200 characters at most, and none by half', () => {
    const noteAfter = (text: string) => envelopeAfter(...spoken(text), requested)?.checkpoint.note;
    expect(noteAfter('x'.repeat(200))).toBe('x'.repeat(200));
    expect(noteAfter(`a${'x'.repeat(200)}`)).toBe('x'.repeat(200));
    expect(noteAfter('😀'.repeat(150))).toBe('😀'.repeat(100));
    expect(noteAfter(`${'😀'.repeat(150)}.`)).toBe(`${'😀'.repeat(99)}.`);
    expect(noteAfter('\u0000"\n')).toBe('\u0000"\n');
  });

  it('stays small however long the text is: it refers to the journal', () => {
    const words = 'A long answer. '.repeat(10_000);
    const placed = place(
      started,
      agentStarted,
      turn,
      { type: 'text.appended', ...root, textId: 't', text: words },
      called,
      finished,
      { ...completed, context: words },
    );
    const text = checkpointOf(placed, fold(placed), run) ?? '';
    expect(text.length).toBeGreaterThan(0);
    expect(text.length).toBeLessThan(600);
    expect(text.split('A long answer').length).toBeLessThan(15);
  });
});

describe('parseCheckpoint', () => {
  const valid = {
    version: 1,
    serializedRunState: '{}',
    checkpoint: { kind: 'final_result', at, runId: id, correlationId: 'req-7' },
  };

  it('reads what is valid', () => {
    expect(parseCheckpoint(JSON.stringify(valid))).toEqual(checkpointEnvelopeSchema.parse(valid));
  });

  it.each([
    [{ ...valid, version: 2 }, /version 2; this server reads version 1/],
    [{ ...valid, version: '1' }, /this server reads version 1/],
    [{}, /version undefined/],
    [null, /version undefined/],
    [{ version: 1 }, /malformed/],
    [{ ...valid, checkpoint: {} }, /malformed/],
  ])('refuses %j with a clear error', (value, message) => {
    expect(() => parseCheckpoint(JSON.stringify(value))).toThrow(
      expect.objectContaining({ code: 'journal_corrupt', message: expect.stringMatching(message) }),
    );
  });

  it('refuses what is not JSON with the same clear error', () => {
    expect(() => parseCheckpoint('{"version":1,')).toThrow(
      expect.objectContaining({ code: 'journal_corrupt' }),
    );
  });
});
