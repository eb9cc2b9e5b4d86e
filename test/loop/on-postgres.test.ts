/** A smoke test of the loop on PostgreSQL: one of the suites that otherwise run in memory. */
import { afterAll, vi } from 'vitest';
import { dropDatabases } from './stores.ts';

vi.mock('./stores.ts', async (original) => {
  const all = await original<typeof import('./stores.ts')>();
  return { ...all, stores: all.allStores.slice(-1) };
});

afterAll(dropDatabases);

await import('./approvals.test.ts');
