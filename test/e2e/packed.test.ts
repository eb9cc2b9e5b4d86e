/** The packages as they are published: packed, unpacked under node_modules, and used from there. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient } from '@relay/sdk';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  bundle,
  packageFolders,
  packAll,
  publishedAs,
  unpack,
} from '../../scripts/pack-project.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const dir = mkdtempSync(join(tmpdir(), 'relay-packed-'));
const modules = join(dir, 'node_modules');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string;
};
/** The console is a bundle of files for the server, and `create-relay` is not compiled. */
const libraries = packageFolders.filter((name) => name !== 'console' && name !== 'create');
let tarballOf: (folder: string) => string;

beforeAll(() => {
  tarballOf = packAll(join(dir, 'tarballs'));
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (/^\.|^@relay$|^relay-kit$|^create-relay$/.test(name)) continue;
    mkdirSync(modules, { recursive: true });
    symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  for (const name of packageFolders) unpack(tarballOf(name), join(modules, publishedAs(name)));
}, 240_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test('a program can install the packages and run a server from them', () => {
  writeFileSync(
    join(dir, 'program.mjs'),
    `import { serve } from '@relay/server';
     const serving = await serve({
       env: { RELAY_PORT: '0', RELAY_DATA_DIR: '${join(dir, 'data')}' },
       cwd: '.', terminal: false, print: () => {},
     });
     const response = await fetch(serving.url + '/chat', {
       method: 'POST',
       headers: { 'content-type': 'application/json' },
       body: JSON.stringify({
         model: 'demo', messages: [{ role: 'user', content: 'calculate 23*47' }],
       }),
     });
     console.log(await response.text());
     await serving.stop();`,
  );
  const output = execFileSync(process.execPath, ['program.mjs'], { cwd: dir, encoding: 'utf8' });
  expect(output).toContain('"result":1081');
  expect(output).toContain('"reason":"completed"');
}, 60_000);

test('the command runs from its tarball: a server, and a chat with it', async () => {
  const bin = join(modules, 'relay-kit/bin/relay.mjs');
  const env = {
    ...process.env,
    XDG_CACHE_HOME: join(dir, 'cache'),
    RELAY_DATA_DIR: join(dir, 'cli-data'),
    RELAY_API_KEY: '',
  };
  const server = spawn(process.execPath, [bin, 'serve', '--port', '0'], { cwd: dir, env });
  try {
    let said = '';
    const url = await new Promise<string>((resolve, reject) => {
      server.stdout.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        const found = /listening on (http:\S+)/.exec(said)?.[1];
        if (found !== undefined) resolve(found);
      });
      server.once('exit', () => reject(new Error(said)));
    });
    const run = (...args: string[]) =>
      execFileSync(process.execPath, [bin, '--url', url, ...args], {
        cwd: dir,
        env,
        encoding: 'utf8',
      });
    expect(run('--version')).toBe(`${version}\n`);
    expect(run('bootstrap')).toMatch(/^relay_live_/);
    expect(run('chat', 'calculate 23*47')).toContain('1081');
    expect(run('runs', 'list', '--json')).toContain('"status":"completed"');
  } finally {
    server.kill();
  }
}, 60_000);

/** A process of the project, and what it has printed. */
function inProject(project: string, command: string, args: readonly string[]) {
  const env = { ...process.env, RELAY_API_KEY: '', XDG_STATE_HOME: dir, XDG_CACHE_HOME: dir };
  const child = spawn(command, args, { cwd: project, env });
  const output = { text: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output.text += chunk.toString()));
  }
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { child, output, ended };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

test('a project from tarballs, without a registry: its Node, its types, its test, a run, a change, an approval', async () => {
  const tarballs = join(dir, 'bundle');
  bundle(tarballOf, tarballs);
  const create = join(modules, 'create-relay/bin/create-relay.mjs');
  execFileSync(process.execPath, [create, 'my-bot', '--packages', tarballs], {
    cwd: dir,
    env: { ...process.env, npm_config_cache: join(dir, 'empty-cache') },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const project = join(dir, 'my-bot');
  const tested = inProject(project, 'npm', ['test']);
  expect(await tested.ended, tested.output.text).toBe(0);

  const version = inProject(project, 'node_modules/.bin/node', ['--version']);
  expect(await version.ended, version.output.text).toBe(0);
  expect(version.output.text).toMatch(/^v24\./);

  // Only here are declarations resolved without the packages of the repository: one of them could be missing.
  writeFileSync(join(project, 'test/library.ts'), "export * from 'relay-kit/library';\n");
  const typed = inProject(project, 'npm', ['run', 'types']);
  expect(await typed.ended, typed.output.text).toBe(0);

  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const dev = inProject(project, 'npm', ['run', 'dev', '--', '--port', String(port)]);
  const starts = () => dev.output.text.match(/listening on/g)?.length ?? 0;
  try {
    await expect.poll(starts, { timeout: 30_000 }).toBe(1);
    const apiKey = readFileSync(join(project, '.relay/first-key'), 'utf8').trim();
    const client = createClient({ baseUrl: url, apiKey });
    const input = 'use refund_order {"order": "A-17", "amount": 49.9, "reason": "Broken"}';
    const run = await client.runs.create({ agent: 'support', model: 'demo', input });
    const approvals = () => client.approvals.list({ status: 'pending' }).page();
    await expect.poll(async () => (await approvals()).items.length).toBe(1);

    const config = join(project, 'relay.config.ts');
    const changed = readFileSync(config, 'utf8').replace('Answers customers', 'Serves customers');
    writeFileSync(config, changed);
    await expect.poll(starts, { timeout: 30_000 }).toBe(2);
    const agents = (await client.agents.list().page()).items;
    expect(agents.map(({ description }) => description)).toContainEqual(
      expect.stringMatching(/^Serves/),
    );

    const [approval] = (await approvals()).items;
    await client.approvals.approve(approval?.id ?? '');
    expect((await client.runs.stream(run.id).result()).status).toBe('completed');
    expect(readFileSync(join(project, 'refunds.log'), 'utf8')).toBe('A-17 $49.9 Broken\n');
    const chat = inProject(project, 'npm', ['run', 'chat', '--', '--url', url, 'calculate 23*47']);
    expect(await chat.ended, chat.output.text).toBe(0);
  } finally {
    dev.child.kill('SIGTERM');
    await dev.ended;
  }
  // npm ends before the server if its shell does not pass on the signal.
  const isStopped = () =>
    fetch(`${url}/health`).then(
      () => false,
      () => true,
    );
  await expect.poll(isStopped, { timeout: 20_000 }).toBe(true);
}, 300_000);

test('the SDK is all that a client needs: it loads without zod or anything else', () => {
  const client = join(dir, 'client');
  for (const name of ['sdk', 'protocol']) {
    cpSync(join(modules, '@relay', name), join(client, 'node_modules/@relay', name), {
      recursive: true,
    });
  }
  writeFileSync(
    join(client, 'program.mjs'),
    `import { createClient } from '@relay/sdk';
     const frame = { type: 'done', status: 'completed', output: 'Hello', usage: {} };
     const client = createClient({
       baseUrl: 'http://relay.test',
       fetch: async (url, { method }) =>
         new Response('id: 1\\ndata: ' + JSON.stringify(frame) + '\\n\\n', {
           headers: { 'content-type': 'text/event-stream', 'x-run-id': 'run-1' },
         }),
     });
     const run = await client.runs.create({ input: 'Hi' });
     console.log(await run.text());`,
  );
  const options = { cwd: client, encoding: 'utf8' } as const;
  expect(execFileSync(process.execPath, ['program.mjs'], options)).toBe('Hello\n');
});

test('a tarball holds the build and neither source nor tests', () => {
  for (const name of libraries) {
    const files = readdirSync(join(modules, publishedAs(name)), {
      recursive: true,
      encoding: 'utf8',
    });
    expect(files, name).toContain('dist/index.js');
    expect(files, name).toContain('dist/index.d.ts');
    expect(files.filter((name) => name.startsWith('src') || name.includes('.test.'))).toEqual([]);
  }
});

test('the tarball of the console holds the bundle alone', () => {
  const files = readdirSync(join(modules, '@relay/console'), { encoding: 'utf8' });
  expect(files.toSorted()).toEqual(['dist', 'package.json']);
  expect(readdirSync(join(modules, '@relay/console/dist'))).toContain('index.html');
});

test.each(packageFolders)('publint has nothing to say about the tarball of %s', async (name) => {
  const { buffer } = new Uint8Array(readFileSync(tarballOf(name)));
  const { messages, pkg } = await publint({ pack: { tarball: buffer }, strict: true });
  expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
});

test.each([
  ['bundler', 'ESNext'],
  ['nodenext', 'NodeNext'],
])(
  'a strict TypeScript program finds the types of every entry: %s',
  (resolution, module) => {
    const program = join(dir, `consumer-${resolution}`);
    mkdirSync(program);
    const entries = libraries.flatMap((name) => {
      const manifest = readFileSync(join(modules, publishedAs(name), 'package.json'), 'utf8');
      const { exports } = JSON.parse(manifest) as { exports: Record<string, unknown> };
      return Object.keys(exports).map((path) => `${publishedAs(name)}${path.slice(1)}`);
    });
    writeFileSync(
      join(program, 'entries.ts'),
      entries.map((entry, nth) => `export * as e${nth} from '${entry}';\n`).join(''),
    );
    writeFileSync(
      join(program, 'program.ts'),
      `import { createClient, RelayApiError, defineTool, type Policy, type Run } from '@relay/sdk';
     const client = createClient({ baseUrl: 'http://relay.test' });
     export async function use(id: string): Promise<Run['status']> {
       const policy: Policy = await client.policy.get();
       const get = defineTool({ name: 'get', schema: { type: 'object' }, execute: () => policy.version });
       for await (const event of client.runs.stream(id, { tools: [get] })) {
         if (event.type === 'token') event.text.toUpperCase();
         // @ts-expect-error: a token has no name, so the types are there and are no any.
         if (event.type === 'token') event.name;
       }
       return (await client.runs.get(id)).status;
     }
     export const isGone = (error: unknown) =>
       error instanceof RelayApiError && error.code === 'not_found';
     // @ts-expect-error: there is no such code.
     export const isOdd = (error: RelayApiError) => error.code === 'no_such_code';
    `,
    );
    const compilerOptions = {
      target: 'es2023',
      module,
      moduleResolution: resolution,
      strict: true,
      noEmit: true,
      // The declarations themselves are checked too, not only how they are used.
      skipLibCheck: false,
      lib: ['es2024', 'esnext', 'dom', 'dom.iterable', 'dom.asynciterable'],
      types: ['node'],
    };
    writeFileSync(join(program, 'package.json'), '{"type": "module"}');
    writeFileSync(join(program, 'tsconfig.json'), JSON.stringify({ compilerOptions }));
    const tsc = join(root, 'node_modules/.bin/tsc');
    const { stdout } = spawnSync(tsc, ['-p', program], { cwd: program, encoding: 'utf8' });
    expect(stdout).toBe('');
  },
  120_000,
);
