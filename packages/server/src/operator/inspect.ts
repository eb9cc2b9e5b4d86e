/** Inspects an installation without changing it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DamagedRow } from '@relay/core';
import {
  checkSqlite,
  findDamagedPostgresRows,
  findDamagedSqliteRows,
  readPostgresMetadata,
  readSqliteMetadata,
} from '@relay/store';
import { bashSettings } from '../config/config-file.ts';
import { type Config, readConfig, type Installation } from '../config/config.ts';
import { unknownSettings } from '../config/unknown-settings.ts';
import { masterKeyFile, masterKeys } from '../secrets/master-key.ts';
import { rowAuthenticator } from '../secrets/row-authenticator.ts';
import { canDecryptWith } from '../secrets/vault.ts';
import { presentKey } from './rotate.ts';

export interface Inspection {
  readonly dataDir: string;
  readonly host: string;
  readonly port: number;
  readonly kind: 'sqlite' | 'postgres';
  /** `absent`: the first start creates it. */
  readonly store: 'usable' | 'absent' | { readonly problem: string };
  /** `unused`: nothing is encrypted yet. */
  readonly masterKey: 'fits' | 'wrong' | 'missing' | 'unused' | { readonly problem: string };
  /** Rows that decide who may do what and were changed past Relay; empty without the right key. */
  readonly damagedRows: readonly DamagedRow[];
  readonly keyFile: string | undefined;
  readonly unknownSettings: readonly string[];
  readonly unfinishedRotation: string | undefined;
  /** Which commands run in a sandbox, and whether those that should do not. */
  readonly sandbox: { readonly summary: string; readonly isMissing: boolean };
}

/** Throws the same `ConfigError` as a start with invalid settings. */
export async function inspectStore({ env, cwd }: Installation): Promise<Inspection> {
  const config = readConfig(env, cwd);
  const { dataDir, host, port, databaseUrl } = config;
  const next = join(dataDir, `${masterKeyFile}.next`);
  const { store, storedCheck } = await inspect(config);
  const masterKey = keyStateOf(config, storedCheck);
  return {
    dataDir,
    host,
    port,
    kind: databaseUrl === undefined ? 'sqlite' : 'postgres',
    store,
    masterKey,
    damagedRows: masterKey === 'fits' ? await damagedRowsOf(config) : [],
    keyFile:
      databaseUrl === undefined && config.masterKey === undefined
        ? join(dataDir, masterKeyFile)
        : undefined,
    unknownSettings: unknownSettings(env),
    unfinishedRotation: existsSync(next) ? next : undefined,
    sandbox: await sandboxOf(config),
  };
}

async function sandboxOf(config: Config): Promise<Inspection['sandbox']> {
  const { sandbox, summary } = await bashSettings(config);
  return { summary, isMissing: sandbox === undefined && config.sandbox !== 'off' };
}

async function inspect(
  config: Config,
): Promise<{ store: Inspection['store']; storedCheck?: string }> {
  const path = join(config.dataDir, 'relay.db');
  if (config.databaseUrl === undefined && !existsSync(path)) return { store: 'absent' };
  try {
    const storedCheck = await storedCheckOf(config, path);
    return storedCheck === undefined ? { store: 'usable' } : { store: 'usable', storedCheck };
  } catch (error) {
    return { store: { problem: error instanceof Error ? error.message : String(error) } };
  }
}

async function storedCheckOf({ databaseUrl }: Config, path: string): Promise<string | undefined> {
  if (databaseUrl !== undefined) return readPostgresMetadata(databaseUrl, 'vault-check');
  checkSqlite(path);
  return readSqliteMetadata(path, 'vault-check');
}

async function damagedRowsOf(config: Config): Promise<DamagedRow[]> {
  const rows = rowAuthenticator(masterKeys(config));
  const { databaseUrl, dataDir } = config;
  return databaseUrl === undefined
    ? findDamagedSqliteRows(join(dataDir, 'relay.db'), rows)
    : findDamagedPostgresRows(databaseUrl, rows);
}

function keyStateOf(config: Config, storedCheck: string | undefined): Inspection['masterKey'] {
  try {
    const key = presentKey(config);
    if (key === undefined) {
      return storedCheck === undefined && config.databaseUrl === undefined ? 'unused' : 'missing';
    }
    if (storedCheck === undefined) return 'unused';
    return canDecryptWith(storedCheck, key) ? 'fits' : 'wrong';
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}
