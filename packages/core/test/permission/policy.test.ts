import type { PolicyRules } from '@relay/protocol';
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

it('of the current policy reports no difference for a call of a tool that was removed since', async () => {
  const call = { agentId: 'root', toolCallId: 'c1' };
  const rule = { list: 'allow', source: 'tool' };
  const events = [
    { type: 'run.created', agent: 'assistant', permissions: {} },
    { type: 'tool.called', ...call, name: 'removed', input: {} },
    { type: 'tool.started', ...call, input: {}, rule },
  ];
  const rules = { allow: [], deny: [], ask: [{ tool: 'other' }], approvers: [] };
  const store = {
    tenantId: 't',
    listRuns: async () => ({ items: [{ id: 'r1', keyId: null }], next: null }),
    readPage: async () => ({ events, isLast: true }),
    policies: { inForce: async () => [{ agent: null, version: 1, rules }] },
  } as unknown as TenantStore;
  const clock = { now: () => 0 };
  const engine = { clock, tools: () => ({ find: () => undefined }) } as unknown as Engine;
  const preview = (draft: PolicyRules) =>
    previewPolicy(engine, store, { agent: null, rules: draft, since: 0 });
  expect(await preview(rules)).toMatchObject({ calls: 1, changed: [] });
  const { changed } = await preview({ ...rules, deny: [{ tool: 'removed' }] });
  expect(changed).toMatchObject([{ tool: 'removed', was: 'ask', now: 'deny' }]);
});
