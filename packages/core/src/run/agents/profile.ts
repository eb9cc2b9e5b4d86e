/** What an agent works by, and what it may call. */
import type { EventOf } from '@relay/protocol';
import type { Tool } from '../../ports/index.ts';
import { type AgentState, type Profile } from '../state/agent.ts';
import { clientTool } from '../waiting/client-tool.ts';
import { handoffTool, handoffToolName } from './handoff-tool.ts';
import type { LiveRun } from '../live-run.ts';
import { depthLimit } from './limits.ts';
import type { RunState } from '../state/state.ts';

export function profileOf(run: LiveRun, agent: AgentState): Profile {
  return agent.profile ?? run.spec;
}

/** What a profile asks of a model besides words, as events carry it. */
export function answerFields({
  outputSchema,
  reasoning,
}: Pick<Profile, 'outputSchema' | 'reasoning'>) {
  return {
    ...(outputSchema === undefined
      ? {}
      : { outputSchema: outputSchema as NonNullable<EventOf<'run.created'>['outputSchema']> }),
    ...(reasoning === undefined ? {} : { reasoning }),
  };
}

/** A tool of this agent that the tenant has. */
export function findTool(run: LiveRun, agent: AgentState, name: string): Tool | undefined {
  const profile = profileOf(run, agent);
  if (name === handoffToolName) return ownHandoffTool(run, profile);
  if (!profile.tools.includes(name)) return undefined;
  const own = run.spec.functions?.find((declared) => declared.name === name);
  if (own !== undefined) return clientTool(own);
  const tool = run.engine.tools(run.identity.tenantId).find(name);
  if (tool?.needsMemory === true && run.spec.memory === undefined) return undefined;
  return tool?.inWorkspace === true && run.spec.workspace === false ? undefined : tool;
}

/** What the model is offered. At the greatest depth nobody can be spawned any more. */
export function offeredTools(run: LiveRun, agent: AgentState): Tool[] {
  const profile = profileOf(run, agent);
  const mayDelegate = depthOf(run.state, agent) < depthLimit(run.state.limits);
  const tools = profile.tools.flatMap((name) => findTool(run, agent, name) ?? []);
  const handoff = ownHandoffTool(run, profile);
  return [...tools, ...(handoff === undefined ? [] : [handoff])].filter(
    (tool) => tool.delegates === undefined || mayDelegate,
  );
}

function ownHandoffTool(run: LiveRun, { handoffs = [] }: Profile): Tool | undefined {
  if (handoffs.length === 0) return undefined;
  const registry = run.engine.agents(run.identity.tenantId);
  return handoffTool(handoffs.map((name) => registry.find(name) ?? { name }));
}

/** 0 for the first agent. */
export function depthOf(state: RunState, agent: AgentState): number {
  return ancestorsOf(state, agent).length;
}

/** The names of the agents from the first one down to this. */
export function pathOf(state: RunState, agent: AgentState): string[] {
  return [...ancestorsOf(state, agent).map(({ name }) => name), agent.name];
}

/** From the first agent down to the parent. */
function ancestorsOf(state: RunState, agent: AgentState): AgentState[] {
  const ancestors: AgentState[] = [];
  for (let id = agent.parentId; id !== null;) {
    const parent = state.agents[id];
    if (parent === undefined) break;
    ancestors.unshift(parent);
    id = parent.parentId;
  }
  return ancestors;
}
