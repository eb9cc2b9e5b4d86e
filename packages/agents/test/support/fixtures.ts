/** Shared fixtures: a recording tool, scripts, and readers that answer relays. */
import { z } from 'zod';
import {
  type AgentEvent,
  createDeterministicHarness,
  type Harness,
  type RelayEvent,
  type RelayResponse,
  type ScriptedEvent,
  type ToolContext,
  type ToolDefinition,
  type ToolOutput,
} from '../../src/index.ts';

export const messages = [{ role: 'user', content: 'Begin' }];

export function bash(id: string, command: string): ScriptedEvent {
  return { type: 'tool_call', id, name: 'bash', input: { command } };
}

export function says(content: string): ScriptedEvent {
  return { type: 'text', content };
}

/** One turn per list of events. */
export function turns(...lists: readonly (readonly ScriptedEvent[])[]) {
  return { responses: lists.map((events) => ({ events })) };
}

export interface Shell {
  readonly tool: ToolDefinition;
  /** The commands that ran, in order. */
  readonly ran: string[];
  readonly contexts: ToolContext[];
}

export function shell(
  run: (command: string, context: ToolContext) => ToolOutput | Promise<ToolOutput> = (command) => ({
    context: `$ ${command}`,
    result: { code: 0 },
  }),
): Shell {
  const ran: string[] = [];
  const contexts: ToolContext[] = [];
  const tool: ToolDefinition = {
    name: 'bash',
    description: 'Run a command',
    schema: z.strictObject({ command: z.string() }),
    execute: async ({ command }, context) => {
      ran.push(command);
      contexts.push(context);
      return run(command, context);
    },
  };
  return { tool, ran, contexts };
}

type Answer = RelayResponse | ((relay: RelayEvent) => RelayResponse | undefined);

/** Reads to the end, and answers every relay if there is an answer. */
export async function readAll(
  stream: AsyncIterable<AgentEvent>,
  answer?: Answer,
): Promise<AgentEvent[]> {
  const events: AgentEvent[] = [];
  for await (const event of stream) {
    events.push(event);
    if (event.type !== 'relay' || answer === undefined) continue;
    const response = typeof answer === 'function' ? answer(event) : answer;
    if (response !== undefined) event.respond(response);
  }
  return events;
}

type Of<Type extends AgentEvent['type']> = Extract<AgentEvent, { type: Type }>;

export function only<Type extends AgentEvent['type']>(
  events: readonly AgentEvent[],
  type: Type,
): Of<Type>[] {
  return events.filter((event): event is Of<Type> => event.type === type);
}

export function typesOf(events: readonly AgentEvent[]): string[] {
  return events.map(({ type }) => type);
}

/** Results by the id of their call. */
export function outputsOf(events: readonly AgentEvent[]): Record<string, unknown> {
  return Object.fromEntries(only(events, 'tool_result').map(({ id, output }) => [id, output]));
}

export function textOf(events: readonly AgentEvent[]): string {
  return events.map((event) => (event.type === 'text' ? event.content : '')).join('');
}

/** Reads until an event of this type. The stream stays open. */
export async function next<Type extends AgentEvent['type']>(
  stream: AsyncIterator<AgentEvent>,
  type: Type,
): Promise<Of<Type>> {
  for (;;) {
    const { done, value } = await stream.next();
    if (done === true) throw new Error(`The stream ended before ${type}`);
    const [found] = only([value], type);
    if (found !== undefined) return found;
  }
}

type Script = Parameters<typeof createDeterministicHarness>[0];

/** A harness with one script per model. */
export function harnessWith(scripts: Readonly<Record<string, Script>>): Harness {
  const models = new Map(
    Object.entries(scripts).map(([name, script]) => [name, createDeterministicHarness(script)]),
  );
  return {
    defaultModel: Object.keys(scripts)[0] ?? '',
    resolve: (name) => models.get(name),
    stream: () => {
      throw new Error('Only the scripted models can be called');
    },
  };
}

export function delegate(id: string, agent: string, prompt = 'Do it'): ScriptedEvent {
  return { type: 'tool_call', id, name: 'agent', input: { prompt, agent } };
}

export function handOff(id: string, agent: string): ScriptedEvent {
  return { type: 'tool_call', id, name: 'handoff', input: { agent } };
}
