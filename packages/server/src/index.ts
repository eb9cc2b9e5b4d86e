export { type ActionContext, ActionFailed, ToolSuspended } from '@relay/core';
export { compose, type ComposeOptions, type Relay } from './compose.ts';
export { type Config, ConfigError, type Installation, readConfig } from './config/config.ts';
export { type ActionConfig, defineConfig, type RelayConfig } from './config/config-file.ts';
export {
  type AgentConfig,
  defineAgent,
  defineTool,
  promptInjection,
  secretsInOutput,
  type ToolDefinition,
} from '@relay/tools';
export { acp, defineHarness, pty } from '@relay/harnesses';
export { embed, type EmbedOptions, type InProcessRelay } from './embed.ts';
export { type IssuedKey, issueBootstrapKey } from './secrets/keys.ts';
export {
  explainStartError,
  type RunningServer,
  serve,
  type ServeOptions,
  serveProcess,
  startErrorExcerpt,
} from './serve.ts';
