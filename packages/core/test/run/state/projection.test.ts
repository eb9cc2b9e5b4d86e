import type { RunEvent, StoredEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import type { RunIdentity } from '../../../src/ports/index.ts';
import { eventsOf } from '../../support/agent-events.ts';
import { project } from '../../../src/run/state/projection.ts';
import { readSnapshot, rootAgent } from '../../../src/run/state/state.ts';
import { evolve, initialState, type RunState } from '../../../src/run/state/state.ts';

const at = '2026-03-01T10:00:00.000Z';
const now = Date.parse(at);
const run: RunIdentity = {
  id: '01963a5c-7891-7abc-8ef0-123456789abc',
  tenantId: 'tenant',
  conversationId: 'conversation',
  correlationId: 'req-7',
  surface: 'runs',
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
const usage = { inputTokens: 10, outputTokens: 2 };
const progress = { partialOutput: '', toolsInvoked: [] };
const by = { type: 'key', id: 'k1', name: 'ann' } as const;

const started: RunEvent = { type: 'run.started', progress };
const suspended: RunEvent = { type: 'run.suspended', progress, approvalIds: ['r1', 'r2'] };
const resumed: RunEvent = { type: 'run.resumed', progress };
const agentStarted: RunEvent = { type: 'agent.started', ...root, name: 'assistant', model: 'demo' };
const turn: RunEvent = { type: 'turn.started', ...root, turn: 1, textId: 't', reasoningId: 'r' };
const text: RunEvent = { type: 'text.appended', ...root, textId: 't', text: 'Let me look.' };
const finished: RunEvent = {
  type: 'turn.completed',
  ...root,
  turn: 1,
  finishReason: 'tool_calls',
  usage,
};

function call(toolCallId: string): RunEvent {
  return { type: 'tool.called', ...root, toolCallId, name: 'bash', input: { command: 'ls' } };
}

function requested(toolCallId: string, approvalId: string, expiresAt: string): RunEvent {
  return {
    type: 'approval.requested',
    ...root,
    approvalId,
    toolCallId,
    kind: 'permission',
    tool: 'bash',
    params: { command: 'ls' },
    digest: 'digest',
    agentPath: ['assistant'],
    expiresAt,
  };
}

function decided(toolCallId: string, approvalId: string): RunEvent {
  return { type: 'approval.decided', ...root, approvalId, toolCallId, approved: true, by };
}

function expired(toolCallId: string, approvalId: string): RunEvent[] {
  return [
    { type: 'approval.expired', ...root, approvalId, toolCallId },
    { type: 'tool.denied', ...root, toolCallId, name: 'bash', status: 'expired', approvalId },
  ];
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

const sub = eventsOf({ agentId: 'sub', parentId: 'root' });

/** A call whose work a sub-agent does. */
function delegated(toolCallId: string): RunEvent[] {
  return [eventsOf(root).start(toolCallId, { via: 'agent' }), sub.spawnedBy(toolCallId)];
}

function subAsks(id: string, approvalId: string, expiresAt: string): RunEvent[] {
  const asking = { approvalId, expiresAt, agentPath: ['assistant', 'sub'] };
  return [sub.turn, sub.called(id), sub.completed, sub.requested(id, asking)];
}

/** A batch that follows a state: what it projects to, and the state after it. */
function step(before: RunState, ...events: readonly RunEvent[]) {
  const placed: StoredEvent[] = events.map((event, index) => ({
    ...event,
    seq: before.seq + index + 1,
    at,
  }));
  const state = placed.reduce(evolve, before);
  return { state, ...project(placed, state, run) };
}

const soon = '2026-03-01T11:00:00.000Z';
const later = '2026-03-02T10:00:00.000Z';
const begun = step(initialState, started, agentStarted).state;
const asked = step(begun, turn, text, call('c1'), call('c2'), finished).state;
const waiting = step(
  asked,
  requested('c1', 'r1', later),
  requested('c2', 'r2', soon),
  suspended,
).state;

function output(value: { progress: { outputJson?: string | null } }): unknown {
  return JSON.parse(value.progress.outputJson ?? 'null');
}

describe('the rows beside the journal', () => {
  it('stay as they are while only text, reasoning and progress come in', () => {
    const inTurn = step(begun, turn).state;
    const of = { ...root, toolCallId: 'c1', name: 'bash', progressId: 'p', content: 'x' };
    const {
      progress: changed,
      approvals,
      closeApprovals,
    } = step(
      inTurn,
      text,
      { type: 'reasoning.appended', ...root, reasoningId: 'r', text: 'hm' },
      { type: 'tool.progressed', ...of },
    );
    expect({ changed, approvals, closeApprovals }).toEqual({
      changed: {},
      approvals: [],
      closeApprovals: [],
    });
    expect(project([], inTurn, run)).toEqual({
      progress: {},
      approvals: [],
      closeApprovals: [],
      clientCalls: [],
      abandonedCalls: [],
      useGrants: [],
      madeProgress: false,
    });
  });

  it('say whether the run made progress, or only what every recovery repeats', () => {
    expect(step(begun, turn, text).madeProgress).toBe(false);
    expect(step(begun, turn, text, finished).madeProgress).toBe(true);
    expect(step(asked, failed('c1')).madeProgress).toBe(true);
  });

  it('say what the run is and what it has used, after every other batch', () => {
    expect(step(begun, turn, text, finished).progress).toMatchObject({ status: 'running', usage });
    expect(step(asked, failed('c1')).progress).toMatchObject({ status: 'running', usage });
  });

  it('say when the run started', () => {
    expect(step(initialState, started, agentStarted).progress).toMatchObject({
      status: 'running',
      startedAt: now,
    });
    expect(step(asked, failed('c1')).progress).not.toHaveProperty('startedAt');
  });

  it('hold a snapshot from each turn after the first, of the state after its whole batch', () => {
    const answered = step(asked, failed('c1'), failed('c2'));
    expect(answered.progress).not.toHaveProperty('snapshot');
    const { progress: changed, state } = step(answered.state, { ...turn, turn: 2 }, text);
    expect(readSnapshot(changed.snapshot ?? null)).toStrictEqual(state);
    expect(changed.snapshotSeq).toBe(state.seq);
    expect(step(begun, turn, text).progress).not.toHaveProperty('snapshot');
  });

  it('hold the checkpoint of the batch', () => {
    const { checkpoint } = step(asked, requested('c1', 'r1', later)).progress;
    expect(JSON.parse(checkpoint ?? '')).toMatchObject({
      version: 1,
      checkpoint: { kind: 'approval_pending', tool: { name: 'bash', toolCallId: 'c1' } },
    });
    expect(step(begun, turn).progress).not.toHaveProperty('checkpoint');
  });
});

describe('a run that waits', () => {
  it('is woken when the first of its approvals expires', () => {
    const { progress: changed } = step(
      asked,
      requested('c1', 'r1', later),
      requested('c2', 'r2', soon),
      suspended,
    );
    expect(changed).toMatchObject({ status: 'waiting', wakeAt: Date.parse(soon) });
  });

  it('is woken at its time limit, if that comes first', () => {
    const requests = [requested('c1', 'r1', later), requested('c2', 'r2', soon)];
    const limited = (timeMs: number) =>
      step({ ...asked, limits: { timeMs } }, ...requests, suspended).progress.wakeAt;
    expect(limited(60_000)).toBe(now + 60_000);
    expect(limited(2 * 60 * 60 * 1000)).toBe(Date.parse(soon));
    expect(step({ ...asked, limits: { timeMs: 5 } }, suspended).progress.wakeAt).toBe(now + 5);
    expect(step(asked, suspended).progress.wakeAt).toBeNull();
  });

  it('waits for the approvals of its sub-agents too, and shows their calls as pending', () => {
    const { state } = step(asked, failed('c2'), ...delegated('c1'), ...subAsks('s1', 'r9', soon));
    const parked = step(state, suspended);
    expect(parked.progress.wakeAt).toBe(Date.parse(soon));
    expect(output(parked)).toMatchObject({
      pendingApproval: { toolCallId: 's1', approvalId: 'r9' },
    });
  });

  it('has no wake-up time once it is resumed', () => {
    expect(step(waiting, resumed).progress).toMatchObject({ status: 'running', wakeAt: null });
  });

  it('waits again only for approvals that are still open', () => {
    const { state } = step(waiting, resumed, ...expired('c2', 'r2'));
    expect(step(state, suspended).progress.wakeAt).toBe(Date.parse(later));
  });

  it('shows the call that is pending, with its arguments and its approval', () => {
    const shown = output(step(asked, requested('c1', 'r1', later), suspended));
    const pendingApproval = {
      toolCallId: 'c1',
      name: 'bash',
      args: { command: 'ls' },
      approvalId: 'r1',
      kind: 'permission',
      seq: asked.seq + 1,
    };
    expect(shown).toEqual({
      output: null,
      approvals: [],
      pendingApprovals: [pendingApproval],
      pendingApproval,
    });
  });

  it('shows every call that is pending as soon as it is requested, and the first by itself', () => {
    const shown = output(step(asked, requested('c1', 'r1', later), requested('c2', 'r2', later)));
    expect(shown).toMatchObject({
      pendingApprovals: [{ toolCallId: 'c1' }, { toolCallId: 'c2' }],
      pendingApproval: { toolCallId: 'c1' },
    });
  });

  it('shows who answered what, and what is pending after that', () => {
    const pending = {
      toolCallId: 'c2',
      name: 'bash',
      args: { command: 'ls' },
      approvalId: 'r2',
      kind: 'permission',
      seq: expect.any(Number),
    };
    expect(output(step(waiting, resumed, decided('c1', 'r1')))).toEqual({
      output: null,
      approvals: [{ toolCallId: 'c1', name: 'bash', action: 'approve', by: 'ann', at }],
      pendingApprovals: [pending],
      pendingApproval: pending,
    });
  });

  it('no longer shows a call as pending whose approval has expired', () => {
    const one = step(asked, failed('c2'), requested('c1', 'r1', soon), suspended).state;
    expect(output(step(one, resumed, ...expired('c1', 'r1')))).toEqual({
      output: null,
      approvals: [],
    });
  });
});

describe('approvals', () => {
  it('get a row when they are requested', () => {
    expect(step(asked, requested('c1', 'r1', later)).approvals).toEqual([
      {
        id: 'r1',
        runId: run.id,
        conversationId: run.conversationId,
        kind: 'permission',
        agentId: 'root',
        agentPath: ['assistant'],
        toolCallId: 'c1',
        tool: 'bash',
        params: { command: 'ls' },
        digest: 'digest',
        requestedAt: now,
        expiresAt: Date.parse(later),
      },
    ]);
  });

  it('say which agent asks, from the first one down', () => {
    const { state } = step(asked, ...delegated('c1'));
    expect(step(state, ...subAsks('s1', 'r9', soon)).approvals).toMatchObject([
      { id: 'r9', agentId: 'sub', agentPath: ['assistant', 'sub'], toolCallId: 's1' },
    ]);
  });

  it('are requested together if their turn requests them together', () => {
    const { approvals } = step(asked, requested('c1', 'r1', later), requested('c2', 'r2', soon));
    expect(approvals.map(({ id }) => id)).toEqual(['r1', 'r2']);
  });

  it('are closed as expired without an answer', () => {
    expect(step(waiting, resumed, ...expired('c2', 'r2')).closeApprovals).toEqual([
      {
        approvalId: 'r2',
        status: 'expired',
        at: now,
        by: { type: 'timeout', id: 'expiry', name: 'expiry' },
        reason: 'The approval expired without a decision',
      },
    ]);
  });

  it('are closed by Relay itself when their run ends', () => {
    const closed = {
      type: 'approval.closed',
      ...root,
      toolCallId: 'c2',
      approvalId: 'r2',
    } as const;
    expect(step(waiting, { ...closed, reason: 'Stopped by ann' }).closeApprovals).toEqual([
      {
        approvalId: 'r2',
        status: 'closed',
        at: now,
        by: { type: 'system', id: 'relay', name: 'relay' },
        reason: 'Stopped by ann',
      },
    ]);
  });

  it('that a person decided are left alone: their row was changed when they did', () => {
    const { approvals, closeApprovals } = step(waiting, resumed, decided('c1', 'r1'));
    expect({ approvals, closeApprovals }).toEqual({
      approvals: [],
      closeApprovals: [],
    });
  });
});

describe('a run that ends', () => {
  const agentEnded: RunEvent = {
    type: 'agent.ended',
    ...root,
    reason: 'completed',
    iterations: 1,
    usage,
  };
  const answered = step(begun, turn, text, finished).state;

  it('has its time, its answer and its approvals, and nothing to recover or to wake for', () => {
    const ended: RunEvent = { type: 'run.ended', status: 'completed', output: 'Done.', usage };
    const changed = step(answered, agentEnded, ended);
    expect(changed.progress).toMatchObject({
      status: 'completed',
      usage,
      endedAt: now,
      error: null,
      snapshot: null,
      wakeAt: null,
    });
    expect(output(changed)).toEqual({ output: null, approvals: [] });
    expect(changed.progress.answerSeq).toBe(rootAgent(answered)?.turn?.startedSeq);
  });

  it('has its output in its row if that is not the text of a turn', () => {
    const ended: RunEvent = { type: 'run.ended', status: 'canceled', output: 'Kept.', usage };
    const changed = step(begun, agentEnded, ended);
    expect(output(changed)).toEqual({ output: 'Kept.', approvals: [] });
    expect(changed.progress.answerSeq).toBeNull();
  });

  it('has a short output in its row if its last turn called tools: their results follow it', () => {
    const partial = 'Let me look.';
    const ended: RunEvent = { type: 'run.ended', status: 'canceled', output: partial, usage };
    const changed = step(asked, failed('c1'), failed('c2'), agentEnded, ended);
    expect(output(changed)).toEqual({ output: partial, approvals: [] });
    expect(changed.progress.answerSeq).toBeNull();
  });

  it('refers to the text of a turn that called tools if the text is long', () => {
    const long = 'x'.repeat(8_193);
    const wrote = step(begun, turn, { ...text, text: long }, call('c1'), finished).state;
    const ended: RunEvent = { type: 'run.ended', status: 'canceled', output: long, usage };
    const changed = step(wrote, failed('c1'), agentEnded, ended);
    expect(output(changed)).toEqual({ output: null, approvals: [] });
    expect(changed.progress.answerSeq).toBe(rootAgent(wrote)?.turn?.startedSeq);
  });

  it('says why if it failed', () => {
    const error = { code: 'provider_failed', message: 'Overloaded', retryable: true };
    const ended: RunEvent = { type: 'run.ended', status: 'failed', output: '', usage, error };
    expect(step(answered, agentEnded, ended).progress).toMatchObject({ status: 'failed', error });
  });

  it('leaves no snapshot behind even if its last turn began in the same batch', () => {
    const ended: RunEvent = { type: 'run.ended', status: 'canceled', output: '', usage };
    const { progress: changed } = step(begun, turn, agentEnded, ended);
    expect(changed.snapshot).toBeNull();
  });
});
