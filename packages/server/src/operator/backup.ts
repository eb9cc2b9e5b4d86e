/** A copy of an embedded store as it is at one moment, also while its server runs. */
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { checkSqlite, copySqlite } from '@relay/store';
import { ConfigError, readConfig } from '../config/config.ts';
import { version } from '../version.ts';
import { masterKeyFile, presentKey, syncFolder } from './key-file.ts';
import type { Place } from './place.ts';

export interface BackupManifest {
  readonly format: 1;
  readonly approval: string;
  readonly createdAt: string;
  /** The fingerprint of the key that the credentials are sealed with, and whether it lies beside. */
  readonly masterKey: { readonly id: string | null; readonly included: boolean };
}

export interface Backup extends BackupManifest {
  readonly folder: string;
  /** Where the key is that this backup cannot be used without. */
  readonly keyIn: string;
}

export interface BackupOptions {
  readonly target: string;
  readonly withMasterKey?: boolean | undefined;
}

export const manifestFile = 'backup.json';
/** What a data folder holds besides the store. */
export const otherFiles = ['notes.log'];

export function makeBackup({ env, cwd }: Place, options: BackupOptions): Backup {
  const config = readConfig(env, cwd);
  if (config.databaseUrl !== undefined) {
    throw new ConfigError('A PostgreSQL database is backed up by its own tools, such as pg_dump');
  }
  const { dataDir } = config;
  const store = join(dataDir, 'relay.db');
  if (!existsSync(store))
    throw new ConfigError(`There is no store in ${dataDir}; set RELAY_DATA_DIR`);
  const key = presentKey(config);
  const isInEnvironment = config.masterKey !== undefined;
  const included = options.withMasterKey === true;
  if (included && (isInEnvironment || key === undefined)) {
    throw new ConfigError(
      `There is no file ${join(dataDir, masterKeyFile)} to put into the backup`,
    );
  }
  const folder = resolve(cwd, options.target);
  makeEmpty(folder);
  try {
    copySqlite(store, join(folder, 'relay.db'));
    checkSqlite(join(folder, 'relay.db'));
    for (const name of [...otherFiles, ...(included ? [masterKeyFile] : [])]) {
      if (existsSync(join(dataDir, name))) copyFileSync(join(dataDir, name), join(folder, name));
    }
    const manifest: BackupManifest = {
      format: 1,
      approval: version,
      createdAt: new Date().toISOString(),
      masterKey: { id: key?.id ?? null, included },
    };
    // The last file: without it a folder is no backup.
    const text = `${JSON.stringify(manifest, null, 2)}\n`;
    writeFileSync(join(folder, manifestFile), text, { mode: 0o600, flush: true });
    syncFolder(folder);
    const keyIn = isInEnvironment ? 'RELAY_MASTER_KEY' : join(dataDir, masterKeyFile);
    return { ...manifest, folder, keyIn };
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Nothing is ever overwritten. */
function makeEmpty(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new ConfigError(`${folder} is not empty; nothing is overwritten`);
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}
