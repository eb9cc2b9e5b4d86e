/** The process of `check-config.ts`. */
import { ConfigError, readConfig } from '../config/config.ts';
import { findConfigFile, loadConfigFile } from '../config/config-file.ts';
import { assembleDefinitions } from '../config/definitions.ts';
import type { ConfigCheck } from './check-config.ts';

async function check(): Promise<ConfigCheck> {
  const { env } = process;
  const [, , cwd = process.cwd()] = process.argv;
  try {
    const path = findConfigFile(env, cwd);
    if (path === undefined) return { state: 'absent' };
    const file = await loadConfigFile(env, cwd);
    const config = readConfig(env, cwd);
    const { agents, tools } = assembleDefinitions(config, file, {});
    const builtIn = assembleDefinitions(config, {}, {});
    return {
      state: 'valid',
      path,
      agents: agents.list().length - builtIn.agents.list().length,
      tools: tools.list().length - builtIn.tools.list().length,
      mcpServers: Object.keys(file.mcpServers ?? {}),
    };
  } catch (error) {
    if (error instanceof ConfigError) {
      return { state: 'invalid', problem: error.message, excerpt: error.excerpt };
    }
    return { state: 'invalid', problem: error instanceof Error ? error.message : String(error) };
  }
}

process.send?.(await check());
