/** The events of one agent, for tests that write a journal by hand. */
import { type EventOf, noUsage, type RunEvent, type Trust, type Usage } from '@relay/protocol';
import { evolve, type RunState } from '../../src/run/state/state.ts';

export const at = '2026-03-01T10:00:00.000Z';
export const oneTurn: Usage = { inputTokens: 10, outputTokens: 2 };
export const noTrust: Trust = {
  toolsInvoked: [],
  toolFailures: 0,
  evidenceCitations: [],
  evidenceHash: '',
  confidence: null,
  missingEvidence: [],
  verificationSteps: [],
  retryAttempts: 0,
  durationMs: 0,
};

export const runStarted: RunEvent = {
  type: 'run.started',
  progress: { partialOutput: '', toolsInvoked: [] },
};

export function runCreated(more: Partial<EventOf<'run.created'>> = {}): EventOf<'run.created'> {
  return {
    type: 'run.created',
    surface: 'runs',
    agent: 'assistant',
    model: 'demo',
    conversationId: 'conversation',
    correlationId: 'correlation',
    messages: [{ role: 'user', content: 'hi' }],
    history: null,
    tools: ['bash'],
    permissions: {},
    maxIterations: 10,
    labels: {},
    ...more,
  };
}

export interface OfAgent {
  readonly agentId: string;
  readonly parentId?: string;
}

export function eventsOf(of: OfAgent) {
  const call = (toolCallId: string) => ({ ...of, toolCallId, name: 'bash' });
  const approval = (toolCallId: string) => ({
    ...of,
    toolCallId,
    approvalId: `approval of ${toolCallId}`,
  });
  return {
    started: { type: 'agent.started', ...of, name: of.agentId, model: 'demo' },
    spawnedBy: (toolCallId: string, more: Partial<Spawned> = {}): RunEvent => ({
      type: 'agent.started',
      ...of,
      name: of.agentId,
      model: 'demo',
      spawned: { toolCallId, nth: 1, task: `work for ${toolCallId}`, tools: ['bash'], ...more },
    }),
    ended: (more: Partial<EventOf<'agent.ended'>> = {}): RunEvent => ({
      type: 'agent.ended',
      ...of,
      reason: 'completed',
      iterations: 1,
      usage: noUsage,
      ...more,
    }),
    turn: { type: 'turn.started', ...of, turn: 1, textId: 't', reasoningId: 'r' },
    said: (text: string): RunEvent => ({ type: 'text.appended', ...of, textId: 't', text }),
    discarded: (reason: EventOf<'turn.discarded'>['reason'] = 'retry'): RunEvent => ({
      type: 'turn.discarded',
      ...of,
      turn: 1,
      textId: 't',
      after: 1,
      reason,
    }),
    completed: {
      type: 'turn.completed',
      ...of,
      turn: 1,
      finishReason: 'stop',
      usage: oneTurn,
    },
    called: (id: string): RunEvent => ({ type: 'tool.called', ...call(id), input: {} }),
    start: (id: string, more: Partial<EventOf<'tool.started'>> = {}): RunEvent => ({
      type: 'tool.started',
      ...call(id),
      input: {},
      idempotencyKey: `run:${id}`,
      ...more,
    }),
    done: (id: string, context = `result of ${id}`): RunEvent => ({
      type: 'tool.completed',
      ...call(id),
      context,
    }),
    failed: (id: string): RunEvent => ({
      type: 'tool.failed',
      ...call(id),
      error: 'It broke',
      code: 'tool_failed',
    }),
    denied: (id: string): RunEvent => ({ type: 'tool.denied', ...call(id), status: 'denied' }),
    requested: (id: string, more: Partial<EventOf<'approval.requested'>> = {}): RunEvent => ({
      type: 'approval.requested',
      ...approval(id),
      kind: 'permission',
      tool: 'bash',
      params: {},
      digest: 'd',
      agentPath: [of.agentId],
      expiresAt: at,
      ...more,
    }),
    decided: (id: string, approved = true): RunEvent => ({
      type: 'approval.decided',
      ...approval(id),
      approved,
      by: { type: 'key', id: 'k1', name: 'ann' },
    }),
    compacted: (more: Partial<EventOf<'context.compacted'>> = {}): RunEvent => ({
      type: 'context.compacted',
      ...of,
      model: 'demo',
      summary: 'In short',
      ofHistory: 0,
      ofRun: 1,
      generation: 0,
      usage: oneTurn,
      ...more,
    }),
  } as const satisfies Record<string, RunEvent | ((...given: never[]) => RunEvent)>;
}

type Spawned = NonNullable<EventOf<'agent.started'>['spawned']>;

/** The state after events, each in its place. Nothing on the way can be changed by accident. */
export function fold(state: RunState, ...events: readonly RunEvent[]): RunState {
  return events.reduce(
    (before, event) =>
      evolve(deepFreeze(before), deepFreeze({ ...event, seq: before.seq + 1, at })),
    state,
  );
}

export function deepFreeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}
