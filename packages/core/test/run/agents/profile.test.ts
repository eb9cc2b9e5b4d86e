import type { EventOf, Limits } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { createAgentRegistry } from '../../../src/run/agents/registry.ts';
import type { Tool } from '../../../src/ports/index.ts';
import { createRecordingTool } from '../../support/index.ts';
import { eventsOf, fold, runCreated, runStarted } from '../../support/agent-events.ts';
import type { AgentState } from '../../../src/run/state/agent.ts';
import { handoffToolName } from '../../../src/run/agents/profile.ts';
import type { LiveRun } from '../../../src/run/live-run.ts';
import {
  depthOf,
  findTool,
  offeredTools,
  pathOf,
  profileOf,
} from '../../../src/run/agents/profile.ts';
import { initialState, type RunState } from '../../../src/run/state/state.ts';

const root = eventsOf({ agentId: 'root' });
const sub = eventsOf({ agentId: 'sub', parentId: 'root' });
const deep = eventsOf({ agentId: 'deep', parentId: 'sub' });

const bash = createRecordingTool({ name: 'bash' });
const read = createRecordingTool({ name: 'read' });
const notes: Tool = { ...createRecordingTool({ name: 'notes' }), needsMemory: true };
const helper: Tool = {
  ...createRecordingTool({ name: 'helper' }),
  delegates: () => ({ prompt: 'Help' }),
};

/** A run with a tree three deep, as far as profiles look at it. */
function runOf(spec: Partial<EventOf<'run.created'>> = {}, limits: Limits = {}) {
  const created = runCreated({ tools: ['bash', 'helper'], limits, ...spec });
  const state = fold(
    initialState,
    created,
    runStarted,
    root.started,
    root.turn,
    root.called('c1'),
    root.completed,
    root.start('c1'),
    sub.spawnedBy('c1', { tools: ['read', 'helper'], system: 'Be brief' }),
    sub.turn,
    sub.called('s1'),
    sub.completed,
    sub.start('s1'),
    deep.spawnedBy('s1', { tools: ['read', 'helper'] }),
  );
  const agents = createAgentRegistry([{ name: 'writer', description: 'Writes' }, { name: 'x' }]);
  const tools = [bash, read, notes, helper];
  const run = {
    identity: { tenantId: 'tenant' },
    spec: created,
    state,
    engine: {
      agents: () => agents,
      tools: () => ({ find: (name: string) => tools.find((tool) => tool.name === name) }),
    },
  } as unknown as LiveRun;
  return { run, agent: (id: string) => agentOf(state, id) };
}

function agentOf(state: RunState, id: string): AgentState {
  const agent = state.agents[id];
  if (agent === undefined) throw new Error(`There is no agent ${id}`);
  return agent;
}

function names(tools: readonly Tool[]): string[] {
  return tools.map(({ name }) => name);
}

describe('what an agent works by', () => {
  it('is what the run was created with for the root agent, and its own for a sub-agent', () => {
    const { run, agent } = runOf({ system: 'Be kind' });
    expect(profileOf(run, agent('root'))).toMatchObject({
      system: 'Be kind',
      tools: ['bash', 'helper'],
    });
    expect(profileOf(run, agent('sub'))).toEqual({ system: 'Be brief', tools: ['read', 'helper'] });
    expect(profileOf(run, agent('deep'))).not.toHaveProperty('system');
  });

  it('is another one after a handoff, also for the root agent', () => {
    const { run, agent } = runOf({ system: 'Be kind' });
    const switched = { ...agent('root'), profile: { tools: ['read'] } };
    expect(profileOf(run, switched)).toEqual({ tools: ['read'] });
    expect(names(offeredTools(run, switched))).toEqual(['read']);
  });
});

describe('the tools of an agent', () => {
  it('are those of its profile that the tenant has, in their order', () => {
    const { run, agent } = runOf({ tools: ['helper', 'gone', 'bash'] });
    expect(names(offeredTools(run, agent('root')))).toEqual(['helper', 'bash']);
    expect(findTool(run, agent('root'), 'gone')).toBeUndefined();
  });

  it('include one that needs a memory only where the run has one', () => {
    const tools = ['bash', 'notes'];
    const without = runOf({ tools });
    expect(names(offeredTools(without.run, without.agent('root')))).toEqual(['bash']);
    expect(findTool(without.run, without.agent('root'), 'notes')).toBeUndefined();
    const having = runOf({ tools, memory: { namespace: 'n' } });
    expect(names(offeredTools(having.run, having.agent('root')))).toEqual(tools);
  });

  it('do not include those of its parent', () => {
    const { run, agent } = runOf();
    expect(findTool(run, agent('root'), 'bash')).toBe(bash);
    expect(findTool(run, agent('sub'), 'bash')).toBeUndefined();
  });

  it('include the handoff tool if there are targets', () => {
    const { run, agent } = runOf({ handoffs: ['writer'] });
    const offered = offeredTools(run, agent('root'));
    expect(names(offered)).toEqual(['bash', 'helper', handoffToolName]);
    expect(offered.at(-1)?.description).toContain('writer: Writes');
    expect(findTool(run, agent('root'), handoffToolName)?.validate({ agent: 'writer' }).ok).toBe(
      true,
    );
    expect(findTool(run, agent('root'), handoffToolName)?.validate({ agent: 'x' }).ok).toBe(false);
  });

  it('do not include the handoff tool otherwise, even if the root agent has it', () => {
    const { run, agent } = runOf({ handoffs: ['writer'] });
    expect(findTool(run, agent('sub'), handoffToolName)).toBeUndefined();
    expect(names(offeredTools(run, agent('sub')))).not.toContain(handoffToolName);
    const alone = runOf();
    expect(findTool(alone.run, alone.agent('root'), handoffToolName)).toBeUndefined();
  });

  it('can name a handoff target that was removed from the configuration', () => {
    const { run, agent } = runOf({ handoffs: ['retired'] });
    expect(offeredTools(run, agent('root')).at(-1)?.description).toContain('- retired');
  });

  it.each([
    [0, []],
    [1, ['root']],
    [2, ['root', 'sub']],
    [3, ['root', 'sub', 'deep']],
    [undefined, ['root', 'sub', 'deep']],
  ])('let agents delegate down to the depth of %s', (depth, expected) => {
    const { run, agent } = runOf({}, depth === undefined ? {} : { depth });
    const delegating = ['root', 'sub', 'deep'].filter((id) =>
      names(offeredTools(run, agent(id))).includes('helper'),
    );
    expect(delegating).toEqual(expected);
  });
});

describe('the position of an agent in the tree', () => {
  it('is its depth, and the names from the root agent down', () => {
    const { run, agent } = runOf();
    const { state } = run;
    expect(['root', 'sub', 'deep'].map((id) => depthOf(state, agent(id)))).toEqual([0, 1, 2]);
    expect(pathOf(state, agent('root'))).toEqual(['root']);
    expect(pathOf(state, agent('deep'))).toEqual(['root', 'sub', 'deep']);
  });

  it('consists of the current names of its ancestors', () => {
    const { run, agent } = runOf();
    const switched = { type: 'agent.switched', name: 'writer', model: 'demo', tools: [] } as const;
    const state = fold(run.state, { ...switched, agentId: 'root', tools: [] });
    expect(pathOf(state, agent('deep'))).toEqual(['writer', 'sub', 'deep']);
  });
});
