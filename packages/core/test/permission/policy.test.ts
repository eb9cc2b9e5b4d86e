import { expect, it } from 'vitest';
import type { Engine } from '../../src/engine.ts';
import { previewPolicy } from '../../src/permission/policy.ts';
import type { TenantStore } from '../../src/ports/index.ts';

it('reads a bounded part of the journals, and reports that it is incomplete', async () => {
  let read = 0;
  const listRuns = async (_filter: unknown, { limit }: { limit: number }) => ({
    items: Array.from({ length: limit }, (_, n) => ({ id: `run-${n}`, createdAt: n })),
    next: { at: 0, id: 'run-0' },
  });
  const readPage = async (_runId: string, { limit }: { limit: number }) => {
    read += limit;
    return { events: Array.from({ length: limit }, () => ({ type: 'text.delta' })), isLast: false };
  };
  const store = { tenantId: 't', listRuns, readPage } as unknown as TenantStore;
  const draft = { agent: null, rules: { allow: [], deny: [], ask: [], approvers: [] }, since: 0 };
  const preview = await previewPolicy({} as Engine, store, draft);
  expect(preview).toMatchObject({ calls: 0, complete: false, changed: [] });
  expect(read).toBe(200_000);
});
