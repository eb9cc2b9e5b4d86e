/** Where the master key comes from: the environment, or a file of an embedded store's own. */
import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Config, ConfigError } from '../../config/config.ts';
import { type MasterKey, masterKeyOf } from './seal.ts';

/** The key that seals, and those that can still open. */
export type MasterKeys = readonly [current: MasterKey, ...previous: MasterKey[]];

/** The operator's key if there is one, else the store's own, and the one before it. */
export function masterKeys(config: Config): MasterKeys {
  const { dataDir, masterKey, previousMasterKey } = config;
  if (config.databaseUrl !== undefined && masterKey === undefined) {
    throw new ConfigError(
      'RELAY_DATABASE_URL needs RELAY_MASTER_KEY: 32 bytes in hex or base64, the same on every node',
    );
  }
  const current =
    masterKey === undefined ? ownMasterKey(dataDir) : parseMasterKey('RELAY_MASTER_KEY', masterKey);
  if (previousMasterKey === undefined) return [current];
  const previous =
    previousMasterKey === fileName
      ? ownMasterKey(dataDir)
      : parseMasterKey('RELAY_MASTER_KEY_PREVIOUS', previousMasterKey);
  return [current, previous];
}

/** Also what `RELAY_MASTER_KEY_PREVIOUS` says to mean the key in that file. */
const fileName = 'master-key';

/** 32 bytes, in hex or base64. */
export function parseMasterKey(name: string, text: string): MasterKey {
  const bytes = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : base64(text);
  if (bytes === undefined) {
    throw new ConfigError(`${name} must be 32 bytes, as 64 hexadecimal digits or in base64`);
  }
  return masterKeyOf(bytes);
}

function base64(text: string): Buffer | undefined {
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.byteLength === 32 ? bytes : undefined;
}

/** An embedded store makes its own key, once, for its owner's eyes only. */
export function ownMasterKey(dataDir: string): MasterKey {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, fileName);
  if (!existsSync(path)) {
    const fresh = `${path}.new-${randomUUID()}`;
    writeFileSync(fresh, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flush: true });
    keepFirst(fresh, path);
  }
  return parseMasterKey(path, readFileSync(path, 'utf8').trim());
}

/** Of two that start together, both take the key of whoever was first: nothing is overwritten. */
function keepFirst(fresh: string, path: string): void {
  try {
    linkSync(fresh, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(fresh, { force: true });
  }
}
