/**
 * The master key, from the environment or from a file in the data folder, and the root key, which all
 * of Relay's own signatures derive from: seals of the audit trail, webhooks, links.
 *
 * The root key is derived from the first master key of a store and kept in the store, encrypted with the
 * current master key. So it survives a rotation, and earlier signatures stay valid.
 */
import { randomBytes, randomUUID, hkdfSync } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { type Config, ConfigError } from '../config/config.ts';
import {
  type MasterKey,
  masterKeyOf,
  contextOfStore,
  rewrap,
  encryptSecret,
  DecryptionFailed,
  decryptSecret,
} from './secret-encryption.ts';

/** The key that encrypts, and older keys that can still decrypt. */
export type MasterKeys = readonly [current: MasterKey, ...previous: MasterKey[]];

/** The operator's key if it is set, else the one in the data folder; then the previous key. */
export function masterKeys(config: Config): MasterKeys {
  const { dataDir, masterKey, previousMasterKey } = config;
  if (config.databaseUrl !== undefined && masterKey === undefined) {
    throw new ConfigError(
      'RELAY_DATABASE_URL needs RELAY_MASTER_KEY: 32 bytes in hex or base64, the same on every node',
    );
  }
  const isFilePrevious = previousMasterKey === masterKeyFile;
  const current =
    masterKey === undefined
      ? ownMasterKey(dataDir, { isNew: previousMasterKey !== undefined && !isFilePrevious })
      : parseMasterKey('RELAY_MASTER_KEY', masterKey);
  if (previousMasterKey === undefined) return [current];
  const previous = isFilePrevious
    ? ownMasterKey(dataDir)
    : parseMasterKey('RELAY_MASTER_KEY_PREVIOUS', previousMasterKey);
  return [current, previous];
}

/** As the value of `RELAY_MASTER_KEY_PREVIOUS` it means the key in that file. */
export const masterKeyFile = 'master-key';

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

/**
 * Creates the key file on the first start, readable by its owner only. A store that exists has a key already: a
 * new one is for it only if the operator names the key that it replaces.
 */
export function ownMasterKey(
  dataDir: string,
  { isNew = false }: { readonly isNew?: boolean } = {},
): MasterKey {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, masterKeyFile);
  if (!existsSync(path)) {
    if (!isNew && existsSync(join(dataDir, 'relay.db'))) {
      throw new ConfigError(
        `${path} is missing, and RELAY_MASTER_KEY is not set. Restore the file, or set the variable as for the server`,
      );
    }
    const fresh = `${path}.new-${randomUUID()}`;
    writeFileSync(fresh, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flush: true });
    createUnlessExists(fresh, path);
  }
  return parseMasterKey(path, readFileSync(path, 'utf8').trim());
}

/** If two processes start at once, both use the key of the first: nothing is overwritten. */
function createUnlessExists(fresh: string, path: string): void {
  try {
    linkSync(fresh, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(fresh, { force: true });
  }
}

const rootKeyName = 'root-key';
const context = contextOfStore(rootKeyName);

/** `onRotation` runs before the key is stored under a new master key: at least once. */
export async function openRootKey(
  store: SystemStore,
  masters: MasterKeys,
  onRotation?: (key: Buffer) => Promise<void>,
): Promise<Buffer> {
  const [current] = masters;
  const fresh = derive(current.bytes, 'relay root key');
  const encrypted = encryptSecret(fresh.toString('hex'), context, current);
  if (await store.writeMetadata(rootKeyName, encrypted, { ifAbsent: true })) return fresh;
  const stored = (await store.readMetadata(rootKeyName)) ?? encrypted;
  try {
    const key = Buffer.from(decryptSecret(stored, context, masters), 'hex');
    const again = rewrap(stored, context, masters);
    if (again !== undefined) {
      await onRotation?.(key);
      await store.writeMetadata(rootKeyName, again);
    }
    return key;
  } catch (error) {
    if (!(error instanceof DecryptionFailed)) throw error;
    throw new ConfigError(
      'RELAY_MASTER_KEY cannot decrypt the root key in the store. Set RELAY_MASTER_KEY_PREVIOUS to the old key',
    );
  }
}

/** One key for each purpose, so that a signature for one is invalid for another. */
export function derive(key: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, 'relay', purpose, 32));
}
