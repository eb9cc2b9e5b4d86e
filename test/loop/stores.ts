/** The stores that the loop is tested on, and a wrapper that intercepts their calls. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SystemStore, TenantStore } from '@relay/core';
import { createMemoryStore, openSqliteStore } from '@relay/store';
import { openEmptyPostgres } from '../support/postgres-stores.ts';

export interface OpenedStore {
  readonly store: SystemStore;
  /** The database file, where there is one. */
  readonly path?: string;
  dispose(): Promise<void>;
}

export interface StoreKind {
  readonly name: string;
  open(): Promise<OpenedStore>;
}

/** The store of the behaviour suites. */
export const memory: StoreKind = {
  name: 'memory',
  open: async () => ({ store: createMemoryStore(), dispose: async () => undefined }),
};

export const sqlite: StoreKind = {
  name: 'SQLite',
  async open() {
    const dir = mkdtempSync(join(tmpdir(), 'relay-loop-'));
    const store = await openSqliteStore({ dir });
    return {
      store,
      path: join(dir, 'relay.db'),
      async dispose() {
        await store.close();
        rmSync(dir, { recursive: true, force: true });
      },
    };
  },
};

const postgres: StoreKind = {
  name: 'PostgreSQL',
  async open() {
    const { store, dispose } = await openEmptyPostgres();
    return {
      store,
      async dispose() {
        await store.close();
        await dispose();
      },
    };
  },
};

export const allStores: readonly StoreKind[] = [memory, sqlite, postgres];

/** One call to a store on its way. */
export interface StoreCall {
  readonly method: keyof SystemStore | keyof TenantStore | `${Part}.${string}`;
  readonly args: readonly unknown[];
  go(): Promise<unknown>;
}

/** What a store consists of besides its own methods. */
type Part = 'audit' | 'policies' | 'webhooks' | 'vectors' | 'deliveries' | 'messages';

/** The same store, with `around` in the way of every call. */
export function wrapStore(
  inner: SystemStore,
  around: (call: StoreCall) => Promise<unknown>,
): SystemStore {
  return guarded(inner, (method, value) =>
    method === 'tenant'
      ? (id: string) => guarded(inner.tenant(id), passing)
      : passing(method, value),
  );

  function passing(method: string, value: (...args: unknown[]) => Promise<unknown>) {
    return (...args: unknown[]) =>
      around({ method: method as StoreCall['method'], args, go: () => value(...args) });
  }
}

type Method = (...args: unknown[]) => Promise<unknown>;

function guarded<Store extends object>(
  store: Store,
  replace: (method: string, value: Method) => unknown,
): Store {
  return new Proxy(store, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof key !== 'string') return value;
      if (typeof value === 'function') return replace(key, (value as Method).bind(target));
      if (typeof value !== 'object' || value === null) return value;
      return guarded(value, (method, call) => replace(`${key}.${method}`, call));
    },
  });
}

/** A store of a process that can be killed: from then on no call of it comes back. */
export function mortal(inner: SystemStore): { store: SystemStore; kill(): void } {
  const never = new Promise<never>(() => undefined);
  let dead = false;
  return {
    store: wrapStore(inner, async (call) => {
      if (dead) return never;
      const value = await call.go();
      return dead ? never : value;
    }),
    kill: () => {
      dead = true;
    },
  };
}
