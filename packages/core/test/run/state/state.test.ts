import type { EventOf, RunEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { openCalls } from '../../../src/run/state/agent.ts';
import { runTable } from '../../../src/run/state/machine.ts';
import { evolve, initialState, rootAgent, type RunState } from '../../../src/run/state/state.ts';

const at = '2026-03-01T10:00:00.000Z';
const root = { agentId: 'root' };
const progress = { partialOutput: '', toolsInvoked: [] };
const usage = { inputTokens: 10, outputTokens: 2 };
const by = { type: 'key', id: 'k1', name: 'ann' } as const;
const trust = {
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

function deepFreeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) deepFreeze(part);
    Object.freeze(value);
  }
  return value;
}

/** Folds events over a state that nobody can change by accident. */
function fold(state: RunState, ...events: readonly RunEvent[]): RunState {
  return events.reduce(
    (before, event) =>
      evolve(deepFreeze(before), deepFreeze({ ...event, seq: before.seq + 1, at })),
    state,
  );
}

const created: EventOf<'run.created'> = {
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
};
const started: RunEvent = { type: 'run.started', progress };
const suspended: RunEvent = { type: 'run.suspended', progress, approvalIds: [] };
const resumed: RunEvent = { type: 'run.resumed', progress };
const agentStarted: RunEvent = { type: 'agent.started', ...root, name: 'assistant', model: 'demo' };
const agentEnded: RunEvent = {
  type: 'agent.ended',
  ...root,
  reason: 'completed',
  iterations: 1,
  usage,
};
const ended: RunEvent = { type: 'run.ended', status: 'completed', output: '', usage };

function turn(n: number): RunEvent {
  return { type: 'turn.started', ...root, turn: n, textId: `text_${n}`, reasoningId: `why_${n}` };
}

function text(words: string): RunEvent {
  return { type: 'text.appended', ...root, textId: 'text_1', text: words };
}

function call(toolCallId: string): RunEvent {
  return { type: 'tool.called', ...root, toolCallId, name: 'bash', input: { command: 'ls' } };
}

function finished(n: number): RunEvent {
  return { type: 'turn.completed', ...root, turn: n, finishReason: 'stop', usage };
}

function discarded(n: number, reason: 'retry' | 'crash'): RunEvent {
  return { type: 'turn.discarded', ...root, turn: n, textId: `text_${n}`, after: 4, reason };
}

function start(toolCallId: string, rule?: EventOf<'tool.started'>['rule']): RunEvent {
  const input = { command: 'ls' };
  const intent = { ...root, toolCallId, name: 'bash', input, idempotencyKey: `run:${toolCallId}` };
  return { type: 'tool.started', ...intent, ...(rule === undefined ? {} : { rule }) };
}

function done(toolCallId: string): RunEvent {
  return { type: 'tool.completed', ...root, toolCallId, name: 'bash', result: 'x'.repeat(100) };
}

function failed(toolCallId: string): RunEvent {
  return {
    type: 'tool.failed',
    ...root,
    toolCallId,
    name: 'bash',
    error: 'e',
    code: 'tool_failed',
  };
}

function denied(toolCallId: string): RunEvent {
  return { type: 'tool.denied', ...root, toolCallId, name: 'bash', status: 'denied' };
}

function requested(toolCallId: string, approvalId: string): RunEvent {
  const shown = { tool: 'bash', params: {}, digest: 'd', agentPath: ['assistant'] };
  const when = { expiresAt: '2026-03-02T10:00:00.000Z' };
  return {
    type: 'approval.requested',
    ...root,
    approvalId,
    toolCallId,
    kind: 'permission',
    ...shown,
    ...when,
  };
}

function decided(toolCallId: string, approvalId: string, reason?: string): RunEvent {
  const approved = reason === undefined;
  const why = reason === undefined ? {} : { reason };
  return { type: 'approval.decided', ...root, approvalId, toolCallId, approved, ...why, by };
}

const recalled: EventOf<'memory.recalled'> = {
  type: 'memory.recalled',
  ...root,
  namespace: 'n',
  memories: [],
};

const added: EventOf<'message.added'> = {
  type: 'message.added',
  ...root,
  messageId: 'm1',
  deliveryId: 'd1',
  mode: 'next-message',
  from: { type: 'session', id: 's1', name: 'ada' },
  content: 'Wait',
};

const begun = fold(initialState, created, started, agentStarted);
const asked = fold(begun, turn(1), text('Let me look.'), call('c1'), call('c2'), finished(1));

describe('the fold of a journal', () => {
  it('follows the status of the run through its events', () => {
    expect(fold(initialState, created).status).toBe('queued');
    expect(begun.status).toBe('running');
    expect(fold(begun, suspended).status).toBe('waiting');
    expect(fold(begun, suspended, resumed).status).toBe('running');
    for (const status of ['completed', 'failed', 'canceled'] as const) {
      expect(fold(begun, agentEnded, { ...ended, status }).status).toBe(status);
    }
  });

  it('knows when the run started and which agent is its root', () => {
    expect(begun).toMatchObject({ seq: 3, startedAt: at, rootId: 'root' });
    expect(rootAgent(begun)).toMatchObject({ id: 'root', name: 'assistant', parentId: null });
    expect(rootAgent(fold(begun, suspended, resumed))?.id).toBe('root');
    expect(rootAgent(initialState)).toBeUndefined();
  });

  it('knows that memories were recalled', () => {
    expect(begun.recalled).toBe(false);
    expect(fold(begun, recalled).recalled).toBe(true);
    const stored: RunEvent = { type: 'memory.stored', ...root, namespace: 'n', memoryId: 'm' };
    expect(fold(begun, recalled, stored)).toMatchObject({ recalled: true, seq: begun.seq + 2 });
  });

  it('knows which messages no model call has read: those of the input, and those that were added', () => {
    const received = [{ messageId: 'm0', deliveryId: 'd0' }, { messageId: 'm00' }];
    const input = fold(initialState, { ...created, received }, started, agentStarted);
    expect(input.unread).toEqual(received);
    const more = fold(input, added);
    expect(more.unread).toEqual([...received, { messageId: 'm1', deliveryId: 'd1' }]);
    const read = fold(more, turn(1));
    expect(read.unread).toEqual([]);
    const discarded: RunEvent = {
      type: 'turn.discarded',
      ...root,
      turn: 1,
      textId: 't1',
      after: 1,
      reason: 'message',
    };
    expect(fold(read, discarded, added).unread).toEqual([{ messageId: 'm1', deliveryId: 'd1' }]);
  });

  it('gathers the text and the calls of the current turn', () => {
    const now = fold(begun, turn(1), text('Let '), text('me'), call('c1'));
    expect(rootAgent(now)?.turn).toEqual({
      turn: 1,
      startedSeq: 4,
      textId: 'text_1',
      reasoningId: 'why_1',
      text: { blocks: '', tail: 'Let me' },
      calls: [{ toolCallId: 'c1', name: 'bash', input: { command: 'ls' }, phase: 'called' }],
      finish: null,
    });
  });

  it('counts a turn and its tokens when the model has finished, for the agent and for the run', () => {
    const now = fold(begun, turn(1), finished(1), turn(2), finished(2));
    expect(now.usage).toEqual({ inputTokens: 20, outputTokens: 4 });
    expect(rootAgent(now)).toMatchObject({
      iterations: 2,
      usage: { inputTokens: 20, outputTokens: 4 },
    });
  });

  it('forgets a discarded turn, and counts it if it was a retry', () => {
    const retried = fold(begun, turn(1), text('half'), discarded(1, 'retry'));
    expect(rootAgent(retried)).toMatchObject({ turn: null, iterations: 0 });
    expect(retried.retries).toBe(1);
    expect(fold(begun, turn(1), discarded(1, 'crash')).retries).toBe(0);
  });

  it('has the name of the agent that it was switched to', () => {
    const handed = { type: 'agent.handed-off', ...root, from: 'assistant', to: 'expert' } as const;
    const taken = { name: 'expert', model: 'big', tools: [] };
    const now = fold(begun, handed, { type: 'agent.switched', ...root, ...taken });
    expect(rootAgent(now)).toMatchObject({ name: 'expert', model: 'big' });
    expect(rootAgent(fold(begun, handed))?.name).toBe('assistant');
  });

  it('lists the calls without a result', () => {
    const open = (state: RunState) => {
      const agent = rootAgent(state);
      return agent === undefined ? [] : openCalls(agent).map((each) => each.toolCallId);
    };
    expect(open(asked)).toEqual(['c1', 'c2']);
    expect(open(fold(asked, denied('c1')))).toEqual(['c2']);
    expect(open(fold(asked, start('c2'), done('c2')))).toEqual(['c1']);
    expect(open(fold(asked, failed('c1'), failed('c2')))).toEqual([]);
    expect(open(begun)).toEqual([]);
  });

  it('counts tool results, and names each tool that ran once', () => {
    const now = fold(asked, start('c1'), start('c2'), done('c1'), failed('c2'));
    expect(now).toMatchObject({ toolsInvoked: ['bash'], toolsSucceeded: 1, toolsFailed: 1 });
    expect(fold(asked, denied('c1')).toolsInvoked).toEqual([]);
  });

  it('records an allow-once rule when its call starts, and not when it starts again (E7)', () => {
    const rule = { list: 'allowOnce', index: 3, source: 'request' } as const;
    const now = fold(asked, start('c1', rule), start('c1'), done('c1'));
    expect(now.usedOnce).toEqual([3]);
    const other = { list: 'allowlist', index: 1, source: 'request' } as const;
    expect(fold(now, start('c2', other)).usedOnce).toEqual([3]);
  });

  it('keeps who answered an approval, and how', () => {
    const now = fold(
      asked,
      requested('c1', 'r1'),
      requested('c2', 'r2'),
      decided('c1', 'r1'),
      decided('c2', 'r2', 'Not now'),
    );
    expect(now.approvals).toEqual([
      { toolCallId: 'c1', name: 'bash', action: 'approve', by: 'ann', at },
      { toolCallId: 'c2', name: 'bash', action: 'reject', by: 'ann', at, reason: 'Not now' },
    ]);
  });

  it('is the same after a round trip through JSON, so that a snapshot can stand for it', () => {
    const now = fold(asked, requested('c1', 'r1'), decided('c1', 'r1'), start('c1'), start('c2'));
    const snapshot = JSON.parse(JSON.stringify(now)) as RunState;
    expect(snapshot).toStrictEqual(now);
    expect(fold(snapshot, done('c2'))).toStrictEqual(fold(now, done('c2')));
  });
});

describe('the size of the state', () => {
  /** A turn with two calls, one of which fails, and a turn that had to be asked twice. */
  function busyTurn(state: RunState, n: number): RunState {
    return fold(
      state,
      turn(n),
      text('half'),
      discarded(n, 'retry'),
      turn(n),
      text('The whole answer of this turn. '.repeat(20)),
      call(`call_${n % 10}`),
      call(`other_${n % 10}`),
      finished(n),
      start(`call_${n % 10}`),
      done(`call_${n % 10}`),
      failed(`other_${n % 10}`),
    );
  }

  it('does not grow with the number of turns that are over', () => {
    let state = begun;
    const sizes: number[] = [];
    for (let n = 1; n <= 500; n += 1) {
      state = busyTurn(state, n);
      sizes.push(JSON.stringify(state).length);
    }
    const digitsOfCounters = 40;
    expect((sizes.at(-1) ?? 0) - (sizes.at(0) ?? 0)).toBeLessThan(digitsOfCounters);
  });
});

describe('a journal that contradicts itself', () => {
  const refused = expect.objectContaining({ code: 'journal_corrupt' }) as Error;

  it.each([
    ['a gap', 2],
    ['a repeat', 0],
    ['a step back', -1],
  ])('is refused for %s', (_what, step) => {
    const event = { ...started, at, seq: begun.seq + step };
    expect(() => evolve(begun, event)).toThrow(refused);
  });

  it.each<[string, RunState, RunEvent]>([
    ['a turn of an agent that never started', begun, { ...turn(1), agentId: 'ghost' } as RunEvent],
    ['text outside a turn', begun, text('x')],
    ['a call outside a turn', begun, call('c1')],
    ['the end of a turn that never began', begun, finished(1)],
    ['the start of a call that was never made', asked, start('c9')],
    ['a result of a call that was never made', asked, done('c9')],
    ['a second result', fold(asked, start('c1'), done('c1')), done('c1')],
    ['a result after a denial', fold(asked, denied('c1')), done('c1')],
    ['a denial of what has started', fold(asked, start('c1')), denied('c1')],
    ['a start while a person is asked', fold(asked, requested('c1', 'r1')), start('c1')],
    ['a result while a person is asked', fold(asked, requested('c1', 'r1')), done('c1')],
    ['an answer that nobody asked for', asked, decided('c1', 'r1')],
    ['text after the agent has ended', fold(begun, agentEnded), text('x')],
    ['a message while the model writes', fold(begun, turn(1)), added],
    ['a message while calls are open', asked, added],
    ['a message to another agent', begun, { ...added, agentId: 'ghost' }],
    ['a message to a suspended run', fold(begun, suspended), added],
    ['a message after the agent has ended', fold(begun, agentEnded), added],
  ])('is refused for %s', (_what, state, event) => {
    expect(() => fold(state, event)).toThrow(refused);
  });

  it('is refused for anything that follows the end of the run (E6)', () => {
    const over = fold(begun, agentEnded, ended);
    const summary: RunEvent = { type: 'run.summarized', trust };
    const late: RunEvent = { ...agentStarted, agentId: 'late' };
    const of = { ...root, toolCallId: 'c1', name: 'bash' };
    const chatter: RunEvent = { type: 'tool.progressed', ...of, progressId: 'p1', content: 'hi' };
    for (const event of [ended, resumed, suspended, started, late, summary, chatter]) {
      expect(() => fold(over, event), event.type).toThrow(refused);
    }
  });

  it('is refused for a change of status that the table of the run does not have', () => {
    const queued = fold(initialState, created);
    const waiting = fold(begun, suspended);
    const statuses = [queued, begun, waiting];
    const steps = { start: started, suspend: suspended, resume: resumed, complete: ended } as const;
    for (const state of statuses) {
      for (const [command, event] of Object.entries(steps)) {
        if (runTable[state.status][command as keyof typeof steps] !== 'refused') continue;
        expect(() => fold(state, event), `${event.type} while ${state.status}`).toThrow(refused);
      }
    }
  });

  it.each<[string, RunState, RunEvent]>([
    ['a second beginning', begun, created],
    ['a second look into memory', fold(begun, recalled), recalled],
    ['a look into memory by nobody', begun, { ...recalled, agentId: 'nobody' }],
    ['a new turn over calls that still owe a result (E6)', asked, turn(2)],
    ['a discarded turn with calls that still owe a result (E6)', asked, discarded(1, 'crash')],
    ['an agent that ends with calls that still owe a result (E6)', asked, agentEnded],
    ['two calls with one id (E6)', fold(begun, turn(1), call('c1')), call('c1')],
  ])('is refused for %s', (_what, state, event) => {
    expect(() => fold(state, event)).toThrow(refused);
  });
});
