/** The browser bundle: small, and without Node APIs. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as forward, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requires } from '../support/requires.ts';
import { TestServer } from '../support/server.ts';

const input = fileURLToPath(new URL('../../packages/sdk/src/index.ts', import.meta.url));
const chromium = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  (path) => existsSync(path),
);

let code = '';
let modules: readonly string[] = [];
beforeAll(async () => {
  const bundle = await rolldown({ input, platform: 'browser' });
  const { output } = await bundle.generate({ format: 'esm', minify: true });
  expect(output).toHaveLength(1);
  ({ code, moduleIds: modules } = output[0]);
});

describe('SDK bundle', () => {
  test('is smaller than 15 kB gzipped', () => {
    const { length } = gzipSync(code);
    console.info(`@relay/sdk: ${code.length} bytes, ${length} gzipped`);
    expect(length).toBeGreaterThan(1_000);
    expect(length).toBeLessThan(15_000);
  });

  test('contains the SDK and what it shares with the server, but not zod or Node modules', () => {
    const foreign = modules.filter((id) => !/packages\/(sdk|protocol)\/src\//.test(id));
    expect(foreign).toEqual([]);
    const ofProtocol = modules.filter((id) => id.includes('packages/protocol'));
    expect(ofProtocol.map((id) => id.split('/').at(-1))).toEqual([
      'defined.ts',
      'observation.ts',
      'schema.ts',
      'nearest.ts',
      'tool-schema.ts',
      'sse.ts',
    ]);
    expect(code).not.toMatch(/zod|node:|\brequire\(|\bprocess\b|\bBuffer\b|import\s*[{"'(]/);
  });
});

const page = `<!doctype html><script type="module">
  import { createClient, defineTool } from '/sdk.js';
  const apiKey = new URLSearchParams(location.search).get('key');
  const client = createClient({ baseUrl: location.origin, apiKey });
  const where = defineTool({
    name: 'where', schema: { type: 'object' },
    execute: () => ({ page: location.pathname, secure: isSecureContext }),
  });
  const report = (body) => fetch('/report', { method: 'POST', body: JSON.stringify(body) });
  try {
    const input = 'use where {}\\nuse send_note {"to": "me", "text": "from a page"}';
    const tools = [where, { name: 'send_note', kind: 'builtin' }];
    const run = await client.runs.create(
      { model: 'demo', input, tools },
      { onApproval: () => ({ approved: true }) },
    );
    const types = [];
    for await (const event of run) types.push(event.type);
    await report({ types, text: run.textSoFar, result: await run.result() });
  } catch (error) {
    await report({ error: String(error) });
  }
</script>`;

/** An installed Node that is older than the project's. */
const olderNode = ['/usr/bin/node', '/usr/local/bin/node'].find((path) => {
  if (!existsSync(path)) return false;
  const { stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' });
  const major = Number(/^v(\d+)/.exec(stdout)?.[1]);
  return major >= 20 && major < 24;
});

const noOlderNode = olderNode === undefined ? 'no older Node is installed' : undefined;

describe('SDK in an older Node', requires('older-Node', noOlderNode), () => {
  test('starts a run, runs a function tool and reads the answer', async () => {
    const server = await new TestServer().start();
    const folder = mkdtempSync(join(tmpdir(), 'relay-older-node-'));
    writeFileSync(join(folder, 'sdk.mjs'), code);
    writeFileSync(
      join(folder, 'program.mjs'),
      `import { createClient, defineTool } from './sdk.mjs';
       const [baseUrl, apiKey] = process.argv.slice(2);
       const { runs } = createClient({ baseUrl, apiKey });
       const where = defineTool({ name: 'where', schema: { type: 'object' }, execute: () => 'here' });
       const run = await runs.create({ model: 'demo', input: 'use where {}', tools: [where] });
       for await (const { type } of run) if (type === 'token') break;
       console.log(await run.text());`,
    );
    const args = ['program.mjs', server.url, server.apiKey];
    const options = { cwd: folder, encoding: 'utf8', timeout: 15_000 } as const;
    const { stdout, stderr } = spawnSync(olderNode ?? '', args, options);
    expect(stderr).toBe('');
    expect(stdout).toContain('"result":"here"');
    rmSync(folder, { recursive: true });
    await server.dispose();
  });
});

const noBrowser = chromium === undefined ? 'chromium is not installed' : undefined;

describe('SDK in a browser', requires('browser', noBrowser), () => {
  const server = new TestServer();
  const profile = mkdtempSync(join(tmpdir(), 'relay-browser-'));
  let proxy: Server;
  let browser: ChildProcess | undefined;
  let report: (body: Record<string, unknown>) => void = () => {};
  const reported = new Promise<Record<string, unknown>>((resolve) => (report = resolve));

  beforeAll(async () => {
    await server.start();
    // The page and the server share an origin, as behind a proxy.
    proxy = createServer((request, response) => {
      const { pathname } = new URL(request.url ?? '/', 'http://proxy');
      if (pathname === '/') response.setHeader('content-type', 'text/html').end(page);
      else if (pathname === '/sdk.js')
        response.setHeader('content-type', 'text/javascript').end(code);
      else if (pathname === '/report') {
        let text = '';
        request.on('data', (chunk: Buffer) => (text += chunk.toString()));
        request.on('end', () => {
          response.end();
          report(JSON.parse(text) as Record<string, unknown>);
        });
      } else {
        const { method, headers } = request;
        const onward = forward(
          new URL(request.url ?? '/', server.url),
          { method, headers },
          (from) => {
            response.writeHead(from.statusCode ?? 500, from.headers);
            from.pipe(response);
          },
        );
        request.pipe(onward);
      }
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    const pid = browser?.pid;
    if (pid !== undefined && browser?.exitCode === null) {
      const gone = new Promise((resolve) => browser?.once('exit', resolve));
      // Kills its process group, which includes its child processes.
      process.kill(-pid, 'SIGKILL');
      await gone;
    }
    proxy.closeAllConnections();
    proxy.close();
    await server.dispose();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  });

  test('starts a run, runs a function tool, decides an approval and reads the answer', async () => {
    const { port } = proxy.address() as AddressInfo;
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', `--user-data-dir=${profile}`];
    browser = spawn(chromium ?? '', [...flags, `http://127.0.0.1:${port}/?key=${server.apiKey}`], {
      stdio: 'ignore',
      detached: true,
    });
    const { error, types, text, result } = await reported;
    expect(error).toBeUndefined();
    expect(types).toContain('approval_resolved');
    expect(text).toContain('"page":"/"');
    expect(result).toMatchObject({ status: 'completed' });
    expect(server.notes.map(({ text: note }) => note)).toEqual(['from a page']);
  }, 60_000);
});
