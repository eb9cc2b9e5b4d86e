/** What somebody who decides is shown. */
import { createToolRegistry, defineTool } from '@relay/tools';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { bootRelay, storeKinds, type TestRelay } from './testing/relay.ts';
import { startRun } from './testing/talk.ts';

let server: TestRelay;
afterEach(() => server.stop());

const read = defineTool({
  name: 'read',
  description: 'Reads a file',
  schema: z.object({ path: z.string() }),
  execute: ({ path }) => ({ context: path }),
  derivePermission: ({ path }) => {
    if (path.startsWith('secret')) throw new Error('No suggestion for that');
    return { tool: 'read', params: { path: `${path.replace(/[^/]*$/, '')}*` } };
  },
});

async function approvalOf(path: string) {
  const run = await startRun(server, {
    input: `use read ${JSON.stringify({ path })}`,
    tools: [{ name: 'read', kind: 'builtin' }],
  });
  const relay = await run.reader.until('relay');
  await run.reader.leave();
  return server.json(`/v1/approvals/${String(relay.data['id'])}`);
}

describe.each(storeKinds)('an approval on the %s store', (kind) => {
  it('shows the whole call, and the rule that its tool proposes', async () => {
    server = await bootRelay({ kind, tools: createToolRegistry([read]) });
    expect(await approvalOf('src/a.ts')).toMatchObject({
      display: { text: 'read {\n  "path": "src/a.ts"\n}', flags: [] },
      suggestedRule: { tool: 'read', params: { path: 'src/*' } },
    });
  });

  it('writes out what would not show, and runs what was shown', async () => {
    server = await bootRelay({ kind, tools: createToolRegistry([read]) });
    const approval = await approvalOf('a\u202etxt.exe');
    expect(approval).toMatchObject({
      params: { path: 'a\u202etxt.exe' },
      display: { text: 'read {\n  "path": "a\\u{202e}txt.exe"\n}', flags: ['bidi'] },
    });
  });

  it('goes without a suggestion where the tool has none', async () => {
    server = await bootRelay({ kind, tools: createToolRegistry([read]) });
    expect(await approvalOf('secret/x')).not.toHaveProperty('suggestedRule');
  });
});
