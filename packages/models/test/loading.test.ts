import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

/** Says which packages of the AI SDK were asked for, before a first call and after it. */
const script = `
  import { registerHooks } from 'node:module';
  const asked = new Set();
  registerHooks({
    resolve(specifier, context, next) {
      if (specifier.startsWith('@ai-sdk/')) asked.add(specifier);
      return next(specifier, context);
    },
  });
  const models = await import(process.argv[1]);
  const options = { apiKey: 'sk-x', baseUrl: 'http://127.0.0.1:9/v1' };
  const made = [models.createResponsesModel, models.createGoogleModel, models.createAnthropicModel];
  const [, , anthropic] = made.map((create) => create(options));
  const before = [...asked];
  const request = { model: 'claude-x', messages: [{ role: 'user', content: 'Hi' }], tools: [] };
  const stream = anthropic.stream(request, new AbortController().signal);
  await stream[Symbol.asyncIterator]().next().catch(() => undefined);
  const after = [...asked].filter((name) => /openai|anthropic|google/.test(name));
  console.log(JSON.stringify({ before, after }));
`;

it('the package of a provider is loaded with its first call, and no other', async () => {
  const index = new URL('../src/index.ts', import.meta.url).href;
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, index]);
  expect(JSON.parse(stdout)).toEqual({ before: [], after: ['@ai-sdk/anthropic'] });
});
