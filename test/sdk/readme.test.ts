/** The examples of the SDK's README print the output that it shows. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient } from '@relay/sdk';
import { ReadmeExamples, runExample } from '../support/readme-examples.ts';
import { LocalServer } from '../support/server.ts';

const folder = fileURLToPath(new URL('../../packages/sdk', import.meta.url));
const examples = new ReadmeExamples('packages/sdk/README.md');
const readme = examples.text;

const server = new LocalServer();
beforeAll(() => server.start());
afterAll(() => server.dispose());

describe('SDK README', () => {
  test('starts with running an agent, and shows the output of each example', () => {
    expect(examples.faults).toEqual([]);
    expect(examples.all.map(({ title }) => title)[0]).toBe('Start a run and get its answer');
    expect(examples.all).toHaveLength(8);
  });

  test.each(examples.all)('prints the shown output: $title', async ({ code, output }) => {
    const here = code.replaceAll('http://127.0.0.1:4000', server.url);
    const ran = await runExample(here, { ...process.env, RELAY_API_KEY: server.apiKey });
    expect(ran).toEqual({ exit: 0, output: output.trimEnd(), errors: '' });
  });

  test('lists every method of the client', () => {
    const client = createClient({ baseUrl: server.url });
    for (const [name, part] of Object.entries(client)) {
      expect(readme).toContain(`\`${name}`);
      if (typeof part === 'function') continue;
      const calls = [
        ...Object.keys(part),
        ...Object.getOwnPropertyNames(Object.getPrototypeOf(part)),
      ].filter((call) => call !== 'constructor' && !(call in Object.prototype));
      for (const call of calls) expect(readme, `${name}.${call}`).toContain(`\`${call}\``);
    }
  });

  test('states the right bundle size, and has no broken links', async () => {
    const bundle = await rolldown({ input: join(folder, 'src/index.ts'), platform: 'browser' });
    const { output } = await bundle.generate({ format: 'esm', minify: true });
    const kilobytes = Math.round(gzipSync(output[0].code).length / 1000);
    expect(readme).toContain(`${kilobytes} kB gzipped`);
    const links = [...readme.matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => path ?? '');
    expect(links.length).toBeGreaterThan(2);
    expect(links.filter((path) => !existsSync(join(folder, path)))).toEqual([]);
  });
});
