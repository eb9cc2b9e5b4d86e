import { runStatuses, type RunEvent, type Trust } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import {
  type Command,
  type CommandName,
  commands,
  decide,
  progressOf,
  runTable,
} from '../../../src/run/state/machine.ts';
import { evolve, initialState, type RunState } from '../../../src/run/state/state.ts';

const at = '2026-03-01T10:00:00.000Z';
const root = { agentId: 'root' };
const usage = { inputTokens: 10, outputTokens: 2 };
const error = { code: 'provider_failed', message: 'The model is overloaded', retryable: true };
const trust: Trust = {
  toolsInvoked: ['bash'],
  toolFailures: 0,
  evidenceCitations: [],
  evidenceHash: 'hash',
  confidence: 1,
  missingEvidence: [],
  verificationSteps: [],
  retryAttempts: 0,
  durationMs: 5,
};

const examples: Record<CommandName, Command> = {
  start: { type: 'start', agentId: 'root', agent: 'assistant', model: 'demo' },
  message: {
    type: 'message',
    message: {
      messageId: 'm1',
      deliveryId: 'd1',
      mode: 'immediate',
      from: { type: 'session', id: 's1', name: 'ada' },
      content: 'Wait',
    },
  },
  suspend: { type: 'suspend' },
  resume: { type: 'resume' },
  complete: { type: 'complete', reason: 'completed', trust },
  fail: { type: 'fail', error, trust },
  cancel: { type: 'cancel', reason: 'Stopped by ann', trust },
};

function fold(state: RunState, ...events: readonly RunEvent[]): RunState {
  return events.reduce(
    (before, event) => evolve(before, { ...event, seq: before.seq + 1, at }),
    state,
  );
}

function accepted(state: RunState, command: Command): readonly RunEvent[] {
  const decision = decide(state, command);
  if (!decision.ok) throw new Error(decision.reason);
  return decision.events;
}

function after(state: RunState, name: CommandName): RunState {
  return fold(state, ...accepted(state, examples[name]));
}

function call(toolCallId: string, agent: { agentId: string; parentId?: string } = root): RunEvent {
  return { type: 'tool.called', ...agent, toolCallId, name: 'bash', input: { command: 'ls' } };
}

function requested(
  toolCallId: string,
  agent: { agentId: string; parentId?: string } = root,
): RunEvent {
  const approvalId = `approval of ${toolCallId}`;
  const shown = { tool: 'bash', params: {}, digest: 'd', agentPath: ['a'], expiresAt: at };
  return {
    type: 'approval.requested',
    ...agent,
    approvalId,
    toolCallId,
    kind: 'permission',
    ...shown,
  };
}

const turn: RunEvent = { type: 'turn.started', ...root, turn: 1, textId: 't', reasoningId: 'r' };
const said: RunEvent = { type: 'text.appended', ...root, textId: 't', text: 'Let me look.' };
const finished: RunEvent = {
  type: 'turn.completed',
  ...root,
  turn: 1,
  finishReason: 'tool_calls',
  usage,
};
const started: RunEvent = {
  type: 'tool.started',
  ...root,
  toolCallId: 'c_started',
  name: 'bash',
  input: {},
  idempotencyKey: 'k',
};
const done: RunEvent = {
  type: 'tool.completed',
  ...root,
  toolCallId: 'c_done',
  name: 'bash',
  result: 1,
};

const queued = initialState;
const running = after(queued, 'start');
const answered = fold(running, turn, said, { ...finished, finishReason: 'stop' });
const states: Record<(typeof runStatuses)[number], RunState> = {
  queued,
  running,
  waiting: after(running, 'suspend'),
  completed: after(running, 'complete'),
  failed: after(running, 'fail'),
  canceled: after(running, 'cancel'),
};

/** A run in the middle of a turn with a call in every phase, also one of a sub-agent. */
const sub = { agentId: 'sub', parentId: 'root' };

function spawned(toolCallId: string): RunEvent {
  const work = { toolCallId, nth: 1, task: 'help', tools: [] };
  return { type: 'agent.started', ...sub, name: 'helper', model: 'demo', spawned: work };
}

const busy = fold(
  running,
  turn,
  said,
  call('c_called'),
  call('c_asking'),
  call('c_answered'),
  call('c_started'),
  call('c_done'),
  finished,
  requested('c_asking'),
  requested('c_answered'),
  {
    type: 'approval.decided',
    ...root,
    approvalId: 'approval of c_answered',
    toolCallId: 'c_answered',
    approved: true,
    by: { type: 'key', id: 'k1', name: 'ann' },
  },
  started,
  { ...started, toolCallId: 'c_done' },
  done,
  spawned('c_started'),
  { type: 'turn.started', ...sub, turn: 1, textId: 't2', reasoningId: 'r2' },
  call('c_sub', sub),
  { ...finished, ...sub },
  requested('c_sub', sub),
);

describe('the table of a run', () => {
  it('is total: every status says what each command makes of it', () => {
    expect(Object.keys(runTable)).toEqual([...runStatuses]);
    for (const status of runStatuses) {
      expect(Object.keys(runTable[status]).toSorted()).toEqual([...commands].toSorted());
      for (const command of commands) {
        expect([...runStatuses, 'refused']).toContain(runTable[status][command]);
      }
    }
  });

  it.each(['completed', 'failed', 'canceled'] as const)('lets nothing leave %s (E6)', (status) => {
    expect(new Set(Object.values(runTable[status]))).toEqual(new Set(['refused']));
  });

  it('lets every run that is not over fail and be canceled', () => {
    for (const status of ['queued', 'running', 'waiting'] as const) {
      expect(runTable[status]).toMatchObject({ fail: 'failed', cancel: 'canceled' });
    }
  });

  it.each(runStatuses.flatMap((status) => commands.map((command) => [status, command] as const)))(
    'decides what a run that is %s makes of %s',
    (status, name) => {
      const state = states[status];
      expect(state.status).toBe(status);
      const decision = decide(state, examples[name]);
      const expected = runTable[status][name];
      if (expected === 'refused') {
        expect(decision).toEqual({ ok: false, reason: `A run that is ${status} cannot ${name}` });
      } else {
        expect(decision.ok ? fold(state, ...decision.events).status : 'refused').toBe(expected);
      }
    },
  );
});

describe('starting', () => {
  it('makes the run known first, then its agent', () => {
    expect(accepted(queued, examples.start)).toEqual([
      { type: 'run.started', progress: { partialOutput: '', toolsInvoked: [] } },
      { type: 'agent.started', agentId: 'root', name: 'assistant', model: 'demo' },
    ]);
  });
});

describe('taking a message', () => {
  it('adds it to the root agent, unchanged', () => {
    expect(accepted(running, examples.message)).toEqual([
      {
        type: 'message.added',
        agentId: 'root',
        messageId: 'm1',
        deliveryId: 'd1',
        mode: 'immediate',
        from: { type: 'session', id: 's1', name: 'ada' },
        content: 'Wait',
      },
    ]);
  });

  it('is refused in a turn: while the model writes, and while a call has no result', () => {
    const reason = 'A run in a turn cannot take a message';
    for (const state of [fold(running, turn, said), busy]) {
      expect(decide(state, examples.message)).toEqual({ ok: false, reason });
    }
    const settled = fold(running, turn, call('c_done'), finished, {
      ...started,
      toolCallId: 'c_done',
    });
    expect(decide(fold(settled, done), examples.message).ok).toBe(true);
  });
});

describe('suspending and resuming', () => {
  it('names every approval that a person is being asked, of all agents', () => {
    expect(accepted(busy, examples.suspend)).toEqual([
      {
        type: 'run.suspended',
        progress: { partialOutput: 'Let me look.', toolsInvoked: ['bash'] },
        approvalIds: ['approval of c_asking', 'approval of c_sub'],
      },
    ]);
  });

  it('says how far the run has come', () => {
    expect(accepted(after(busy, 'suspend'), examples.resume)).toEqual([
      {
        type: 'run.resumed',
        progress: { partialOutput: 'Let me look.', toolsInvoked: ['bash'] },
      },
    ]);
  });

  it('shows the last 2,000 characters of a long text, and no more', () => {
    const long = fold(running, turn, { ...said, text: `${'a'.repeat(5000)}end` });
    const { partialOutput } = progressOf(long);
    expect(partialOutput).toHaveLength(2000);
    expect(partialOutput.endsWith('end')).toBe(true);
  });
});

describe('completing', () => {
  it.each(['completed', 'limit'] as const)(
    'ends agent, summary and run, in that order: %s',
    (reason) => {
      const progress = { partialOutput: 'Let me look.', toolsInvoked: [] };
      expect(accepted(answered, { type: 'complete', reason, trust })).toEqual([
        {
          type: 'agent.ended',
          agentId: 'root',
          reason,
          iterations: 1,
          usage,
          finishReason: 'stop',
          progress,
        },
        { type: 'run.summarized', trust },
        {
          type: 'run.ended',
          status: 'completed',
          output: 'Let me look.',
          usage,
          agent,
          finishReason: 'stop',
        },
      ]);
    },
  );

  it('is refused while a tool call has no result', () => {
    expect(decide(busy, examples.complete)).toEqual({
      ok: false,
      reason: 'A run with open tool calls cannot complete',
    });
  });

  it('is possible once every call is settled, and then says nothing about them', () => {
    const settled = fold(running, turn, call('c_done'), finished, {
      ...started,
      toolCallId: 'c_done',
    });
    expect(decide(settled, examples.complete).ok).toBe(false);
    const types = accepted(fold(settled, done), examples.complete).map((event) => event.type);
    expect(types).toEqual(['agent.ended', 'run.summarized', 'run.ended']);
  });
});

/** The name of the root agent. */
const agent = 'assistant';

describe('canceling', () => {
  it('ends of each agent its approvals, its calls in their order, then itself; sub-agents first', () => {
    const reason = 'Stopped by ann';
    const ofBoth = { inputTokens: 20, outputTokens: 4 };
    const failed = { type: 'tool.failed', name: 'bash', error: reason };
    const closed = { type: 'approval.closed', tool: 'bash', kind: 'permission', reason };
    const of = (agent: object, toolCallId: string) => ({ ...agent, toolCallId });
    expect(accepted(busy, examples.cancel)).toEqual([
      { ...closed, ...of(sub, 'c_sub'), approvalId: 'approval of c_sub' },
      { ...failed, ...of(sub, 'c_sub'), code: 'run_canceled' },
      { type: 'agent.ended', ...sub, reason: 'canceled', iterations: 1, usage },
      { ...failed, ...of(root, 'c_called'), code: 'run_canceled' },
      { ...closed, ...of(root, 'c_asking'), approvalId: 'approval of c_asking' },
      { ...failed, ...of(root, 'c_asking'), code: 'run_canceled' },
      { ...failed, ...of(root, 'c_answered'), code: 'run_canceled' },
      {
        ...failed,
        ...of(root, 'c_started'),
        code: 'outcome_unknown',
        error: 'Stopped by ann; the call had begun and may have taken effect, or may still do so',
      },
      {
        type: 'agent.ended',
        ...root,
        reason: 'canceled',
        iterations: 1,
        usage: ofBoth,
        progress: { partialOutput: 'Let me look.', toolsInvoked: ['bash'] },
      },
      { type: 'run.summarized', trust },
      { type: 'run.ended', status: 'canceled', output: 'Let me look.', usage: ofBoth, agent },
    ]);
  });

  it('ends a run that never started with its summary and its end alone', () => {
    expect(accepted(queued, examples.cancel)).toEqual([
      { type: 'run.summarized', trust },
      { type: 'run.ended', status: 'canceled', output: '', usage: initialState.usage },
    ]);
  });

  it('does not end an agent twice', () => {
    const ended = fold(running, turn, call('c_started'), finished, started, spawned('c_started'), {
      type: 'agent.ended',
      ...sub,
      reason: 'completed',
      iterations: 0,
      usage,
    });
    const agents = accepted(ended, examples.cancel).filter((event) => event.type === 'agent.ended');
    expect(agents.map((event) => event.agentId)).toEqual(['root']);
  });

  it('says that a started tool may have had its effect', () => {
    const codes = accepted(busy, examples.cancel).flatMap((event) =>
      event.type === 'tool.failed' ? [[event.toolCallId, event.code]] : [],
    );
    expect(codes).toContainEqual(['c_started', 'outcome_unknown']);
    expect(codes.filter(([, code]) => code === 'outcome_unknown')).toHaveLength(1);
  });

  it('says so too of a call about whose outcome a person was being asked', () => {
    const outcome: RunEvent = { ...requested('c_started'), kind: 'outcome' } as RunEvent;
    const asking = fold(running, turn, call('c_started'), finished, started, outcome);
    expect(accepted(asking, examples.cancel).slice(0, 2)).toMatchObject([
      { type: 'approval.closed', toolCallId: 'c_started' },
      { type: 'tool.failed', toolCallId: 'c_started', code: 'outcome_unknown' },
    ]);
  });
});

describe('failing', () => {
  it('says why first, and again at the end', () => {
    const events = accepted(answered, examples.fail);
    expect(events[0]).toEqual({ type: 'run.errored', agentId: 'root', error });
    expect(events.at(-1)).toEqual({
      type: 'run.ended',
      finishReason: 'stop',
      status: 'failed',
      output: 'Let me look.',
      usage,
      agent,
      error,
    });
  });

  it('settles open calls with its own reason', () => {
    const failures = accepted(busy, examples.fail).filter((event) => event.type === 'tool.failed');
    expect(failures.map(({ toolCallId, code, error: why }) => [toolCallId, code, why])).toEqual([
      ['c_sub', 'provider_failed', error.message],
      ['c_called', 'provider_failed', error.message],
      ['c_asking', 'provider_failed', error.message],
      ['c_answered', 'provider_failed', error.message],
      [
        'c_started',
        'outcome_unknown',
        `${error.message}; the call had begun and may have taken effect, or may still do so`,
      ],
    ]);
  });
});
