/** One tool definition in the library, in the server and in a client, whichever package defined it. */
import * as library from '@relay/agents';
import * as sdk from '@relay/sdk';
import { embed } from '@relay/server';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';

const definition = {
  name: 'refund',
  description: 'Refunds an order',
  schema: z.object({ order: z.string(), cents: z.number().default(100) }),
  needsApproval: true,
  execute: ({ order, cents }: { order: string; cents: number }) => ({
    context: `Refunded ${cents} cents of ${order}`,
    result: { order, cents },
  }),
};
const tools = [
  { from: '@relay/agents', tool: library.defineTool(definition) },
  { from: '@relay/sdk', tool: sdk.defineTool(definition) },
];
const input = 'use refund {"order": "o_1"}';
const answer = 'refund answered: Refunded 100 cents of o_1';

const folders: string[] = [];
afterEach(() => folders.splice(0).forEach((folder) => rmSync(folder, { recursive: true })));

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'relay-one-tool-'));
  folders.push(folder);
  return folder;
}

describe.each(tools)('a tool that $from defined', ({ tool }) => {
  test('runs in the library after an approval', async () => {
    const agent = library.createAgentHarness({
      harness: library.createDefaultHarness({}),
      model: 'demo',
    });
    const messages = [{ role: 'user', content: input }];
    let approvals = 0;
    let text = '';
    for await (const event of agent.invoke({
      messages,
      tools: [tool],
      permissions: { allowlist: [{ tool: 'refund' }] },
    })) {
      if (event.type === 'text') text += event.content;
      if (event.type !== 'relay') continue;
      approvals += 1;
      event.respond({ approved: true });
    }
    expect({ approvals, text }).toEqual({ approvals: 1, text: answer });
  });

  test.each(['server', 'client'])('runs in the %s after an approval', async (place) => {
    const relay = await embed({
      env: { RELAY_DATA_DIR: newFolder() },
      ...(place === 'server' ? { config: { tools: [tool] } } : {}),
    });
    try {
      const approved: unknown[] = [];
      const run = await sdk.createClient(relay).runs.create(
        {
          model: 'demo',
          input,
          tools: [place === 'server' ? { name: 'refund', kind: 'builtin' } : tool],
          permissions: { allowlist: [{ tool: 'refund' }] },
        },
        {
          onApproval({ params }) {
            approved.push(params);
            return { approved: true };
          },
        },
      );
      const results = [];
      for await (const event of run) if (event.type === 'tool_result') results.push(event.output);
      expect(approved).toHaveLength(1);
      expect(results).toEqual([{ order: 'o_1', cents: 100 }]);
      expect(run.textSoFar).toBe(answer);
    } finally {
      await relay.stop();
    }
  });
});

test.each([{ context: { page: 2 } }, { attachments: ['invoice.pdf'] }])(
  'a result of a tool that only resembles an output is the same everywhere: %j',
  async (own) => {
    const tool = sdk.defineTool({ name: 'find', schema: { type: 'object' }, execute: () => own });
    const permissions = { allowlist: [{ tool: 'find' }] };
    const harness = library.createDefaultHarness({});
    const agent = library.createAgentHarness({ harness, model: 'demo' });
    const messages = [{ role: 'user', content: 'use find {}' }];
    const outputs: unknown[] = [];
    for await (const event of agent.invoke({ messages, tools: [tool], permissions })) {
      if (event.type === 'tool_result') outputs.push(event.output);
    }
    expect(outputs).toEqual([{ result: own }]);
    for (const place of ['server', 'client']) {
      const relay = await embed({
        env: { RELAY_DATA_DIR: newFolder() },
        ...(place === 'server' ? { config: { tools: [tool] } } : {}),
      });
      const results: unknown[] = [];
      const run = await sdk.createClient(relay).runs.create({
        model: 'demo',
        input: 'use find {}',
        tools: [place === 'server' ? { name: 'find', kind: 'builtin' } : tool],
        permissions,
      });
      for await (const event of run) if (event.type === 'tool_result') results.push(event.output);
      await relay.stop();
      expect(results).toEqual([own]);
    }
  },
);

test('a function tool in a client has the kinds that it declares', async () => {
  const relay = await embed({ env: { RELAY_DATA_DIR: newFolder() } });
  try {
    const shell = sdk.defineTool({
      name: 'shell',
      schema: { type: 'object', properties: { command: { type: 'string' } } },
      kinds: { command: 'command' },
      execute: () => 'ran',
    });
    const run = await sdk.createClient(relay).runs.create({
      model: 'demo',
      input: `use shell ${JSON.stringify({ command: 'echo a; "r"m -rf x' })}`,
      tools: [shell],
      permissions: { denylist: [{ tool: 'shell', params: { command: 'rm *' } }] },
    });
    const results: unknown[] = [];
    for await (const event of run) if (event.type === 'tool_result') results.push(event.output);
    expect(results).toMatchObject([{ status: 'denied' }]);
  } finally {
    await relay.stop();
  }
});

test('a tool of the SDK with a JSON Schema is validated in the library', async () => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer' } },
    required: ['n'],
  } as const;
  const square = sdk.defineTool({ name: 'square', schema, execute: ({ n }) => n * n });
  const harness = library.createDefaultHarness({});
  const agent = library.createAgentHarness({ harness, model: 'demo' });
  const messages = [{ role: 'user', content: 'use square {"n": "3"}\nuse square {"n": 3}' }];
  const permissions = { allowlist: [{ tool: 'square' }] };
  const outputs: unknown[] = [];
  for await (const event of agent.invoke({ messages, tools: [square], permissions })) {
    if (event.type === 'tool_result') outputs.push(event.output);
  }
  expect(outputs).toMatchObject([{ status: 'error', code: 'tool_input_invalid' }, { result: 9 }]);
});
