/** What an approver sees of a call. */
import { createToolRegistry, defineTool } from '@relay/tools';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { bootServer, type TestServer } from '../../support/server.ts';
import { startRun } from '../../support/requests.ts';

let server: TestServer;
afterEach(() => server.stop());

const read = defineTool({
  name: 'read',
  description: 'Reads a file',
  schema: z.object({ path: z.string() }),
  execute: ({ path }) => ({ context: path }),
  derivePermission: ({ path }) => {
    if (path.startsWith('secret')) throw new Error('No suggestion for that');
    if (path.startsWith('far')) return { tool: 'read', params: { path: 'near/*' } };
    if (path.startsWith('bad')) return { tool: 'read', params: { path: '!x' } };
    if (path.startsWith('else')) return { tool: 'write' };
    return { tool: 'read', params: { path: `${path.replace(/[^/]*$/, '')}*` } };
  },
});

async function approvalOf(path: string) {
  const run = await startRun(server, {
    input: `use read ${JSON.stringify({ path })}`,
    tools: [{ name: 'read', kind: 'builtin' }],
  });
  const relay = await run.reader.until('approval_requested');
  await run.reader.disconnect();
  return server.json(`/v1/approvals/${String(relay.data['id'])}`);
}

describe('an approval', () => {
  it('shows the whole call, and the rule that its tool proposes', async () => {
    server = await bootServer({ tools: createToolRegistry([read]) });
    expect(await approvalOf('src/a.ts')).toMatchObject({
      display: { text: 'read {\n  "path": "src/a.ts"\n}', flags: [] },
      suggestedRule: { tool: 'read', params: { path: 'src/*' } },
    });
  });

  it('escapes invisible characters, and runs what was shown', async () => {
    server = await bootServer({ tools: createToolRegistry([read]) });
    const approval = await approvalOf('a\u202etxt.exe');
    expect(approval).toMatchObject({
      params: { path: 'a\u202etxt.exe' },
      display: { text: 'read {\n  "path": "a\\u{202e}txt.exe"\n}', flags: ['bidi'] },
    });
  });

  it('has no suggested rule if the tool proposes none', async () => {
    server = await bootServer({ tools: createToolRegistry([read]) });
    expect(await approvalOf('secret/x')).not.toHaveProperty('suggestedRule');
  });

  it('omits a suggested rule that does not match the call, is malformed or of another tool', async () => {
    server = await bootServer({ tools: createToolRegistry([read]) });
    for (const path of ['far/x', 'bad/x', 'else/x']) {
      const approval = await approvalOf(path);
      expect(approval, path).not.toHaveProperty('suggestedRule');
      const response = await server.request(`/v1/approvals/${String(approval['id'])}`, {
        body: { approved: true, always: true, rule: 'suggested' },
      });
      expect(response.status).toBe(400);
    }
  });

  it('grants the suggested rule on request', async () => {
    server = await bootServer({ tools: createToolRegistry([read]) });
    const { id, suggestedRule } = await approvalOf('src/a.ts');
    const body = { approved: true, always: true, rule: 'suggested', scope: 'tenant' };
    expect((await server.request(`/v1/approvals/${String(id)}`, { body })).status).toBe(200);
    const { grants } = await server.json('/v1/grants');
    expect(grants).toMatchObject([suggestedRule]);
    expect((grants as object[])[0]).not.toHaveProperty('exact');
  });
});
