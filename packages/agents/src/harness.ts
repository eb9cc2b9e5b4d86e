/** Runs the agent loop in this process, with the models of a `Harness`. */
import { type AgentRegistry, createAgentRegistry, type EventStream } from '@relay/core';
import {
  issueMessage,
  type Limits,
  limitsSchema,
  type Permissions,
  RelayError,
} from '@relay/protocol';
import {
  type AgentConfig,
  assembleAgents,
  createToolRegistry,
  ToolCollection,
  type ToolReference,
} from '@relay/tools';
import type { AgentEvent } from './events.ts';
import { Invocation } from './invocation.ts';
import { type Harness, modelOf, unresolved } from './models.ts';
import { AgentRules } from './rules.ts';
import { invalidRequest, issuesAt, type MessageInput, readMessages } from './validation.ts';
import type { CompactionOptions } from './wiring.ts';

export interface AgentHarnessOptions {
  readonly harness: Harness;
  /** The maximum number of turns of an agent. Default: 50. */
  readonly maxIterations?: number;
  readonly model?: string;
  /** Agents that can be selected by name, spawned and handed off to. */
  readonly agents?: readonly AgentConfig[];
  readonly limits?: Limits;
  /** When and how a conversation that exceeds the context window is summarized. */
  readonly compaction?: CompactionOptions;
}

export interface InvokeOptions {
  readonly messages: readonly MessageInput[];
  readonly tools?: readonly ToolReference[];
  readonly model?: string;
  /** Read again for each call. Used allow-once rules are removed from it. */
  readonly permissions?: Permissions;
  readonly signal?: AbortSignal;
  /** Instructions for this invocation, after those of the agent. */
  readonly system?: string;
  /** The root agent, or its name. */
  readonly agent?: AgentConfig | string;
  readonly maxIterations?: number;
  readonly limits?: Limits;
  /** Passed to tools, never to the model. */
  readonly context?: Readonly<Record<string, unknown>>;
}

export interface PrepareOptions extends InvokeOptions {
  /** "Always" applies to this agent only, also if others share its permissions. */
  readonly privateAlways?: boolean;
}

export interface AgentHarness {
  readonly harness: Harness;
  /**
   * Starts the run when the stream is first read; leaving the loop early cancels it. Throws a
   * `RelayError` if the model is unknown or the options are invalid.
   */
  invoke(options: InvokeOptions): EventStream<AgentEvent>;
  /** The same without starting it, for the orchestrator. */
  prepare(options: PrepareOptions): Invocation;
}

const defaultMaxIterations = 50;

export function createAgentHarness(options: AgentHarnessOptions): AgentHarness {
  const { harness } = options;
  // Reports invalid options now, not during a run.
  assemble(options.agents ?? []);
  checkLimits(options.limits ?? {});
  const prepare = (invoked: PrepareOptions): Invocation => prepareInvocation(options, invoked);
  return { harness, prepare, invoke: (invoked) => prepare(invoked).events };
}

function assemble(configs: readonly AgentConfig[]): {
  agents: AgentRegistry;
  tools: ToolCollection;
} {
  const { agents, tools } = assembleAgents(configs);
  const collection = new ToolCollection();
  for (const tool of tools) collection.add(tool);
  return { agents: createAgentRegistry(agents), tools: collection };
}

function prepareInvocation(options: AgentHarnessOptions, invoked: PrepareOptions): Invocation {
  const { harness } = options;
  const configs = [...(options.agents ?? [])];
  if (typeof invoked.agent === 'object') configs.push(invoked.agent);
  const { agents, tools } = assemble([...new Set(configs)]);
  const agent = agentOf(invoked, agents);
  const model = invoked.model ?? agent?.model ?? options.model ?? harness.defaultModel ?? '';
  if (modelOf(harness, model) === undefined) throw unresolved(model);
  const invokedTools = (invoked.tools ?? []).map((tool) => tools.add(tool));
  const toolNames = [...new Set([...(agent?.tools ?? []), ...invokedTools])];
  const registry = createToolRegistry(tools.all);
  for (const name of toolNames) {
    if (registry.find(name) === undefined) {
      throw new RelayError('unknown_tool', `There is no tool named ${name}`);
    }
  }
  const limits = { ...options.limits, ...invoked.limits };
  checkLimits(limits);
  checkPrice(limits, harness, model);
  // Without a finite limit, a model that never stops would run forever.
  const maxIterations =
    invoked.maxIterations ?? agent?.maxIterations ?? options.maxIterations ?? defaultMaxIterations;
  if (!Number.isSafeInteger(maxIterations) || maxIterations < 1) {
    throw invalidRequest([{ path: 'maxIterations', message: 'Must be a positive integer' }]);
  }
  const system = [agent?.instructions, invoked.system].filter((text) => text !== undefined);
  return new Invocation({
    harness,
    model: model === '' ? 'default' : model,
    agent: agent?.name ?? 'assistant',
    agents,
    tools: registry,
    toolNames,
    handoffs: agent?.handoffs ?? [],
    messages: readMessages(invoked.messages),
    rules: new AgentRules(invoked.permissions ?? {}, invoked),
    maxIterations,
    limits,
    compaction: options.compaction ?? {},
    context: invoked.context,
    signal: invoked.signal,
    system: system.length === 0 ? undefined : system.join('\n\n'),
    outputSchema: agent?.outputSchema,
    reasoning: agent?.reasoning,
  });
}

function agentOf({ agent }: InvokeOptions, agents: AgentRegistry) {
  if (agent === undefined) return undefined;
  const name = typeof agent === 'string' ? agent : agent.name;
  const found = agents.find(name);
  if (found === undefined) {
    throw new RelayError('unknown_agent', `There is no agent named ${name}`);
  }
  return found;
}

function checkLimits(limits: Limits): void {
  const parsed = limitsSchema.safeParse(limits, { error: issueMessage });
  if (!parsed.success) throw invalidRequest(issuesAt('limits', parsed.error.issues));
}

/** The loop checks it too, but only after the invocation was returned. */
function checkPrice({ costUsd }: Limits, harness: Harness, model: string): void {
  if (costUsd === undefined || harness.price?.(model) !== undefined) return;
  throw invalidRequest([
    { path: 'limits.costUsd', message: `The model ${model} has no price: give its harness one` },
  ]);
}
