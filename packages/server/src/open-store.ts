/** The store that the configuration names: a folder of this server's own, or a database of several. */
import type { SystemStore } from '@relay/core';
import { lockFolder, makeFolder, openPostgresStore, openSqliteStore } from '@relay/store';
import type { Config } from './config/config.ts';

export interface OpenedStore {
  readonly store: SystemStore;
  close(): Promise<void>;
}

/**
 * Beside a running server, or as the server itself, which has its folder alone. `advise` is told in one
 * line what an operator could make safer.
 */
export async function openStore(
  config: Config,
  as: 'server' | 'beside',
  advise: (line: string) => void = () => undefined,
): Promise<OpenedStore> {
  const { dataDir, databaseUrl } = config;
  if (databaseUrl !== undefined) {
    makeFolder(dataDir);
    const store = await openPostgresStore({ url: databaseUrl, advise });
    return { store, close: () => store.close() };
  }
  const lock = as === 'server' ? lockFolder(dataDir) : undefined;
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
