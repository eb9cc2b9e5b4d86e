/** An agent harness is the loop on a harness: it runs agents on the models that the harness offers. */
import { type AgentRegistry, createAgentRegistry } from '@relay/core';
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
import type { EventStream } from '@relay/core';
import type { AgentEvent } from './events.ts';
import { invalidRequest, issuesAt } from './invalid-request.ts';
import { Invocation } from './invocation.ts';
import { type MessageInput, readMessages } from './messages.ts';
import { type Harness, modelOf, unresolved } from './models.ts';
import { AgentRules } from './rules.ts';
import type { CompactionOptions } from './wiring.ts';

export interface AgentHarnessOptions {
  readonly harness: Harness;
  /** Turns of an agent before its last one. Default: 50. */
  readonly maxIterations?: number;
  readonly model?: string;
  /** Agents that can be named, spawned and handed off to. */
  readonly agents?: readonly AgentConfig[];
  readonly limits?: Limits;
  /** When and how a conversation that outgrows the model's window is summarized. */
  readonly compaction?: CompactionOptions;
}

export interface InvokeOptions {
  readonly messages: readonly MessageInput[];
  readonly tools?: readonly ToolReference[];
  readonly model?: string;
  /** Read anew for each call. Rules that are used up are removed from it. */
  readonly permissions?: Permissions;
  readonly signal?: AbortSignal;
  /** Instructions for this invocation; they come after those of the agent. */
  readonly system?: string;
  /** The agent that begins, or its name. */
  readonly agent?: AgentConfig | string;
  readonly maxIterations?: number;
  readonly limits?: Limits;
  /** Handed to tools, never to the model. */
  readonly context?: Readonly<Record<string, unknown>>;
}

export interface PrepareOptions extends InvokeOptions {
  /** "Always" holds for this agent alone, whoever else shares its permissions. */
  readonly alwaysForItself?: boolean;
}

export interface AgentHarness {
  readonly harness: Harness;
  /**
   * Runs when it is first read; leaving the loop early cancels the run. Throws a `RelayError` if no
   * harness offers the model, or if something in the options is wrong.
   */
  invoke(options: InvokeOptions): EventStream<AgentEvent>;
  /** The same without starting it, for whoever manages several. */
  prepare(options: PrepareOptions): Invocation;
}

const defaultMaxIterations = 50;

export function createAgentHarness(options: AgentHarnessOptions): AgentHarness {
  const { harness } = options;
  // A mistake shows here and not in the middle of a run.
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
  const own = (invoked.tools ?? []).map((tool) => tools.add(tool));
  const toolNames = [...new Set([...(agent?.tools ?? []), ...own])];
  const registry = createToolRegistry(tools.all);
  for (const name of toolNames) {
    if (registry.find(name) === undefined) {
      throw new RelayError('unknown_tool', `There is no tool named ${name}`);
    }
  }
  const limits = { ...options.limits, ...invoked.limits };
  checkLimits(limits);
  checkPrice(limits, harness, model);
  const system = [agent?.instructions, invoked.system].filter((text) => text !== undefined);
  const { alwaysForItself } = invoked;
  return new Invocation({
    harness,
    model: model === '' ? 'default' : model,
    agent: agent?.name ?? 'assistant',
    agents,
    tools: registry,
    toolNames,
    handoffs: agent?.handoffs ?? [],
    messages: readMessages(invoked.messages),
    rules: new AgentRules(invoked.permissions ?? {}, { alwaysForItself }),
    maxIterations: checkedTurns(
      invoked.maxIterations ??
        agent?.maxIterations ??
        options.maxIterations ??
        defaultMaxIterations,
    ),
    limits,
    compaction: options.compaction ?? {},
    context: invoked.context,
    signal: invoked.signal,
    ...(system.length === 0 ? {} : { system: system.join('\n\n') }),
    ...(agent?.outputSchema === undefined ? {} : { outputSchema: agent.outputSchema }),
    ...(agent?.reasoning === undefined ? {} : { reasoning: agent.reasoning }),
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

/** Without a bound that can be counted, a model that never ends would run for ever. */
function checkedTurns(maxIterations: number): number {
  if (Number.isSafeInteger(maxIterations) && maxIterations >= 1) return maxIterations;
  throw invalidRequest([{ path: 'maxIterations', message: 'Must be a whole number from 1 on' }]);
}

function checkLimits(limits: Limits): void {
  const parsed = limitsSchema.safeParse(limits, { error: issueMessage });
  if (!parsed.success) throw invalidRequest(issuesAt('limits', parsed.error.issues));
}

/** The loop would refuse it too, but only after the run was handed out. */
function checkPrice({ costUsd }: Limits, harness: Harness, model: string): void {
  if (costUsd === undefined || harness.price?.(model) !== undefined) return;
  throw invalidRequest([{ path: 'limits.costUsd', message: `The model ${model} has no price` }]);
}
