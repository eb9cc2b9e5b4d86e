/**
 * Rotates the master key. The vault re-encrypts its records itself, as at a start with
 * RELAY_MASTER_KEY_PREVIOUS. This file fixes the order in which files change, so that a rotation can
 * be repeated after a crash at any point:
 *
 * 1. the new key is written to disk next to the old one (`master-key.next`);
 * 2. the store is re-encrypted with the new key while both keys exist;
 * 3. the old key is renamed, then the new key takes its name.
 */
import {
  existsSync,
  linkSync,
  renameSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve, dirname } from 'node:path';
import { randomBytes } from 'node:crypto';
import type { SystemStore } from '@relay/core';
import { countPostgresNodes } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { auditRotation, auditWriter } from '../audit/operator-entries.ts';
import { type Config, ConfigError, readConfig, type Installation } from '../config/config.ts';
import { withStore } from '../config/open-store.ts';
import {
  masterKeyFile,
  type MasterKeys,
  masterKeys,
  openRootKey,
  parseMasterKey,
} from '../secrets/master-key.ts';
import type { MasterKey } from '../secrets/secret-encryption.ts';
import { Vault } from '../secrets/vault.ts';

export type Rotation =
  /** The data folder has its new key. */
  | { readonly kind: 'replaced'; readonly keyFile: string; readonly oldKeyFile: string }
  /** The store is re-encrypted, and the server must be started with the key in the file. */
  | { readonly kind: 'resealed'; readonly keyFile: string }
  /** Only the key was created: running servers need it before anything is encrypted with it. */
  | { readonly kind: 'made'; readonly keyFile: string };

export interface RotateOptions {
  /** Where the new key goes, if the server has its key from the environment. */
  readonly keyFile?: string | undefined;
  /** No node uses the database now. */
  readonly nodesStopped?: boolean | undefined;
}

export async function rotateMasterKey(
  { env, cwd }: Installation,
  options: RotateOptions = {},
): Promise<Rotation> {
  const config = readConfig(env, cwd);
  const { dataDir, databaseUrl } = config;
  if (databaseUrl === undefined && !existsSync(join(dataDir, 'relay.db'))) {
    throw new ConfigError(`There is no store in ${dataDir}; set RELAY_DATA_DIR`);
  }
  const isOwn = config.masterKey === undefined && databaseUrl === undefined;
  const next = join(dataDir, `${masterKeyFile}.next`);
  const keyFile = isOwn ? next : resolve(cwd, options.keyFile ?? next);
  if (databaseUrl !== undefined && options.nodesStopped !== true) {
    newKey(keyFile, masterKeys(config));
    return { kind: 'made', keyFile };
  }
  return withStore(config, 'exclusive', async () => {
    if (databaseUrl !== undefined) await requireStoppedNodes(databaseUrl);
    const current = masterKeys(config);
    const masters: MasterKeys = [newKey(keyFile, current), ...current];
    // Again, with the new key, under the lock of the first.
    await withStore(config, 'shared', (store) => reencrypt(store, masters), masters);
    return isOwn ? replace(config, keyFile, current[0]) : { kind: 'resealed', keyFile };
  });
}

/** Running nodes that lack the new key could not open any credential. */
async function requireStoppedNodes(databaseUrl: string): Promise<void> {
  const alive = await countPostgresNodes(databaseUrl);
  if (alive === 0) return;
  throw new ConfigError(
    `${alive === 1 ? 'A node uses' : `${alive} nodes use`} this database; stop them all (one that ` +
      'was killed counts for RELAY_LEASE_TTL_MS), or omit --nodes-stopped',
  );
}

function newKey(keyFile: string, [current]: MasterKeys): MasterKey {
  const fresh = ensureKeyFile(keyFile);
  if (fresh.id !== current.id) return fresh;
  throw new ConfigError(`${keyFile} holds the master key that is in use; name another file`);
}

async function reencrypt(store: SystemStore, masters: MasterKeys): Promise<void> {
  const ids = { next: uuidv7 };
  const vault = new Vault({ store, masters, ids, log: { addSecret: () => {} } });
  await vault.open();
  await openRootKey(store, masters, (key) => auditRotation(store, auditWriter(key), masters));
}

function replace({ dataDir }: Config, next: string, old: MasterKey): Rotation {
  const keyFile = join(dataDir, masterKeyFile);
  const oldKeyFile = join(dataDir, `${masterKeyFile}.${old.id}.old`);
  if (!existsSync(oldKeyFile)) linkSync(keyFile, oldKeyFile);
  syncFolder(dataDir);
  renameSync(next, keyFile);
  syncFolder(dataDir);
  return { kind: 'replaced', keyFile, oldKeyFile };
}

export function readKeyFile(path: string): MasterKey {
  return parseMasterKey(path, readFileSync(path, 'utf8').trim());
}

/** Creates the key unless the file exists: a second attempt continues with the key of the first. */
function ensureKeyFile(path: string): MasterKey {
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

/** The key that the server would use, if it exists; never creates one. */
export function presentKey(config: Config): MasterKey | undefined {
  if (config.masterKey !== undefined) return parseMasterKey('RELAY_MASTER_KEY', config.masterKey);
  const path = join(config.dataDir, masterKeyFile);
  return config.databaseUrl === undefined && existsSync(path) ? readKeyFile(path) : undefined;
}
