/** `.env` in the current folder, for development. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { ConfigError, type Installation } from './config.ts';

/**
 * The environment with what the file adds to it: variables that are set win. This process gets them too,
 * because the code of `relay.config.ts` reads `process.env`.
 */
export function withEnvFile({ env, cwd }: Installation): Installation['env'] {
  const added = Object.entries(readEnvFile(join(cwd, '.env'))).filter(
    ([name]) => env[name] === undefined,
  );
  for (const [name, value] of added) process.env[name] ??= value;
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
