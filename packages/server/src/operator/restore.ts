/** A data folder from a backup. It appears whole or not at all, and never over another one. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { checkSqlite, copySqlite } from '@relay/store';
import { noteRestore } from '../audit/operator.ts';
import { type Config, ConfigError, readConfig } from '../config/config.ts';
import { type BackupManifest, manifestFile, otherFiles } from './backup.ts';
import { masterKeyFile, presentKey, readKeyFile, syncFolder } from './key-file.ts';
import type { Place } from './place.ts';

export interface RestoreOptions {
  readonly backup: string;
  /** The master key, if it is neither in the backup nor in the environment. */
  readonly keyFile?: string | undefined;
  /** Go on without one: it will be brought before the start. */
  readonly withoutKey?: boolean | undefined;
}

export interface Restored {
  readonly folder: string;
  readonly createdAt: string;
  readonly key: 'restored' | 'environment' | 'missing';
}

export function restoreBackup({ env, cwd }: Place, options: RestoreOptions): Restored {
  const config = readConfig(env, cwd);
  const { dataDir: folder } = config;
  const backup = resolve(cwd, options.backup);
  const manifest = readManifest(backup);
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new ConfigError(
      `${folder} is in use; stop its server and move it away, or restore into another folder`,
    );
  }
  const { from, key } = findKey(config, manifest, { ...options, backup });
  const draft = `${folder}.restoring-${process.pid}`;
  mkdirSync(dirname(folder), { recursive: true });
  mkdirSync(draft, { mode: 0o700 });
  try {
    // A copy by the database notices what a copy of the file would carry over.
    checkSqlite(join(backup, 'relay.db'));
    copySqlite(join(backup, 'relay.db'), join(draft, 'relay.db'));
    for (const name of otherFiles) {
      if (existsSync(join(backup, name))) copyFileSync(join(backup, name), join(draft, name));
    }
    if (from !== undefined) copyFileSync(from, join(draft, masterKeyFile));
    noteRestore(draft, manifest.createdAt);
    syncFolder(draft);
    // Only an empty folder gives way to it.
    renameSync(draft, folder);
    syncFolder(dirname(folder));
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    throw error;
  }
  return { folder, createdAt: manifest.createdAt, key };
}

function readManifest(backup: string): BackupManifest {
  const path = join(backup, manifestFile);
  let manifest: Partial<BackupManifest> | undefined;
  try {
    manifest = JSON.parse(readFileSync(path, 'utf8')) as Partial<BackupManifest>;
  } catch {
    throw new ConfigError(`${backup} is no backup: ${manifestFile} is missing or cannot be read`);
  }
  if (manifest.format !== 1)
    throw new ConfigError(`${path} is of a version that is not known here`);
  return manifest as BackupManifest;
}

interface FoundKey {
  readonly key: Restored['key'];
  /** The file to copy. */
  readonly from?: string;
}

/** A store without its key would refuse to start, or lose its credentials: better said now. */
function findKey(config: Config, { masterKey }: BackupManifest, options: RestoreOptions): FoundKey {
  const file = masterKey.included ? join(options.backup, masterKeyFile) : options.keyFile;
  if (file !== undefined) {
    if (!existsSync(file)) throw new ConfigError(`There is no file ${file}`);
    if (readKeyFile(file).id !== masterKey.id) {
      throw new ConfigError(`${file} is not the master key that this backup was sealed with`);
    }
    return { key: 'restored', from: file };
  }
  if (config.masterKey !== undefined) {
    if (presentKey(config)?.id === masterKey.id) return { key: 'environment' };
    throw new ConfigError('RELAY_MASTER_KEY is not the key that this backup was sealed with');
  }
  if (options.withoutKey === true || masterKey.id === null) return { key: 'missing' };
  throw new ConfigError(
    'The master key is not in this backup: name its file with --master-key-file, set ' +
      'RELAY_MASTER_KEY, or restore --without-master-key and bring it before the start',
  );
}
