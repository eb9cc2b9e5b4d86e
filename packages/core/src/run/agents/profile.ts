/** The profile of an agent, its tools, and its position in the tree. */
import { defined, type EventOf } from '@relay/protocol';
import type { AgentDefinition, Tool } from '../../ports/index.ts';
import { type AgentState, type Profile } from '../state/agent.ts';
import { clientTool } from '../waiting/client-calls.ts';
import type { LiveRun } from '../live-run.ts';
import { depthLimit } from './limits.ts';
import type { RunState } from '../state/state.ts';

export function profileOf(run: LiveRun, agent: AgentState): Profile {
  return agent.profile ?? run.spec;
}

/** The form of the answer that a profile asks for, as fields of an event or a request. */
export function answerFields({
  outputSchema,
  reasoning,
}: Pick<Profile, 'outputSchema' | 'reasoning'>) {
  return defined({
    outputSchema: outputSchema as EventOf<'run.created'>['outputSchema'],
    reasoning,
  });
}

/** A tool that this agent may call. */
export function findTool(run: LiveRun, agent: AgentState, name: string): Tool | undefined {
  const profile = profileOf(run, agent);
  if (name === handoffToolName) return ownHandoffTool(run, profile);
  const registry = run.engine.tools(run.identity.tenantId);
  if (isOfSession(run, agent) && registry.find(name)?.needsSession === true) {
    return registry.find(name);
  }
  if (!profile.tools.includes(name)) return undefined;
  const own = run.spec.functions?.find((declared) => declared.name === name);
  if (own !== undefined) return clientTool(own);
  const tool = registry.find(name);
  if (tool?.needsMemory === true && run.spec.memory === undefined) return undefined;
  return tool?.needsSession === true ? undefined : tool;
}

/** Only the root agent speaks for the session. */
function isOfSession(run: LiveRun, agent: AgentState): boolean {
  return run.turn !== undefined && agent.parentId === null;
}

function namesOfTools(run: LiveRun, agent: AgentState): readonly string[] {
  const { tools } = profileOf(run, agent);
  if (!isOfSession(run, agent)) return tools;
  const own = run.engine.tools(run.identity.tenantId).list();
  const names = own.filter(({ needsSession }) => needsSession === true).map(({ name }) => name);
  return [...new Set([...tools, ...names])];
}

/** The tools that the model is offered. At the greatest depth no sub-agent can be spawned. */
export function offeredTools(run: LiveRun, agent: AgentState): Tool[] {
  const profile = profileOf(run, agent);
  const mayDelegate = depthOf(run.state, agent) < depthLimit(run.state.limits);
  const tools = namesOfTools(run, agent).flatMap((name) => findTool(run, agent, name) ?? []);
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

export const handoffToolName = 'handoff';

/** The tool by which an agent hands the conversation over to one of the targets. */
export function handoffTool(targets: readonly AgentDefinition[]): Tool {
  const names = targets.map(({ name }) => name);
  const list = targets.map(({ name, description }) =>
    description === undefined ? `- ${name}` : `- ${name}: ${description}`,
  );
  return {
    name: handoffToolName,
    description: `Hand off this conversation to another agent, which continues it:\n${list.join('\n')}`,
    inputSchema: {
      type: 'object',
      properties: { agent: { type: 'string', enum: names } },
      required: ['agent'],
      additionalProperties: false,
    },
    allowedByDefault: true,
    idempotent: true,
    onUnknown: 'fail',
    validate(input) {
      const { agent } = (input ?? {}) as { agent?: unknown };
      if (typeof agent === 'string' && names.includes(agent)) return { ok: true, value: { agent } };
      const message = `Must be one of ${names.join(', ')}`;
      return { ok: false, issues: [{ path: 'agent', message }] };
    },
    execute: () => Promise.reject(new TypeError('A handoff is not executed')),
  };
}

/** 0 for the root agent. */
export function depthOf(state: RunState, agent: AgentState): number {
  return ancestorsOf(state, agent).length;
}

/** The names of the agents from the root agent down to this one. */
export function pathOf(state: RunState, agent: AgentState): string[] {
  return [...ancestorsOf(state, agent).map(({ name }) => name), agent.name];
}

/** From the root agent down to the parent. */
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
