export { agentTool } from './builtin/agent.ts';
export { calculator } from './builtin/calculator.ts';
export {
  type AgentConfig,
  assembleAgents,
  type AssembledAgents,
  defineAgent,
  ToolCollection,
  type ToolReference,
} from './define-agent.ts';
export {
  defineDelegatingTool,
  defineTool,
  type DelegatingToolDefinition,
  type ToolDefinition,
} from './define-tool.ts';
export { promptInjection, secretPatterns, secretsInOutput } from './guardrails.ts';
export { secretsOf } from './mcp/secrets.ts';
export {
  isProgram,
  type McpEndpoint,
  type McpProgram,
  type McpServerConfig,
  mcpServersSchema,
} from './mcp/settings.ts';
export { mayOffer } from './mcp/tool-names.ts';
export { memoryTool } from './builtin/memory.ts';
export { sessionTools } from './builtin/messaging.ts';
export { createToolRegistry } from './registry.ts';
export { createSendNote } from './builtin/send-note.ts';
export { createWorkspaceTools, workspaceToolNames } from './workspace/tools.ts';
