/** `.env` in the current folder, for development. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { ConfigError, type Installation, isDevelopment } from './config.ts';

/** The settings of a server that is started in this folder, for `serve` and for the commands on its data. */
export function settingsOf(installation: Installation): Installation['env'] {
  return isDevelopment(installation.env) ? withEnvFile(installation) : installation.env;
}

/** The environment with what the file adds to it: variables that are set win. */
export function withEnvFile({ env, cwd }: Installation): Installation['env'] {
  const added = Object.entries(readEnvFile(join(cwd, '.env'))).filter(
    ([name]) => env[name] === undefined,
  );
  return { ...env, ...Object.fromEntries(added) };
}

function readEnvFile(path: string): Record<string, string> {
  try {
    return parseEnv(readFileSync(path, 'utf8')) as Record<string, string>;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw new ConfigError(`${path} could not be read: ${(error as Error).message}`);
  }
}
