/**
 * A new master key. What it seals is taken over by the vault itself, as at a start with
 * RELAY_MASTER_KEY_PREVIOUS; here is the order in which files change, so that a crash at any point
 * leaves keys with which a second attempt goes on:
 *
 * 1. the new key is on disk, beside the old one (`master-key.next`);
 * 2. the store is sealed with the new one, and both keys are there;
 * 3. the old key gets another name, then the new one takes its place.
 */
import { existsSync, linkSync, renameSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { countPostgresNodes } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { tellOfRotation, writerOf } from '../audit/operator.ts';
import { type Config, ConfigError, readConfig } from '../config/config.ts';
import { openStore } from '../open-store.ts';
import { type MasterKeys, masterKeys } from '../secrets/vault/master-key.ts';
import { openRootKey } from '../secrets/vault/root-key.ts';
import type { MasterKey } from '../secrets/vault/seal.ts';
import { Vault } from '../secrets/vault/vault.ts';
import { keyInFile, masterKeyFile, syncFolder } from './key-file.ts';
import type { Place } from './place.ts';

export type Rotation =
  /** The data folder has its new key. */
  | { readonly kind: 'replaced'; readonly keyFile: string; readonly oldKeyFile: string }
  /** The store is sealed anew, and the server must be started with the key in the file. */
  | { readonly kind: 'resealed'; readonly keyFile: string }
  /** Only the key was made: servers that run must know it before anything is sealed with it. */
  | { readonly kind: 'made'; readonly keyFile: string };

export interface RotateOptions {
  /** Where the new key goes, if the server has its key from the environment. */
  readonly keyFile?: string | undefined;
  /** No node uses the database now. */
  readonly nodesStopped?: boolean | undefined;
}

export async function rotateMasterKey(
  { env, cwd }: Place,
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
    freshKey(keyFile, masterKeys(config));
    return { kind: 'made', keyFile };
  }
  const opened = await openStore(config, 'server');
  try {
    if (databaseUrl !== undefined) await refuseBesideNodes(databaseUrl);
    const current = masterKeys(config);
    const fresh = freshKey(keyFile, current);
    await takeOver(opened.store, [fresh, ...current]);
    return isOwn ? replace(config, keyFile, current[0]) : { kind: 'resealed', keyFile };
  } finally {
    await opened.close();
  }
}

/** Nodes that do not know the new key could not open anything from one moment to the next. */
async function refuseBesideNodes(databaseUrl: string): Promise<void> {
  const alive = await countPostgresNodes(databaseUrl);
  if (alive === 0) return;
  throw new ConfigError(
    `${alive === 1 ? 'A node uses' : `${alive} nodes use`} this database; stop them all (one that ` +
      'was killed counts for RELAY_LEASE_TTL_MS), or leave --nodes-stopped out',
  );
}

function freshKey(keyFile: string, [current]: MasterKeys): MasterKey {
  const fresh = keyInFile(keyFile);
  if (fresh.id !== current.id) return fresh;
  throw new ConfigError(`${keyFile} holds the master key that is in use; name another file`);
}

async function takeOver(store: VaultStore, masters: MasterKeys): Promise<void> {
  const ids = { next: uuidv7 };
  const vault = new Vault({ store, masters, ids, log: { conceal: () => {} } });
  await vault.open();
  await openRootKey(store, masters, (key) => tellOfRotation(store, writerOf(key), masters));
}

type VaultStore = Awaited<ReturnType<typeof openStore>>['store'];

function replace({ dataDir }: Config, next: string, old: MasterKey): Rotation {
  const keyFile = join(dataDir, masterKeyFile);
  const oldKeyFile = join(dataDir, `${masterKeyFile}.${old.id}.old`);
  if (!existsSync(oldKeyFile)) linkSync(keyFile, oldKeyFile);
  syncFolder(dataDir);
  renameSync(next, keyFile);
  syncFolder(dataDir);
  return { kind: 'replaced', keyFile, oldKeyFile };
}
