/** Calls of MCP tools, and their questions, after a crash. */
import { createMemoryStore } from '@relay/store';
import { expect, it } from 'vitest';
import { McpFixture } from '../../../../../test/support/mcp/fixture.ts';
import { bootServer, until } from '../../support/server.ts';
import { startRun } from '../../support/requests.ts';

it.each(['during', 'instead'] as const)(
  'of an MCP server that asks (%s): the outcome is unknown, and an approval is requested',
  async (asks) => {
    const fixture = new McpFixture();
    const store = createMemoryStore();
    const file = { mcpServers: { shop: fixture.program(asks) } };
    const dead = await bootServer({ store, file });
    const { runId, reader } = await startRun(dead, {
      input: 'use shop_fit {"what":"coat"}',
      tools: [{ name: 'shop_fit', kind: 'builtin' }],
      permissions: { allowlist: [{ tool: 'shop_fit' }] },
    });
    const question = await reader.until('approval_requested');
    await dead.stop();
    // The MCP server starts after Relay: the run waits for its tool.
    const next = await bootServer({ store, file });
    try {
      const open = await until(async () => {
        const { approvals } = await next.json(`/v1/approvals?runId=${runId}&status=pending`);
        return (approvals as { id: string; kind: string }[]).find(({ kind }) => kind === 'outcome');
      }, 'the question about the outcome');
      const asked = await next.json(`/v1/approvals/${String(question.data['id'])}`);
      expect(asked).toMatchObject({ kind: 'question', status: 'closed' });
      expect(fixture.traces()).toEqual(['fit coat']);
      await next.request(`/v1/approvals/${open.id}`, {
        body: { outcome: 'completed', output: 'M' },
      });
      await until(async () => {
        const { status } = await next.json(`/v1/runs/${runId}`);
        return status === 'completed';
      }, 'the run to end');
    } finally {
      await next.stop();
      fixture.dispose();
    }
  },
);

it('an MCP call of an idempotent tool asks its question once, and gets the answer after a restart', async () => {
  const fixture = new McpFixture();
  const store = createMemoryStore();
  const file = { mcpServers: { shop: { ...fixture.program('instead'), idempotent: ['fit'] } } };
  const first = await bootServer({ store, file });
  const { runId, reader } = await startRun(first, {
    input: 'use shop_fit {"what":"coat"}',
    tools: [{ name: 'shop_fit', kind: 'builtin' }],
    permissions: { allowlist: [{ tool: 'shop_fit' }] },
  });
  const question = await reader.until('approval_requested');
  // The run holds no memory meanwhile.
  await until(
    async () => (await first.json(`/v1/runs/${runId}`))['status'] === 'waiting',
    'a stand',
  );
  await first.stop();
  const next = await bootServer({ store, file });
  try {
    const path = `/v1/approvals/${String(question.data['id'])}`;
    const answer = { approved: true, input: { size: 'M' } };
    expect((await next.request(path, { body: answer })).status).toBe(200);
    const stream = await next.request(`/v1/runs/${runId}/stream`);
    expect(await stream.text()).toContain('coat: accept {\\"size\\":\\"M\\"}');
  } finally {
    await next.stop();
    fixture.dispose();
  }
});

it('an MCP call that was abandoned while its server waits is repeated, and all questions are answered', async () => {
  const fixture = new McpFixture();
  const file = { mcpServers: { shop: { ...fixture.program('during'), idempotent: ['fit'] } } };
  const server = await bootServer({ file });
  const ask = async (what: string) => {
    const { runId, reader } = await startRun(server, {
      input: `use shop_fit {"what":"${what}"}`,
      tools: [{ name: 'shop_fit', kind: 'builtin' }],
      permissions: { allowlist: [{ tool: 'shop_fit' }] },
    });
    const { data } = await reader.until('approval_requested');
    expect(data['prompt']).toBe(`Which size of ${what}?`);
    return { runId, approvalId: String(data['id']) };
  };
  try {
    const asked = [await ask('coat'), await ask('hat')];
    for (const { runId, approvalId } of asked) {
      const body = { approved: true, input: { size: 'M' } };
      await server.request(`/v1/approvals/${approvalId}`, { body });
      await until(
        async () => (await server.json(`/v1/runs/${runId}`))['status'] === 'completed',
        'the run to end',
      );
    }
    expect(fixture.traces()).toEqual(['fit coat', 'fit hat', 'fit coat', 'fit hat']);
  } finally {
    await server.stop();
    fixture.dispose();
  }
});
