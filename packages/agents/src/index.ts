export type {
  AgentDefinition,
  AgentReport,
  EventStream,
  Guardrail,
  Guardrails,
  GuardrailVerdict,
  Model,
  ModelEvent,
  ModelRegistry,
  ModelRequest,
  ParameterKind,
  Price,
  Task,
  Tool,
  ToolContext,
  ToolOutput,
} from '@relay/core';
export {
  matchesPermission,
  matchesPermissions,
  ProviderFailure,
  type ToolCallLike,
  ToolSuspended,
} from '@relay/core';
export { type ChatCompletionsOptions, createChatCompletionsModel } from '@relay/models';
export {
  type EarlierDenial,
  type Limits,
  type Message,
  type PermissionResponse,
  type Permissions,
  RelayError,
  type ToolPermission,
  type Usage,
} from '@relay/protocol';
export {
  type AgentConfig,
  agentTool,
  calculator,
  defineAgent,
  defineTool,
  promptInjection,
  secretsInOutput,
  type ToolDefinition,
  type ToolReference,
} from '@relay/tools';
export {
  createDeterministicHarness,
  type DeterministicOptions,
  type ScriptedEvent,
  type ScriptedResponse,
} from './deterministic.ts';
export type * from './events.ts';
export {
  type AgentHarness,
  type AgentHarnessOptions,
  createAgentHarness,
  type InvokeOptions,
} from './harness.ts';
export {
  createDefaultHarness,
  createModelHarness,
  type Harness,
  registerModel,
  unregisterModel,
} from './models.ts';
export {
  type AgentMessage,
  AgentOrchestrator,
  type OrchestratedEvent,
  type OrchestratedRelay,
} from './orchestrator.ts';
export type { CompletePermissions, Denial, PermissionsUpdate, RuleInput } from './rules.ts';
export type { MessageInput } from './validation.ts';
export type { CompactionOptions } from './wiring.ts';
