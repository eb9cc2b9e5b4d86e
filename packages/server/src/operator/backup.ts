/**
 * Backup, restore and verification of a SQLite store. A backup is a consistent copy, also while the
 * server runs. A restore appears whole or not at all, and overwrites nothing.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  writeFileSync,
  readFileSync,
  readSync,
  renameSync,
  mkdtempSync,
} from 'node:fs';
import { join, resolve, dirname } from 'node:path';
import { tmpdir } from 'node:os';
import { checkSqlite, copySqlite } from '@relay/store';
import { ConfigError, readConfig, type Config, type Installation } from '../config/config.ts';
import { version } from '../version.ts';
import { presentKey, readKeyFile, syncFolder } from './rotate.ts';
import { recordRestore } from '../audit/operator-entries.ts';
import { type AuditPosition, AuditSigner } from '../audit/signer.ts';
import { verifyTrail, type Verdict } from '../audit/verify.ts';
import { withStore } from '../config/open-store.ts';
import { derive, masterKeyFile, masterKeys, openRootKey } from '../secrets/master-key.ts';

export interface BackupManifest {
  readonly format: 1;
  readonly relay: string;
  readonly createdAt: string;
  /** The fingerprint of the key that encrypts the credentials, and whether the backup includes the key. */
  readonly masterKey: { readonly id: string | null; readonly included: boolean };
  /** The SHA-256 of each other file, in hex. Older backups have none. */
  readonly files?: Readonly<Record<string, string>>;
}

export interface Backup extends BackupManifest {
  readonly folder: string;
  /** Where the key is: the backup cannot be used without it. */
  readonly keyIn: string;
}

export interface BackupOptions {
  readonly target: string;
  readonly withMasterKey?: boolean | undefined;
}

const manifestFile = 'backup.json';
/** Other files in the data folder. */
const otherFiles = ['notes.log'];
/** SQLite would apply them to the database. A backup has none. */
const journals = ['relay.db-wal', 'relay.db-journal'];

export function makeBackup({ env, cwd }: Installation, options: BackupOptions): Backup {
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
    const names = readdirSync(folder);
    const manifest: BackupManifest = {
      format: 1,
      relay: version,
      createdAt: new Date().toISOString(),
      masterKey: { id: key?.id ?? null, included },
      files: Object.fromEntries(names.map((name) => [name, sha256Of(join(folder, name))])),
    };
    // Written last: a folder without it is not a backup.
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

/** In chunks: a database can be larger than the memory. */
function sha256Of(path: string): string {
  const hash = createHash('sha256');
  const chunk = Buffer.allocUnsafe(1_048_576);
  const file = openSync(path, 'r');
  try {
    for (let size = readSync(file, chunk); size > 0; size = readSync(file, chunk)) {
      hash.update(chunk.subarray(0, size));
    }
  } finally {
    closeSync(file);
  }
  return hash.digest('hex');
}

function makeEmpty(folder: string): void {
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new ConfigError(`${folder} is not empty. Choose an empty or new folder`);
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}

export interface RestoreOptions {
  readonly backup: string;
  /** The master key, if it is neither in the backup nor in the environment. */
  readonly keyFile?: string | undefined;
  /** Restore without the key; the operator adds it before the start. */
  readonly withoutKey?: boolean | undefined;
  /** The store is opened at once: the key cannot be added later. */
  readonly needsKey?: boolean | undefined;
  /** The first start pauses all tenants before it continues anything. */
  readonly paused?: boolean | undefined;
}

export interface Restored {
  readonly folder: string;
  readonly createdAt: string;
  readonly key: 'restored' | 'environment' | 'missing';
  readonly paused: boolean;
}

export function restoreBackup({ env, cwd }: Installation, options: RestoreOptions): Restored {
  const config = readConfig(env, cwd);
  const { dataDir: folder } = config;
  const { paused = false } = options;
  const backup = resolve(cwd, options.backup);
  const manifest = readManifest(backup);
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new ConfigError(
      `${folder} is not empty; move it away (and stop its server, if one runs), or restore into another folder`,
    );
  }
  checkFiles(backup, manifest);
  const { from, key } = findKey(config, manifest, { ...options, backup });
  const draft = `${folder}.restoring-${process.pid}`;
  mkdirSync(dirname(folder), { recursive: true });
  mkdirSync(draft, { mode: 0o700 });
  try {
    // SQLite copies the database: unlike a file copy, that detects damage.
    checkSqlite(join(backup, 'relay.db'));
    copySqlite(join(backup, 'relay.db'), join(draft, 'relay.db'));
    for (const name of otherFiles) {
      if (existsSync(join(backup, name))) copyFileSync(join(backup, name), join(draft, name));
    }
    if (from !== undefined) copyFileSync(from, join(draft, masterKeyFile));
    recordRestore(draft, manifest.createdAt, paused);
    syncFolder(draft);
    // Fails unless the target is missing or an empty folder.
    renameSync(draft, folder);
    syncFolder(dirname(folder));
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    throw error;
  }
  return { folder, createdAt: manifest.createdAt, key, paused };
}

function readManifest(backup: string): BackupManifest {
  const path = join(backup, manifestFile);
  let manifest: Partial<BackupManifest> | undefined;
  try {
    manifest = JSON.parse(readFileSync(path, 'utf8')) as Partial<BackupManifest>;
  } catch {
    throw new ConfigError(`${backup} is not a backup: ${manifestFile} is missing or invalid`);
  }
  if (manifest.format !== 1)
    throw new ConfigError(`${path} has a format that this version does not support`);
  return manifest as BackupManifest;
}

/** Finds damage. Anyone who can write the backup can also change its manifest. */
function checkFiles(backup: string, { files }: BackupManifest): void {
  if (files === undefined) return;
  for (const [name, sha256] of Object.entries(files)) {
    const path = join(backup, name);
    const isMissing = !existsSync(path);
    if (!isMissing && sha256Of(path) === sha256) continue;
    throw new ConfigError(
      `${path} ${isMissing ? 'is missing' : 'has changed since the backup was made'}; ` +
        'use another copy of this backup, or another backup',
    );
  }
  for (const name of [...journals, ...otherFiles]) {
    const path = join(backup, name);
    if (Object.hasOwn(files, name) || !existsSync(path)) continue;
    throw new ConfigError(`${path} was added after the backup was made; remove it`);
  }
}

interface FoundKey {
  readonly key: Restored['key'];
  readonly from?: string;
}

/** Fails now instead of at the start: a store does not open without its key. */
function findKey(config: Config, { masterKey }: BackupManifest, options: RestoreOptions): FoundKey {
  const file = masterKey.included ? join(options.backup, masterKeyFile) : options.keyFile;
  if (file !== undefined) {
    if (!existsSync(file)) throw new ConfigError(`There is no file ${file}`);
    if (readKeyFile(file).id !== masterKey.id) {
      throw new ConfigError(`${file} is not the master key that encrypted this backup`);
    }
    return { key: 'restored', from: file };
  }
  if (config.masterKey !== undefined) {
    if (presentKey(config)?.id === masterKey.id) return { key: 'environment' };
    throw new ConfigError('RELAY_MASTER_KEY is not the key that encrypted this backup');
  }
  if (options.withoutKey === true || masterKey.id === null) return { key: 'missing' };
  const choices =
    options.needsKey === true
      ? 'or set RELAY_MASTER_KEY'
      : 'set RELAY_MASTER_KEY, or restore --without-master-key and add the key before you start the server';
  throw new ConfigError(
    `The master key is not in this backup: name its file with --master-key-file, ${choices}`,
  );
}

export interface VerifyBackupOptions extends Pick<RestoreOptions, 'backup' | 'keyFile'> {
  readonly tenant: string;
  /** A head that was recorded elsewhere. */
  readonly known?: AuditPosition | undefined;
}

/** Verifies the audit trail in a backup without a server. Only a temporary copy is opened. */
export async function verifyBackup(
  installation: Installation,
  options: VerifyBackupOptions,
): Promise<Verdict> {
  const { backup, keyFile, tenant: name, known } = options;
  const folder = mkdtempSync(join(tmpdir(), 'relay-verify-'));
  const env = { ...installation.env, RELAY_DATA_DIR: folder, RELAY_DATABASE_URL: undefined };
  try {
    restoreBackup({ ...installation, env }, { backup, keyFile, needsKey: true });
    const config = readConfig(env, installation.cwd);
    return await withStore(config, 'exclusive', async (store) => {
      const tenant = await store.findTenant(name);
      if (tenant === undefined) throw new ConfigError(`The backup has no tenant ${name}`);
      const rootKey = await openRootKey(store, masterKeys(config));
      const signer = new AuditSigner(derive(rootKey, 'audit'));
      const { audit: trail } = store.tenant(tenant.id);
      const heads = known === undefined ? [] : [known];
      return verifyTrail({ tenantId: tenant.id, trail, signer }, heads);
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
