/** How the commands of the tool `bash` run: from `relay.config.ts`, and `RELAY_SANDBOX` above it. */
import { bubblewrapProblem, refusedVariable } from '@relay/tools';
import type { Config } from './config.ts';
import { ConfigError } from './config-error.ts';

export interface BashConfig {
  /** `bwrap`: inside bubblewrap. The server does not start where that is not possible. */
  readonly sandbox?: 'bwrap';
  /** Inside a sandbox: whether commands reach the network. Default: they do not. */
  readonly network?: boolean;
  /** Names of variables that commands get from the server's environment, besides PATH and its like. */
  readonly environment?: readonly string[];
}

export interface BashSettings {
  readonly sandbox: 'bwrap' | undefined;
  readonly network: boolean;
  readonly environment: readonly string[];
}

export function bashSettings(
  config: Pick<Config, 'sandbox'>,
  file: BashConfig = {},
  problem: () => string | undefined = bubblewrapProblem,
): BashSettings {
  const sandbox = config.sandbox ?? file.sandbox;
  const why = sandbox === undefined ? undefined : problem();
  if (why !== undefined) {
    const asked = config.sandbox === undefined ? 'relay.config: bash.sandbox' : 'RELAY_SANDBOX';
    throw new ConfigError(`${asked} is bwrap, but ${why}`);
  }
  if (sandbox === undefined && file.network !== undefined) {
    throw new ConfigError('relay.config: bash.network means nothing without bash.sandbox');
  }
  for (const [index, name] of (file.environment ?? []).entries()) {
    const refused = refusedVariable(name);
    if (refused !== undefined) {
      throw new ConfigError(`relay.config: bash.environment[${index}]: ${refused}`);
    }
  }
  return { sandbox, network: file.network ?? false, environment: file.environment ?? [] };
}
