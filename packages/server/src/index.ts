export { compose, type Relay, type World } from './compose.ts';
export { type Config, ConfigError, readConfig } from './config.ts';
export { type IssuedKey, issueBootstrapKey } from './keys.ts';
export { serve, type ServeOptions, type Serving } from './serve.ts';
