import type { EventOf, RunEvent } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { deepFreeze, eventsOf, fold, oneTurn, runStarted } from '../../support/agent-events.ts';
import {
  agentFields,
  type AgentState,
  endedAgent,
  openCalls,
  startedAgent,
  switchedAgent,
} from '../../../src/run/state/agent.ts';
import { initialState, rootAgent } from '../../../src/run/state/state.ts';

const root = eventsOf({ agentId: 'root' });
const sub = eventsOf({ agentId: 'sub', parentId: 'root' });

function started(event: RunEvent): AgentState {
  if (event.type !== 'agent.started') throw new Error('Only a start starts an agent');
  return deepFreeze(startedAgent(event));
}

function switched(more: Partial<EventOf<'agent.switched'>> = {}): EventOf<'agent.switched'> {
  const profile = { name: 'expert', model: 'big', tools: ['search'] };
  return { type: 'agent.switched', agentId: 'root', ...profile, ...more };
}

function end(more: Partial<EventOf<'agent.ended'>> = {}): EventOf<'agent.ended'> {
  const made = sub.ended(more);
  if (made.type !== 'agent.ended') throw new Error('Not an end');
  return made;
}

describe('the root agent of a run', () => {
  it('starts without a parent and works by what the run was created with', () => {
    expect(started(root.started)).toStrictEqual({
      id: 'root',
      parentId: null,
      name: 'root',
      model: 'demo',
      profile: null,
      spawned: null,
      iterations: 0,
      usage: { inputTokens: 0, outputTokens: 0 },
      turn: null,
      limit: null,
      ended: null,
    });
  });
});

describe('a sub-agent', () => {
  it('starts with its parent, its call and a profile of its own', () => {
    const profile = { system: 'Be brief', tools: ['read'], handoffs: ['writer'] };
    const agent = started(sub.spawnedBy('c1', { nth: 3, maxIterations: 4, ...profile }));
    expect(agent).toMatchObject({ id: 'sub', parentId: 'root', profile });
    expect(agent.spawned).toStrictEqual({ toolCallId: 'c1', nth: 3, maxIterations: 4 });
  });

  it('has only the profile that it was given, and no limit of its own if none was given', () => {
    const agent = started(sub.spawnedBy('c1', { tools: [] }));
    expect(agent.profile).toStrictEqual({ tools: [] });
    expect(agent.spawned?.maxIterations).toBeNull();
  });

  it('does not carry its task: that belongs to the transcript alone', () => {
    const agent = started(sub.spawnedBy('c1', { task: 'a very long task' }));
    expect(JSON.stringify(agent)).not.toContain('a very long task');
  });
});

describe('an agent that is switched', () => {
  it('continues under another name, with another model and profile', () => {
    const agent = switchedAgent(started(root.started), switched({ system: 'You are an expert' }));
    expect(agent).toMatchObject({
      id: 'root',
      name: 'expert',
      model: 'big',
      profile: { system: 'You are an expert', tools: ['search'] },
    });
  });

  it('keeps nothing of the old profile, not even fields that the new one leaves out', () => {
    const before = started(sub.spawnedBy('c1', { system: 'Old', handoffs: ['x'], tools: ['y'] }));
    expect(switchedAgent(before, switched()).profile).toStrictEqual({ tools: ['search'] });
  });

  it('is the same agent in the tree, with the turns and tokens that it has used', () => {
    const state = fold(initialState, runStarted, root.started, root.turn, root.completed);
    const before = rootAgent(state) as AgentState;
    const after = switchedAgent(before, switched());
    const { name: _, model: __, profile: ___, ...same } = after;
    expect(before).toMatchObject(same);
    expect(after).toMatchObject({ iterations: 1, usage: oneTurn });
  });

  it('keeps its parent and the limit of its turns', () => {
    const before = started(sub.spawnedBy('c1', { maxIterations: 2 }));
    expect(switchedAgent(before, switched({ agentId: 'sub', parentId: 'root' }))).toMatchObject({
      parentId: 'root',
      spawned: { toolCallId: 'c1', maxIterations: 2 },
    });
  });
});

describe('an agent that has ended', () => {
  const agent = started(sub.spawnedBy('c1'));

  it('keeps how it ended and its result, and no turn', () => {
    const working = { ...agent, turn: { turn: 1 } as AgentState['turn'] };
    const after = endedAgent(working, end({ reason: 'limit', output: 'As far as I came' }));
    expect(after.turn).toBeNull();
    expect(after.ended).toStrictEqual({ reason: 'limit', output: 'As far as I came' });
  });

  it('has an empty output if the event has none', () => {
    expect(endedAgent(agent, end()).ended).toStrictEqual({ reason: 'completed', output: '' });
  });

  it('says why if it failed', () => {
    const error = { code: 'provider_failed', message: 'Overloaded', retryable: true };
    expect(endedAgent(agent, end({ reason: 'failed', error })).ended).toStrictEqual({
      reason: 'failed',
      output: '',
      error,
    });
  });
});

describe('openCalls', () => {
  it('are the unsettled calls of the current turn, in order', () => {
    const asked = [root.called('c1'), root.called('c2'), root.called('c3'), root.completed];
    const turn = fold(initialState, runStarted, root.started, root.turn, ...asked);
    const open = (...events: RunEvent[]) =>
      openCalls(rootAgent(fold(turn, ...events)) as AgentState).map((call) => call.toolCallId);
    expect(open()).toEqual(['c1', 'c2', 'c3']);
    expect(open(root.denied('c2'))).toEqual(['c1', 'c3']);
    expect(open(root.requested('c1'), root.start('c3'))).toEqual(['c1', 'c2', 'c3']);
    expect(open(root.failed('c1'), root.failed('c2'), root.failed('c3'))).toEqual([]);
    expect(openCalls(started(root.started))).toEqual([]);
  });
});

describe('agentFields', () => {
  it('names the parent of a spawned agent, and leaves it out for the first one', () => {
    expect(agentFields({ id: 'sub', parentId: 'root' })).toStrictEqual({
      agentId: 'sub',
      parentId: 'root',
    });
    expect(agentFields({ id: 'root', parentId: null })).toStrictEqual({ agentId: 'root' });
  });
});
