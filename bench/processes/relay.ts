/** Relay as it is served, with the scripted provider as its only models. */
import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createChatCompletionsModel, createModelRegistry } from '@relay/models';
import { compose, issueBootstrapKey, readConfig } from '@relay/server';
import { openSqliteStore } from '@relay/store';
import { createToolRegistry, defineTool } from '@relay/tools';
import { uuidv7 } from 'uuidv7';
import { z } from 'zod';
import { reportPort } from './process.ts';
import { scripts } from './scripts.ts';

const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
process.on('exit', () => rmSync(dir, { recursive: true, force: true }));

const lookup = defineTool({
  name: 'lookup',
  description: 'Looks up a value',
  schema: z.strictObject({ key: z.string() }),
  allowedByDefault: true,
  execute: ({ key }) => ({ result: { found: key } }),
});

const store = await openSqliteStore({ dir });
const model = createChatCompletionsModel({
  baseUrl: `http://127.0.0.1:${process.env['BENCH_PROVIDER_PORT']}/v1`,
});
const relay = await compose({
  config: readConfig({ RELAY_DATA_DIR: dir }, dir),
  store,
  log: { warn: console.warn, error: console.error },
  models: createModelRegistry(Object.keys(scripts).map((id) => ({ id, provider: 'bench', model }))),
  tools: createToolRegistry([lookup]),
});
const { apiKey } = await issueBootstrapKey(
  store,
  { next: uuidv7 },
  {
    tenant: 'bench',
    by: 'bootstrap',
    audit: undefined,
  },
);
await relay.start();
await relay.app.listen({ host: '127.0.0.1', port: 0 });
reportPort((relay.app.server.address() as AddressInfo).port, apiKey);
