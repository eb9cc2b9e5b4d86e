/** Combines the built-in models, tools and agents with those of `relay.config.ts`, and checks them. */
import {
  type Action,
  type AgentRegistry,
  createAgentRegistry,
  type ModelRegistry,
  type ToolRegistry,
} from '@relay/core';
import { didYouMean } from '@relay/protocol/display';
import { createDemoModel, createModelRegistry, withPrices } from '@relay/models';
import {
  agentTool,
  assembleAgents,
  calculator,
  createSendNote,
  createToolRegistry,
  mayOffer,
  memoryTool,
  sessionTools,
  ToolCollection,
  workspaceToolNames,
} from '@relay/tools';
import { type Config, ConfigError } from './config.ts';
import type { ActionConfig, RelayConfig } from './config-file.ts';
import { isOffered } from '../outbound/providers.ts';

export interface Definitions {
  readonly models: ModelRegistry;
  readonly tools: ToolRegistry;
  readonly agents: AgentRegistry;
  /** By name. */
  readonly actions: ReadonlyMap<string, Action>;
}

/** Replaces the built-in models or tools, for in-process use and for tests. */
export interface Replacements {
  readonly models?: ModelRegistry;
  readonly tools?: ToolRegistry;
}

export function assembleDefinitions(
  config: Config,
  file: RelayConfig,
  replacements: Replacements,
): Definitions {
  try {
    const { agents, tools: agentTools } = assembleAgents(file.agents ?? []);
    const own = new ToolCollection();
    for (const tool of [...(file.tools ?? []), ...agentTools]) own.add(tool);
    const builtIn = replacements.tools?.list() ?? [
      agentTool,
      calculator,
      memoryTool,
      ...sessionTools,
      createSendNote({ dataDir: config.dataDir }),
    ];
    const definitions = {
      models: withPrices(replacements.models ?? builtInModels(), file.prices ?? {}),
      tools: createToolRegistry([...builtIn, ...own.all]),
      agents: createAgentRegistry(agents),
      actions: assembleActions(file.actions ?? []),
    };
    checkReferences(definitions, file);
    return definitions;
  } catch (error) {
    if (error instanceof TypeError) throw new ConfigError(`relay.config: ${error.message}`);
    throw error;
  }
}

function assembleActions(configs: readonly ActionConfig[]): Map<string, Action> {
  const actions = new Map<string, Action>();
  for (const config of configs) {
    const { name, outputSchema = null, availableTo = null, timeoutMs = null } = config;
    if (actions.has(name)) throw new TypeError(`two actions have the name ${name}`);
    actions.set(name, {
      ...config,
      outputSchema,
      availableTo,
      timeoutMs,
      idempotent: config.idempotent ?? false,
      sessionId: null,
      url: null,
      createdAt: 0,
      createdBy: { type: 'system', id: 'config', name: 'relay.config' },
    });
  }
  return actions;
}

/** An unknown name would otherwise fail in the middle of a run. */
function checkReferences({ models, tools, agents }: Definitions, file: RelayConfig): void {
  for (const { name, model, tools: own = [] } of agents.list()) {
    if (model !== undefined && !isOffered(models, model)) {
      throw new TypeError(`no provider offers the model ${model} of the agent ${name}`);
    }
    for (const tool of own) {
      // Only some tenants may have these; that is checked when a run starts.
      const mayExist = workspaceToolNames.includes(tool) || mayOffer(file.mcpServers ?? {}, tool);
      if (tools.find(tool) === undefined && !mayExist) {
        const hint = didYouMean(tool, [
          ...tools.list().map((each) => each.name),
          ...workspaceToolNames,
        ]);
        throw new TypeError(`the agent ${name} uses the tool ${tool}, which does not exist${hint}`);
      }
    }
  }
  const summarizer = file.compaction?.model;
  if (summarizer !== undefined && !isOffered(models, summarizer)) {
    throw new TypeError(`compaction.model: no provider offers the model ${summarizer}`);
  }
}

function builtInModels(): ModelRegistry {
  return createModelRegistry([{ id: 'demo', provider: 'demo', model: createDemoModel() }]);
}
