import { limitNames, type Limits, noUsage, type RunEvent, type Usage } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { at, eventsOf, fold, runCreated, runStarted } from '../../support/agent-events.ts';
import type { AgentState } from '../../../src/run/state/agent.ts';
import {
  callsLeft,
  finalTurnInstruction,
  deadlineOf,
  depthLimit,
  limitBeforeTurn,
  limitText,
  subAgentLimit,
} from '../../../src/run/agents/limits.ts';
import { initialState, type RunState } from '../../../src/run/state/state.ts';

const root = eventsOf({ agentId: 'root' });
const sub = eventsOf({ agentId: 'sub', parentId: 'root' });

function begun(limits: Limits = {}): RunState {
  return fold(initialState, runCreated({ limits }), runStarted, root.started);
}

function agentOf(state: RunState, id: string): AgentState {
  const agent = state.agents[id];
  if (agent === undefined) throw new Error(`There is no agent ${id}`);
  return agent;
}

/** A run whose root agent has had so many turns, each of which used so much. */
function after(turns: number, of: { limits?: Limits; usage?: Usage } = {}): RunState {
  const completed: RunEvent = { ...root.completed, usage: of.usage ?? noUsage };
  const each = Array.from({ length: turns }, () => [root.turn, completed]).flat();
  return fold(begun(of.limits), ...each);
}

function reached(state: RunState, maxIterations = 100): string | undefined {
  return limitBeforeTurn(state, agentOf(state, 'root'), maxIterations);
}

/** A sub-agent beside the root agent's call `c2`, which has not passed the gate. */
function withSub(limits: Limits = {}, maxIterations?: number): RunState {
  const bound = maxIterations === undefined ? {} : { maxIterations };
  return fold(
    begun(limits),
    root.turn,
    root.called('c1'),
    root.called('c2'),
    root.completed,
    root.start('c1'),
    sub.spawnedBy('c1', bound),
  );
}

describe('the limit of turns', () => {
  it('allows as many turns with tools as the caller set', () => {
    expect([0, 1, 2, 3, 4].map((turns) => reached(after(turns), 3))).toEqual([
      undefined,
      undefined,
      undefined,
      'iterations',
      'iterations',
    ]);
  });

  it('is each agent’s own: what others have used of theirs does not count', () => {
    const state = withSub();
    expect(reached(state, 1)).toBe('iterations');
    expect(limitBeforeTurn(state, agentOf(state, 'sub'), 1)).toBeUndefined();
  });

  it('is the run’s for a sub-agent without its own', () => {
    const turn = [sub.turn, sub.completed];
    for (const [bound, run, expected] of [
      [1, 5, 'iterations'],
      [2, 1, undefined],
      [undefined, 1, 'iterations'],
      [undefined, 2, undefined],
    ] as const) {
      const state = fold(withSub({}, bound), ...turn);
      expect(limitBeforeTurn(state, agentOf(state, 'sub'), run)).toBe(expected);
    }
  });
});

describe('the limit of tokens', () => {
  it('is reached when what went in and came out is as much, and not one token before', () => {
    const parts = fc.array(fc.tuple(fc.nat(50), fc.nat(50)), { maxLength: 6 });
    fc.assert(
      fc.property(parts, fc.integer({ min: 1, max: 300 }), (used, tokens) => {
        const completed = used.map(([inputTokens, outputTokens]): RunEvent[] => [
          root.turn,
          { ...root.completed, usage: { inputTokens, outputTokens } },
        ]);
        const state = fold(begun({ tokens }), ...completed.flat());
        const sum = used.reduce((total, [input, output]) => total + input + output, 0);
        expect(reached(state)).toBe(sum >= tokens ? 'tokens' : undefined);
      }),
    );
  });

  it('is the run’s: what one agent has used leaves less for all', () => {
    const usage = { inputTokens: 40, outputTokens: 10 };
    const state = fold(withSub({ tokens: 60 }), sub.turn, { ...sub.completed, usage });
    expect(reached(state)).toBe('tokens');
    expect(limitBeforeTurn(state, agentOf(state, 'sub'), 100)).toBe('tokens');
  });

  it('counts what compactions have used', () => {
    const usage = { inputTokens: 90, outputTokens: 10 };
    expect(reached(fold(begun({ tokens: 100 }), root.compacted({ usage })))).toBe('tokens');
  });
});

describe('the limit of cost', () => {
  const turn = (costUsd: number): Usage => ({ inputTokens: 1, outputTokens: 1, costUsd });

  it('is reached when the run has cost as much', () => {
    const limits = { costUsd: 1 };
    expect(reached(after(0, { limits }))).toBeUndefined();
    expect(reached(after(3, { limits, usage: turn(0.25) }))).toBeUndefined();
    expect(reached(after(4, { limits, usage: turn(0.25) }))).toBe('cost');
    expect(reached(after(1, { limits, usage: turn(7) }))).toBe('cost');
  });

  it('is reached as soon as usage has no price', () => {
    const limits = { costUsd: 1_000_000 };
    const usage = { inputTokens: 1, outputTokens: 0 };
    expect(reached(after(1, { limits, usage }))).toBe('cost');
    expect(reached(after(1, { limits }))).toBeUndefined();
  });

  it('does not bound a run that has none', () => {
    expect(reached(after(1, { usage: turn(1_000_000) }))).toBeUndefined();
  });
});

describe('the limit of tool calls', () => {
  const calls = ['c1', 'c2', 'c3'];
  const asked = (limits: Limits): RunState =>
    fold(begun(limits), root.turn, ...calls.map((id) => root.called(id)), root.completed);

  it('is none unless the caller gave one', () => {
    expect(callsLeft(asked({}))).toBe(Infinity);
    expect(callsLeft(asked({ toolCalls: 0 }))).toBe(0);
  });

  it('leaves one less for each call that started or that a person is asked about', () => {
    const state = asked({ toolCalls: 5 });
    expect(callsLeft(state)).toBe(5);
    expect(callsLeft(fold(state, root.start('c1')))).toBe(4);
    expect(callsLeft(fold(state, root.start('c1'), root.done('c1')))).toBe(4);
    expect(callsLeft(fold(state, root.requested('c1')))).toBe(4);
    expect(callsLeft(fold(state, root.requested('c1'), root.decided('c1')))).toBe(4);
    expect(callsLeft(fold(state, root.requested('c1'), root.start('c2')))).toBe(3);
  });

  it('counts an approved call once, before and after it starts', () => {
    const answered = fold(asked({ toolCalls: 5 }), root.requested('c1'), root.decided('c1'));
    expect(callsLeft(fold(answered, root.start('c1')))).toBe(4);
    expect(callsLeft(fold(answered, root.start('c1'), root.done('c1')))).toBe(4);
  });

  it('gives back what was refused', () => {
    const state = asked({ toolCalls: 5 });
    expect(callsLeft(fold(state, root.denied('c1'), root.failed('c2')))).toBe(5);
    const refused = [root.requested('c1'), root.decided('c1', false), root.denied('c1')];
    expect(callsLeft(fold(state, ...refused))).toBe(5);
  });

  it('counts a call once whose outcome a person is asked about after a crash', () => {
    const state = fold(asked({ toolCalls: 5 }), root.start('c1'));
    const asking = fold(state, root.requested('c1', { kind: 'outcome' }));
    expect(callsLeft(asking)).toBe(4);
    expect(callsLeft(fold(asking, root.decided('c1')))).toBe(4);
    expect(callsLeft(fold(asking, root.decided('c1'), root.start('c1')))).toBe(4);
  });

  it('is the run’s: the calls of all agents count', () => {
    const state = fold(withSub({ toolCalls: 5 }), sub.turn, sub.called('s1'), sub.called('s2'));
    const both = fold(state, sub.completed, sub.start('s1'), sub.requested('s2'));
    expect(callsLeft(both)).toBe(2);
  });
});

describe('the limit of time', () => {
  it('runs from the start of the run', () => {
    expect(deadlineOf(begun({ timeMs: 90_000 }))).toBe(Date.parse(at) + 90_000);
  });

  it('is not known before the start, and not there unless the caller gave one', () => {
    expect(deadlineOf(fold(initialState, runCreated({ limits: { timeMs: 5 } })))).toBeUndefined();
    expect(deadlineOf(begun())).toBeUndefined();
  });
});

describe('the limits of the tree', () => {
  it('are those of the caller, none at all included', () => {
    expect([depthLimit({ depth: 0 }), depthLimit({ depth: 7 })]).toEqual([0, 7]);
    expect([subAgentLimit({ subAgents: 0 }), subAgentLimit({ subAgents: 7 })]).toEqual([0, 7]);
  });

  it('are there even if the caller gave none, so that no tree grows without end', () => {
    expect(depthLimit({})).toBe(5);
    expect(subAgentLimit({})).toBe(50);
  });
});

describe('an agent that reaches a limit', () => {
  it.each(limitNames)('reads which one, and that no tool can be called: %s', (limit) => {
    const message = finalTurnInstruction(limit);
    expect(message.role).toBe('system');
    expect(message.content).toContain(limitText(limit));
    expect(message.content).toMatch(/no tool can be called/);
  });

  it('reads a text of its own for each limit', () => {
    expect(new Set(limitNames.map(limitText)).size).toBe(limitNames.length);
  });
});
