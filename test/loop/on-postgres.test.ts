/** What matters most of the loop, on PostgreSQL: the same suites as on the other stores. */
import { afterAll, describe, vi } from 'vitest';
import { dropDatabases } from './stores.ts';

vi.mock('./stores.ts', async (original) => {
  const all = await original<typeof import('./stores.ts')>();
  return { ...all, stores: all.allStores.slice(-1) };
});

afterAll(dropDatabases);

// Each in a suite of its own, to which its hooks belong.
describe('approvals', async () => {
  await import('./approvals.test.ts');
});
describe('decisions', async () => {
  await import('./decisions.test.ts');
});
describe('grants', async () => {
  await import('./grants.test.ts');
});
describe('policy', async () => {
  await import('./policy.test.ts');
});
describe('function tools', async () => {
  await import('./function-tools.test.ts');
});
describe('the cost of waking', async () => {
  await import('./wake-cost.test.ts');
});
