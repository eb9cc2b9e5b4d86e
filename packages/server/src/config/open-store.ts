/** Opens the store that the configuration names: SQLite in the data folder, or PostgreSQL. */
import type { SystemStore } from '@relay/core';
import { lockFolder, makeFolder, openPostgresStore, openSqliteStore } from '@relay/store';
import type { Config } from './config.ts';

export interface OpenedStore {
  readonly store: SystemStore;
  readonly close: () => Promise<void>;
}

/**
 * `exclusive` locks the data folder, as the server does; `shared` works beside a running server. `advise` receives one-line
 * security advice for the operator.
 */
export async function openStore(
  config: Config,
  mode: 'exclusive' | 'shared',
  advise: (line: string) => void = () => undefined,
): Promise<OpenedStore> {
  const { dataDir, databaseUrl } = config;
  if (databaseUrl !== undefined) {
    makeFolder(dataDir);
    const store = await openPostgresStore({ url: databaseUrl, advise });
    return { store, close: () => store.close() };
  }
  const lock = mode === 'exclusive' ? lockFolder(dataDir) : undefined;
  try {
    const store = await openSqliteStore({ dir: dataDir });
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
): Promise<Value> {
  const { store, close } = await openStore(config, mode);
  try {
    return await use(store);
  } finally {
    await close();
  }
}
