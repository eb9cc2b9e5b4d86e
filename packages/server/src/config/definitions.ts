/** What is there by itself and what the operator defined, put together and checked. */
import {
  type AgentRegistry,
  createAgentRegistry,
  type ModelRegistry,
  type ToolRegistry,
} from '@relay/core';
import { createDemoModel, createModelRegistry, withPrices } from '@relay/models';
import {
  agentTool,
  assembleAgents,
  calculator,
  createSendNote,
  createToolRegistry,
  mayOffer,
  memoryTool,
  ToolCollection,
  workspaceToolNames,
} from '@relay/tools';
import { type Config, ConfigError } from './config.ts';
import type { RelayConfig } from './config-file.ts';
import { isOffered } from '../outbound/providers.ts';

export interface Definitions {
  readonly models: ModelRegistry;
  readonly tools: ToolRegistry;
  readonly agents: AgentRegistry;
}

/** What replaces the built-in models or tools; for embedding and for tests. */
export interface Replacements {
  readonly models?: ModelRegistry;
  readonly tools?: ToolRegistry;
}

export function assembleDefinitions(
  config: Config,
  file: RelayConfig,
  replaced: Replacements,
): Definitions {
  try {
    const { agents, tools: brought } = assembleAgents(file.agents ?? []);
    const own = new ToolCollection();
    for (const tool of [...(file.tools ?? []), ...brought]) own.add(tool);
    const builtIn = replaced.tools?.list() ?? [
      agentTool,
      calculator,
      memoryTool,
      createSendNote({ dataDir: config.dataDir }),
    ];
    const definitions = {
      models: withPrices(replaced.models ?? builtInModels(), file.prices ?? {}),
      tools: createToolRegistry([...builtIn, ...own.all]),
      agents: createAgentRegistry(agents),
    };
    checkReferences(definitions, file);
    return definitions;
  } catch (error) {
    if (error instanceof TypeError) throw new ConfigError(`relay.config: ${error.message}`);
    throw error;
  }
}

/** A name that nobody answers to would otherwise show in the middle of a run. */
function checkReferences({ models, tools, agents }: Definitions, file: RelayConfig): void {
  for (const { name, model, tools: own = [] } of agents.list()) {
    if (model !== undefined && !isOffered(models, model)) {
      throw new TypeError(`no provider offers the model ${model} of the agent ${name}`);
    }
    for (const tool of own) {
      // A tenant may have these or not: that shows when the agent is asked for.
      const mayCome = workspaceToolNames.includes(tool) || mayOffer(file.mcpServers ?? {}, tool);
      if (tools.find(tool) === undefined && !mayCome) {
        throw new TypeError(`the agent ${name} uses the tool ${tool}, which does not exist`);
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
