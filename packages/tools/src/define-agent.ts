import type { AgentDefinition, Guardrails, Tool } from '@relay/core';
import {
  defined,
  type JsonSchema,
  type MemoryUse,
  memoryUseSchema,
  problemWith,
  type ReasoningEffort,
  reasoningEfforts,
} from '@relay/protocol';
import { didYouMean } from '@relay/protocol/display';
import { z } from 'zod';
import { defineTool, type ToolDefinition } from './define-tool.ts';

/** A tool, its definition, or the name of a registered tool. */
export type ToolReference = Tool | ToolDefinition | string;

export interface AgentConfig {
  readonly name: string;
  /** What it is for; shown to agents that may hand off to it. */
  readonly description?: string;
  readonly instructions?: string;
  /** Default: the model of its caller. */
  readonly model?: string;
  /** Default: the tools of its caller. */
  readonly tools?: readonly ToolReference[];
  /** The agents that it may hand off to; by name if two agents refer to each other. */
  readonly handoffs?: readonly (AgentConfig | string)[];
  readonly guardrails?: Guardrails;
  readonly maxIterations?: number;
  /** The schema of its last answer: a JSON Schema or a zod schema. */
  readonly outputSchema?: JsonSchema | z.ZodType;
  /** The reasoning effort, for models that support it. */
  readonly reasoning?: ReasoningEffort;
  /** Gives memory to runs that start with it; a request may name another namespace. */
  readonly memory?: MemoryUse;
}

const known = [
  'name',
  'description',
  'instructions',
  'model',
  'tools',
  'handoffs',
  'guardrails',
  'maxIterations',
  'outputSchema',
  'reasoning',
  'memory',
];

/** Defines an agent that can be started, spawned or handed off to by its name. */
export function defineAgent(config: AgentConfig): AgentConfig {
  checkFields(config);
  return Object.freeze({ ...config });
}

function checkFields(config: AgentConfig): void {
  const { name, description, instructions, model } = config;
  for (const field of Object.keys(config)) {
    if (known.includes(field)) continue;
    const hint = didYouMean(field, known);
    throw new TypeError(`The agent ${name} has an unknown field ${field}${hint}`);
  }
  for (const [field, value] of Object.entries({ name, description, instructions, model })) {
    if (field !== 'name' && value === undefined) continue;
    if (typeof value === 'string') continue;
    throw new TypeError(`The agent ${name}: ${field} must be a text`);
  }
}

export interface AssembledAgents {
  readonly agents: readonly AgentDefinition[];
  /** The tools that the agents define. */
  readonly tools: readonly Tool[];
}

/** Collects the agents, the agents that they hand off to, and their tools, each once. */
export function assembleAgents(configs: readonly AgentConfig[]): AssembledAgents {
  const agents = new Map<string, { config: AgentConfig; definition: AgentDefinition }>();
  const tools = new ToolCollection();
  const add = (config: AgentConfig): void => {
    const present = agents.get(config.name);
    if (present?.config === config) return;
    if (present !== undefined) throw new TypeError(`Two agents are named ${config.name}`);
    agents.set(config.name, { config, definition: definitionOf(config, tools) });
    for (const target of config.handoffs ?? []) if (typeof target !== 'string') add(target);
  };
  for (const config of configs) add(config);
  return {
    agents: [...agents.values()].map(({ definition }) => definition),
    tools: tools.all,
  };
}

function definitionOf(config: AgentConfig, tools: ToolCollection): AgentDefinition {
  // Not every agent was made with `defineAgent`.
  checkFields(config);
  const { tools: own, handoffs, outputSchema, ...rest } = config;
  if (rest.reasoning !== undefined && !reasoningEfforts.includes(rest.reasoning)) {
    throw new TypeError(`The agent ${config.name}: there is no reasoning ${rest.reasoning}`);
  }
  if (config.memory !== undefined && !memoryUseSchema.safeParse(config.memory).success) {
    throw new TypeError(`The memory of the agent ${config.name} must be true or {namespace}`);
  }
  return {
    ...rest,
    ...defined({
      outputSchema: outputSchema && schemaOf(config.name, outputSchema),
      tools: own?.map((tool) => tools.add(tool)),
      handoffs: handoffs?.map((to) => (typeof to === 'string' ? to : to.name)),
    }),
  };
}

function schemaOf(agent: string, given: JsonSchema | z.ZodType): JsonSchema {
  const { $schema: _, ...schema }: JsonSchema =
    given instanceof z.ZodType ? z.toJSONSchema(given, { io: 'input' }) : given;
  const problem = problemWith(schema);
  if (problem === undefined) return schema;
  throw new TypeError(`The agent ${agent}: outputSchema: ${problem}`);
}

/** Tools by name. A definition may be added twice, but two tools may not have the same name. */
export class ToolCollection {
  readonly #tools = new Map<string, Tool>();

  get all(): readonly Tool[] {
    return [...this.#tools.values()];
  }

  /** Returns the name of the tool. */
  add(given: ToolReference): string {
    if (typeof given === 'string') return given;
    const tool = isTool(given) ? given : toolOf(definitionIn(given));
    const present = this.#tools.get(given.name);
    if (present !== undefined && present !== tool) {
      throw new TypeError(`Two tools are named ${given.name}`);
    }
    this.#tools.set(given.name, tool);
    return given.name;
  }
}

/** A definition is one tool, however many agents use it. */
const toolByDefinition = new WeakMap<ToolDefinition, Tool>();

function toolOf(definition: ToolDefinition): Tool {
  const tool = toolByDefinition.get(definition) ?? defineTool(definition);
  toolByDefinition.set(definition, tool);
  return tool;
}

/** A tool that the SDK defined is defined anew: a client leaves part of the validation to the server. */
function isTool(given: Tool | ToolDefinition): given is Tool {
  return 'validate' in given && !('definition' in given);
}

function definitionIn(given: ToolDefinition): ToolDefinition {
  return 'definition' in given ? (given.definition as ToolDefinition) : given;
}
