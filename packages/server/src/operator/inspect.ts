/** A look at an installation that changes nothing in it. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { checkSqlite, readPostgresMetadata, readSqliteMetadata } from '@relay/store';
import { type Config, readConfig } from '../config/config.ts';
import { unknownSettings } from '../config/unknown-settings.ts';
import { opensWith } from '../secrets/vault/vault.ts';
import { masterKeyFile, presentKey } from './key-file.ts';
import type { Place } from './place.ts';

export interface Inspection {
  readonly dataDir: string;
  readonly host: string;
  readonly port: number;
  readonly kind: 'sqlite' | 'postgres';
  /** `absent`: there is none yet, the first start makes it. */
  readonly store: 'usable' | 'absent' | { readonly problem: string };
  /** `unused`: nothing is sealed yet. */
  readonly masterKey: 'fits' | 'wrong' | 'missing' | 'unused' | { readonly problem: string };
  readonly keyFile: string | undefined;
  /** Variables that look like settings and are none, a sentence for each. */
  readonly unknownSettings: readonly string[];
  /** A rotation that was not finished left its key here. */
  readonly unfinishedRotation: string | undefined;
}

/** Throws what a start would say about settings that are wrong. */
export async function inspectStore({ env, cwd }: Place): Promise<Inspection> {
  const config = readConfig(env, cwd);
  const { dataDir, host, port, databaseUrl } = config;
  const next = join(dataDir, `${masterKeyFile}.next`);
  const { store, note } = await lookInto(config);
  return {
    dataDir,
    host,
    port,
    kind: databaseUrl === undefined ? 'sqlite' : 'postgres',
    store,
    masterKey: keyStateOf(config, note),
    keyFile:
      databaseUrl === undefined && config.masterKey === undefined
        ? join(dataDir, masterKeyFile)
        : undefined,
    unknownSettings: unknownSettings(env),
    unfinishedRotation: existsSync(next) ? next : undefined,
  };
}

async function lookInto(config: Config): Promise<{ store: Inspection['store']; note?: string }> {
  const path = join(config.dataDir, 'relay.db');
  if (config.databaseUrl === undefined && !existsSync(path)) return { store: 'absent' };
  try {
    const note = await noteOf(config, path);
    return note === undefined ? { store: 'usable' } : { store: 'usable', note };
  } catch (error) {
    return { store: { problem: error instanceof Error ? error.message : String(error) } };
  }
}

async function noteOf({ databaseUrl }: Config, path: string): Promise<string | undefined> {
  if (databaseUrl !== undefined) return readPostgresMetadata(databaseUrl, 'vault-check');
  checkSqlite(path);
  return readSqliteMetadata(path, 'vault-check');
}

function keyStateOf(config: Config, note: string | undefined): Inspection['masterKey'] {
  try {
    const key = presentKey(config);
    if (key === undefined) {
      return note === undefined && config.databaseUrl === undefined ? 'unused' : 'missing';
    }
    if (note === undefined) return 'unused';
    return opensWith(note, key) ? 'fits' : 'wrong';
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}
