/** Relay as it is served, with the scripted provider as its one model. */
import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createChatCompletionsModel, createModelRegistry } from '@relay/models';
import { compose, issueBootstrapKey, readConfig } from '@relay/server';
import { openSqliteStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { tellPort } from './process.ts';

const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
process.on('exit', () => rmSync(dir, { recursive: true, force: true }));

const store = await openSqliteStore({ dir });
const model = createChatCompletionsModel({
  baseUrl: `http://127.0.0.1:${process.env['BENCH_PROVIDER_PORT']}/v1`,
});
const relay = await compose({
  config: readConfig({ RELAY_DATA_DIR: dir }, dir),
  store,
  log: { warn: console.warn, error: console.error },
  models: createModelRegistry([{ id: 'bench', provider: 'bench', model }]),
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
process.send?.({ apiKey });
tellPort((relay.app.server.address() as AddressInfo).port);
