/** Relay as it is served, with the scripted provider as its only models. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createChatCompletionsModel, createModelRegistry } from '@relay/models';
import { serve } from '@relay/server';
import { createToolRegistry, defineTool } from '@relay/tools';
import { z } from 'zod';
import { announcePort, reportToolStart } from './process.ts';
import { scripts } from './scripts.ts';

const tool = {
  description: 'Looks up a value',
  schema: z.strictObject({ key: z.string() }),
};
const lookup = defineTool({
  ...tool,
  name: 'lookup',
  allowedByDefault: true,
  execute: ({ key }) => ({ result: { found: key } }),
});
const guarded = defineTool({
  ...tool,
  name: 'guarded',
  execute: ({ key }, { idempotencyKey }) => {
    reportToolStart(idempotencyKey);
    return { result: { found: key } };
  },
});
const model = createChatCompletionsModel({
  baseUrl: `http://127.0.0.1:${process.env['BENCH_PROVIDER_PORT']}/v1`,
});

const own = mkdtempSync(join(tmpdir(), 'relay-bench-'));
process.on('exit', () => rmSync(own, { recursive: true, force: true }));
const env = { RELAY_DATA_DIR: own, RELAY_PORT: '0', RELAY_LOG_LEVEL: 'warn', ...process.env };
const server = await serve({
  env,
  cwd: own,
  terminal: false,
  print: () => undefined,
  models: createModelRegistry(Object.keys(scripts).map((id) => ({ id, provider: 'bench', model }))),
  tools: () => createToolRegistry([lookup, guarded]),
});
const apiKey = readFileSync(join(env.RELAY_DATA_DIR, 'first-key'), 'utf8').trim();
announcePort(Number(new URL(server.url).port), apiKey, () => server.stop());
