/** Opens the store that the configuration names: SQLite in the data folder, or PostgreSQL. */
import type { SystemStore } from '@relay/core';
import { defined } from '@relay/protocol';
import { lockFolder, makeFolder, openPostgresStore, openSqliteStore } from '@relay/store';
import { type MasterKeys, masterKeys } from '../secrets/master-key.ts';
import { rowAuthenticator } from '../secrets/row-authenticator.ts';
import type { Config } from './config.ts';

export interface OpenedStore {
  readonly store: SystemStore;
  readonly close: () => Promise<void>;
}

export interface OpenStoreOptions {
  /** Receives one-line security advice for the operator. */
  readonly advise?: (line: string) => void;
  /** Authenticate the rows that decide who may do what. Default: the configured ones. */
  readonly masters?: MasterKeys;
}

/**
 * `exclusive` locks the data folder, as the server does; `shared` works beside a running server.
 */
export async function openStore(
  config: Config,
  mode: 'exclusive' | 'shared',
  { advise, masters }: OpenStoreOptions = {},
): Promise<OpenedStore> {
  const { dataDir, databaseUrl } = config;
  if (databaseUrl !== undefined) {
    makeFolder(dataDir);
    const rows = rowAuthenticator(masters ?? masterKeys(config));
    const store = await openPostgresStore({ url: databaseUrl, rows, ...defined({ advise }) });
    return { store, close: () => store.close() };
  }
  const lock = mode === 'exclusive' ? lockFolder(dataDir) : undefined;
  try {
    const rows = rowAuthenticator(masters ?? masterKeys(config));
    const store = await openSqliteStore({ dir: dataDir, rows });
    return {
      store,
      close: async () => {
        await store.close();
        lock?.release();
      },
    };
  } catch (error) {
    lock?.release();
    throw error;
  }
}

export async function withStore<Value>(
  config: Config,
  mode: 'exclusive' | 'shared',
  use: (store: SystemStore) => Promise<Value>,
  masters?: MasterKeys,
): Promise<Value> {
  const { store, close } = await openStore(config, mode, defined({ masters }));
  try {
    return await use(store);
  } finally {
    await close();
  }
}
