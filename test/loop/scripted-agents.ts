/** A model for several agents: each task has its own script. */
import { type Model, type ModelEvent, type ModelRequest, ProviderFailure } from '@relay/core';
import {
  createScriptedModel,
  finish,
  type ScriptedModel,
  type ScriptedTurn,
  text,
  toolCall,
} from '@relay/core/testing';
import { type StoredEvent, textOf } from '@relay/protocol';
import { ofType } from './fixture.ts';

export interface ScriptedAgents extends Model {
  readonly requests: readonly ModelRequest[];
  /** The requests of the agent with this task. */
  requestsFor(task: string): readonly ModelRequest[];
}

/** Scripts by task: `Begin` is the default message to the root agent; a sub-agent has its prompt. */
export function createScriptedAgents(
  scripts: Readonly<Record<string, readonly ScriptedTurn[]>>,
): ScriptedAgents {
  const models = new Map<string, ScriptedModel>(
    Object.entries(scripts).map(([task, turns]) => [task, createScriptedModel(turns)]),
  );
  const requests: ModelRequest[] = [];
  return {
    requests,
    requestsFor: (task) => models.get(task)?.requests ?? [],
    stream(request, signal) {
      requests.push(request);
      const task = taskIn(request);
      const model = models.get(task);
      if (model === undefined) {
        throw new ProviderFailure(`There is no script for ${task}`, { retryable: false });
      }
      return model.stream(request, signal);
    },
  };
}

function taskIn({ messages }: ModelRequest): string {
  const message = messages.findLast(({ role }) => role === 'user');
  return textOf(message?.content ?? '');
}

/** A call of the tool `agent`. */
export function delegate(id: string, prompt: string, agent?: string): ModelEvent {
  return toolCall(id, 'agent', agent === undefined ? { prompt } : { prompt, agent });
}

/** A turn that only answers. */
export function says(words: string): ModelEvent[] {
  return [text(words), finish()];
}

/** The sub-agent that was spawned for a task. */
export function agentFor(events: readonly StoredEvent[], task: string) {
  const found = ofType(events, 'agent.started').find(({ spawned }) => spawned?.task === task);
  if (found === undefined) throw new Error(`No agent was spawned for ${task}`);
  return found;
}

/** How the sub-agent ended that was spawned for a task. */
export function endFor(events: readonly StoredEvent[], task: string) {
  const { agentId } = agentFor(events, task);
  return ofType(events, 'agent.ended').find((event) => event.agentId === agentId);
}

/** The result of a call, whatever it is. */
export function resultOf(events: readonly StoredEvent[], toolCallId: string) {
  return [
    ...ofType(events, 'tool.completed'),
    ...ofType(events, 'tool.failed'),
    ...ofType(events, 'tool.denied'),
  ].find((event) => event.toolCallId === toolCallId);
}
