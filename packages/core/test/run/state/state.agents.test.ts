/** The fold of a run that holds a tree of agents, and what the run has used up. */
import { type EventOf, noUsage, type RunEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { eventsOf, fold, oneTurn, runCreated, runStarted } from '../../support/agent-events.ts';
import { answerOf } from '../../../src/run/state/agent.ts';
import {
  askingCalls,
  initialState,
  liveAgents,
  rootAgent,
  type RunState,
} from '../../../src/run/state/state.ts';

const root = eventsOf({ agentId: 'root' });
const sub = eventsOf({ agentId: 'sub', parentId: 'root' });
const twin = eventsOf({ agentId: 'twin', parentId: 'root' });
const deep = eventsOf({ agentId: 'deep', parentId: 'sub' });

const begun = fold(initialState, runCreated(), runStarted, root.started);
const asked = fold(begun, root.turn, root.called('c1'), root.called('c2'), root.completed);
const started = fold(asked, root.start('c1', { via: 'agent' }), root.start('c2'));
const spawned = fold(started, sub.spawnedBy('c1'));
const nested = fold(
  spawned,
  sub.turn,
  sub.called('s1'),
  sub.completed,
  sub.start('s1'),
  deep.spawnedBy('s1'),
);

function ids(state: RunState): string[] {
  return Object.keys(state.agents);
}

describe('a tree of agents', () => {
  it('grows by agents that a call of another one has spawned', () => {
    expect(ids(nested)).toEqual(['root', 'sub', 'deep']);
    expect(nested.agents['deep']).toMatchObject({ parentId: 'sub', ended: null });
    expect(rootAgent(nested)?.id).toBe('root');
    expect(nested.subAgents).toBe(2);
  });

  it('has turns of its own for each agent', () => {
    const now = fold(nested, deep.turn, deep.said('Down here'));
    expect(answerOf(now.agents['deep'])).toBe('Down here');
    expect(now.agents['sub']).toBe(nested.agents['sub']);
    expect(now.agents['root']).toBe(nested.agents['root']);
  });

  it('may grow by several agents from one call', () => {
    const now = fold(spawned, twin.spawnedBy('c1', { nth: 2 }));
    expect(ids(now)).toEqual(['root', 'sub', 'twin']);
    expect(now.agents['twin']?.spawned?.nth).toBe(2);
  });

  it('lists live agents with parents before their sub-agents', () => {
    const moved = fold(nested, deep.turn, sub.requested('s1', { kind: 'outcome' }));
    expect(liveAgents(moved).map(({ id }) => id)).toEqual(['root', 'sub', 'deep']);
    const left = fold(nested, deep.ended());
    expect(liveAgents(left).map(({ id }) => id)).toEqual(['root', 'sub']);
  });

  it('keeps an agent that has ended until the call that it worked for is settled', () => {
    const over = fold(spawned, sub.ended({ reason: 'completed', output: 'Found it' }));
    expect(over.agents['sub']?.ended).toEqual({ reason: 'completed', output: 'Found it' });
    expect(ids(fold(over, root.done('c1')))).toEqual(['root']);
    expect(ids(fold(over, root.failed('c1')))).toEqual(['root']);
  });

  it('loses with a call its own agents alone', () => {
    const both = fold(spawned, twin.spawnedBy('c2'), sub.ended(), twin.ended());
    expect(ids(fold(both, root.done('c2')))).toEqual(['root', 'sub']);
  });

  it('can have an agent taken from it while the call is asked about', () => {
    const outcome = root.requested('c2', { kind: 'outcome' });
    const both = fold(spawned, twin.spawnedBy('c2'), twin.ended(), outcome, root.decided('c2'));
    expect(ids(both)).toContain('twin');
    expect(ids(fold(both, root.done('c2')))).toEqual(['root', 'sub']);
  });

  it('counts every sub-agent that ever was, and holds none that is gone', () => {
    let state = begun;
    const sizes: number[] = [];
    for (let n = 1; n <= 200; n += 1) {
      const child = eventsOf({ agentId: `sub_${n % 10}`, parentId: 'root' });
      state = fold(state, root.turn, root.called('c1'), root.completed, root.start('c1'));
      state = fold(state, child.spawnedBy('c1'), child.turn, child.said('x'.repeat(500)));
      state = fold(state, child.completed, child.ended({ output: 'x'.repeat(500) }));
      state = fold(state, root.done('c1'));
      sizes.push(JSON.stringify(state).length);
    }
    expect(state.subAgents).toBe(200);
    const digitsOfCounters = 40;
    expect((sizes.at(-1) ?? 0) - (sizes.at(0) ?? 0)).toBeLessThan(digitsOfCounters);
  });

  it('lists the agents with pending approvals', () => {
    const now = fold(nested, deep.turn, deep.called('d1'), deep.completed, deep.requested('d1'));
    const asking = askingCalls(fold(now, root.requested('c2', { kind: 'outcome' })));
    expect(asking.map(({ agent, call }) => [agent.id, call.toolCallId])).toEqual([
      ['root', 'c2'],
      ['deep', 'd1'],
    ]);
  });

  it('is the same after a round trip through JSON, in the same order', () => {
    const now = fold(nested, deep.turn, deep.called('d1'), deep.completed, deep.start('d1'));
    const snapshot = JSON.parse(JSON.stringify(now)) as RunState;
    expect(snapshot).toStrictEqual(now);
    expect(liveAgents(snapshot)).toStrictEqual(liveAgents(now));
    const on = [deep.done('d1'), deep.ended(), sub.done('s1'), sub.ended(), root.done('c1')];
    expect(fold(snapshot, ...on)).toStrictEqual(fold(now, ...on));
  });
});

describe('a journal whose agents contradict each other', () => {
  const refused = expect.objectContaining({ code: 'journal_corrupt' }) as Error;
  const gone = fold(spawned, sub.ended());
  const switched: RunEvent = {
    type: 'agent.switched',
    agentId: 'sub',
    parentId: 'root',
    name: 'x',
    model: 'm',
    tools: [],
  };
  const limit: RunEvent = {
    type: 'limit.reached',
    agentId: 'sub',
    parentId: 'root',
    limit: 'tokens',
  };

  it.each<[string, RunState, RunEvent]>([
    ['a turn of an agent that has ended', gone, sub.turn],
    ['a limit of an agent that has ended', gone, limit],
    ['a compaction for an agent that has ended', gone, sub.compacted()],
    ['a switch of an agent that has ended', gone, switched],
    ['a second end of an agent', gone, sub.ended()],
    ['anything of an agent that left with its call', fold(gone, root.done('c1')), sub.turn],
  ])('is refused for %s', (_what, state, event) => {
    expect(() => fold(state, event)).toThrow(refused);
  });

  it.each<[string, RunState, RunEvent]>([
    ['a call that was only made', asked, sub.spawnedBy('c1')],
    ['a call that a person is asked about', fold(asked, root.requested('c1')), sub.spawnedBy('c1')],
    [
      'a call that was approved and has not started',
      fold(asked, root.requested('c1'), root.decided('c1')),
      sub.spawnedBy('c1'),
    ],
    ['a call that is settled', fold(started, root.done('c1')), sub.spawnedBy('c1')],
    ['a call that was never made', started, sub.spawnedBy('c9')],
    ['a call of another agent', nested, deep.spawnedBy('c2')],
    ['a call of an earlier turn', afterATurn(), sub.spawnedBy('c1')],
    ['no call at all', started, { ...sub.started, agentId: 'sub', parentId: 'root' }],
    ['a parent that does not exist', started, eventsOf(orphan()).spawnedBy('c1')],
    ['no parent', started, eventsOf({ agentId: 'sub' }).spawnedBy('c1')],
    ['a call before there is a root agent', fold(initialState, runStarted), sub.spawnedBy('c1')],
  ])('is refused for an agent that was spawned by %s', (_what, state, event) => {
    expect(() => fold(state, event)).toThrow(refused);
  });

  it.each<[string, RunState, RunEvent]>([
    ['a second root agent', begun, eventsOf({ agentId: 'other' }).started],
    ['the root agent twice', begun, root.started],
    ['an agent that is there already', spawned, sub.spawnedBy('c2')],
    ['an agent that is its own parent', started, eventsOf(self()).spawnedBy('c1')],
    ['an id that a finished agent still has', gone, sub.spawnedBy('c2')],
  ])('is refused for %s', (_what, state, event) => {
    expect(() => fold(state, event)).toThrow(refused);
  });

  it.each<[string, RunState, RunEvent]>([
    ['completed', spawned, root.done('c1')],
    ['failed', spawned, root.failed('c1')],
    ['failed at the level below', nested, sub.failed('s1')],
    [
      'completed while one of two still works',
      fold(spawned, twin.spawnedBy('c1', { nth: 2 }), twin.ended()),
      root.done('c1'),
    ],
  ])('is refused for a call that %s while its sub-agent is at work (E6)', (_what, state, event) => {
    expect(() => fold(state, event)).toThrow(refused);
  });

  it.each<[string, RunState, RunEvent]>([
    ['the root agent', spawned, root.ended()],
    ['an agent in the middle', nested, sub.ended()],
  ])('is refused for the end of %s over those below it (E6)', (_what, state, event) => {
    expect(() => fold(state, event)).toThrow(refused);
  });

  function afterATurn(): RunState {
    return fold(started, root.done('c1'), root.done('c2'), root.turn);
  }

  function orphan() {
    return { agentId: 'orphan', parentId: 'nobody' };
  }

  function self() {
    return { agentId: 'self', parentId: 'self' };
  }
});

describe('what a run has used up', () => {
  it('is held against the limits that it was created with, or against none', () => {
    const limits = { tokens: 100, toolCalls: 3, depth: 0 };
    expect(fold(initialState, runCreated({ limits })).limits).toEqual(limits);
    expect(fold(initialState, runCreated()).limits).toEqual({});
    expect(fold(initialState, runCreated({ limits }), runStarted).limits).toEqual(limits);
  });

  it('counts a call that starts twice after a crash as one call', () => {
    expect(asked.toolsStarted).toBe(0);
    const once = fold(asked, root.start('c1'));
    expect(once.toolsStarted).toBe(1);
    expect(fold(once, root.start('c1'), root.start('c1')).toolsStarted).toBe(1);
    expect(fold(once, root.start('c1'), root.start('c2')).toolsStarted).toBe(2);
  });

  it('counts a call once that a person let start again', () => {
    const outcome = root.requested('c1', { kind: 'outcome' });
    const again = fold(asked, root.start('c1'), outcome, root.decided('c1'), root.start('c1'));
    expect(again.toolsStarted).toBe(1);
  });

  it('counts the calls of all agents, and none that never started', () => {
    const now = fold(nested, deep.turn, deep.called('d1'), deep.called('d2'), deep.completed);
    expect(fold(now, deep.start('d1'), deep.denied('d2')).toolsStarted).toBe(4);
  });

  it('adds a compaction to the tokens of its agent and of the run, not to its turns', () => {
    const now = fold(spawned, sub.turn, sub.completed, sub.compacted({ usage: oneTurn }));
    const twice = { inputTokens: 20, outputTokens: 4 };
    expect(now.agents['sub']).toMatchObject({ usage: twice, iterations: 1 });
    expect(now.usage).toEqual({ inputTokens: 30, outputTokens: 6 });
    expect(rootAgent(now)?.usage).toEqual(oneTurn);
  });

  it('has a cost as long as all of it has one', () => {
    const priced = { ...oneTurn, costUsd: 0.5 };
    const of = (usage: EventOf<'turn.completed'>['usage']): RunEvent => ({
      ...root.completed,
      usage,
    });
    const known = fold(begun, root.turn, of(priced), root.turn, of(priced));
    expect(known.usage.costUsd).toBe(1);
    expect(fold(known, root.turn, of(oneTurn)).usage).not.toHaveProperty('costUsd');
    expect(fold(known, root.turn, of(noUsage)).usage.costUsd).toBe(1);
  });

  it('marks the agent that reached a limit, and no other', () => {
    const limit: RunEvent = {
      type: 'limit.reached',
      agentId: 'sub',
      parentId: 'root',
      limit: 'cost',
    };
    const now = fold(spawned, limit);
    expect(now.agents['sub']?.limit).toBe('cost');
    expect(rootAgent(now)?.limit).toBeNull();
  });
});

describe('an allow-once rule', () => {
  const rule = { list: 'allowOnce', index: 3 } as const;

  it('is used up when it is the request’s, by whichever agent', () => {
    const now = fold(nested, deep.turn, deep.called('d1'), deep.completed);
    const used = deep.start('d1', { rule: { ...rule, source: 'request' } });
    expect(fold(now, used).usedOnce).toEqual([3]);
  });

  it('is not counted when it is a program’s, which removes it itself', () => {
    const used = root.start('c1', { rule: { ...rule, source: 'program' } });
    expect(fold(asked, used).usedOnce).toEqual([]);
  });
});

describe('a call whose result does not come from its own tool', () => {
  it.each(['agent', 'handoff'] as const)('says so from its start: %s', (via) => {
    const now = fold(asked, root.start('c1', { via }));
    expect(rootAgent(now)?.turn?.calls[0]).toMatchObject({ phase: 'started', via });
    expect(rootAgent(now)?.turn?.calls[1]).not.toHaveProperty('via');
  });
});
