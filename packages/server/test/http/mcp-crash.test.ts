/** What becomes of a call of an MCP tool, and of its question, when the process dies. */
import { createMemoryStore } from '@relay/store';
import { expect, it } from 'vitest';
import { McpFixture } from '../../../../test/support/mcp/fixture.ts';
import { bootRelay, until } from '../support/relay.ts';
import { startRun } from '../support/talk.ts';

it.each(['during', 'instead'] as const)(
  'of a server whose questions come %s: nobody knows the outcome, and a person is asked',
  async (asks) => {
    const scene = new McpFixture();
    const store = createMemoryStore();
    const file = { mcpServers: { shop: scene.program(asks) } };
    const dead = await bootRelay({ store, file });
    const { runId, reader } = await startRun(dead, {
      input: 'use shop_fit {"what":"coat"}',
      tools: [{ name: 'shop_fit', kind: 'builtin' }],
      permissions: { allowlist: [{ tool: 'shop_fit' }] },
    });
    const question = await reader.until('approval_requested');
    await dead.stop();
    // Its server is not there at once after the start: the tool is waited for, not forgotten.
    const next = await bootRelay({ store, file });
    try {
      const open = await until(async () => {
        const { approvals } = await next.json(`/v1/approvals?runId=${runId}&status=pending`);
        return (approvals as { id: string; kind: string }[]).find(({ kind }) => kind === 'outcome');
      }, 'the question about the outcome');
      const asked = await next.json(`/v1/approvals/${String(question.data['id'])}`);
      expect(asked).toMatchObject({ kind: 'question', status: 'closed' });
      expect(scene.traces()).toEqual(['fit coat']);
      await next.request(`/v1/approvals/${open.id}`, { body: { approved: true, output: 'M' } });
      await until(async () => {
        const { status } = await next.json(`/v1/runs/${runId}`);
        return status === 'completed';
      }, 'the run to end');
    } finally {
      await next.stop();
      scene.dispose();
    }
  },
);

it('of one that may run again: it is asked once, and answered after a restart', async () => {
  const scene = new McpFixture();
  const store = createMemoryStore();
  const file = { mcpServers: { shop: { ...scene.program('instead'), idempotent: ['fit'] } } };
  const first = await bootRelay({ store, file });
  const { runId, reader } = await startRun(first, {
    input: 'use shop_fit {"what":"coat"}',
    tools: [{ name: 'shop_fit', kind: 'builtin' }],
    permissions: { allowlist: [{ tool: 'shop_fit' }] },
  });
  const question = await reader.until('approval_requested');
  // Nothing is held in memory meanwhile.
  await until(
    async () => (await first.json(`/v1/runs/${runId}`))['status'] === 'waiting',
    'a stand',
  );
  await first.stop();
  const next = await bootRelay({ store, file });
  try {
    const path = `/v1/approvals/${String(question.data['id'])}`;
    const answer = { approved: true, input: { size: 'M' } };
    expect((await next.request(path, { body: answer })).status).toBe(200);
    const stream = await next.request(`/v1/runs/${runId}/stream`);
    expect(await stream.text()).toContain('coat: accept {\\"size\\":\\"M\\"}');
  } finally {
    await next.stop();
    scene.dispose();
  }
});

it('of one that was let go while it asks in the old way: others are asked too, and all are answered', async () => {
  const scene = new McpFixture();
  const file = { mcpServers: { shop: { ...scene.program('during'), idempotent: ['fit'] } } };
  const server = await bootRelay({ file });
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
    expect(scene.traces()).toEqual(['fit coat', 'fit hat', 'fit coat', 'fit hat']);
  } finally {
    await server.stop();
    scene.dispose();
  }
});
