/** Master keys in files, for their owner alone and on disk before anything depends on them. */
import { randomBytes } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Config } from '../config/config.ts';
import { parseMasterKey } from '../secrets/vault/master-key.ts';
import type { MasterKey } from '../secrets/vault/seal.ts';

export const masterKeyFile = 'master-key';

export function readKeyFile(path: string): MasterKey {
  return parseMasterKey(path, readFileSync(path, 'utf8').trim());
}

/** The key in that file, which is made if it is not there: a second attempt goes on with the first one's. */
export function keyInFile(path: string): MasterKey {
  if (!existsSync(path)) {
    const text = `${randomBytes(32).toString('hex')}\n`;
    writeFileSync(path, text, { mode: 0o600, flag: 'wx', flush: true });
    syncFolder(dirname(path));
  }
  return readKeyFile(path);
}

export function syncFolder(path: string): void {
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** The key that the server would use, if there is one; none is made. */
export function presentKey(config: Config): MasterKey | undefined {
  if (config.masterKey !== undefined) return parseMasterKey('RELAY_MASTER_KEY', config.masterKey);
  const path = join(config.dataDir, masterKeyFile);
  return config.databaseUrl === undefined && existsSync(path) ? readKeyFile(path) : undefined;
}
