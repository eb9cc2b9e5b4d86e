export { compose, type Relay, type World } from './compose.ts';
export { type Config, ConfigError, readConfig } from './config/config.ts';
export { defineConfig, type RelayConfig } from './config/config-file.ts';
export {
  type AgentConfig,
  defineAgent,
  defineTool,
  promptInjection,
  secretsInOutput,
  type ToolDefinition,
} from '@relay/tools';
export { embed, type Embedded, type EmbedOptions } from './embed.ts';
export { type IssuedKey, issueBootstrapKey } from './secrets/keys.ts';
export { explainStart, type ProcessOptions, serveProcess } from './process.ts';
export { serve, type ServeOptions, type Serving } from './serve.ts';
