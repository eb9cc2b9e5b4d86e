/** The programs of the guides about projects run as a reader would write them, and print what is shown. */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient } from '@relay/sdk';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { compile } from '../support/readme-examples.ts';
import { LocalServer } from '../support/server.ts';
import { documents, root } from './documents.ts';

/** A folder with the files of a guide, in which `relay-kit` is installed. */
class Project {
  readonly folder: string;
  /** What each program prints. */
  readonly printed: ReadonlyMap<string, string>;
  readonly commands: readonly string[];

  constructor(guide: string) {
    const document = documents.find(({ path }) => path === `docs/guides/${guide}.md`);
    if (document === undefined) throw new Error(`There is no guide ${guide}`);
    mkdirSync(join(root, '.cache'), { recursive: true });
    this.folder = mkdtempSync(join(root, '.cache', 'guide-'));
    mkdirSync(join(this.folder, 'node_modules'));
    symlinkSync(join(root, 'packages/cli'), join(this.folder, 'node_modules/relay-kit'));
    this.write('package.json', '{"type": "module"}');
    const printed = new Map<string, string>();
    for (const [index, { language, code }] of document.blocks.entries()) {
      const name = /^\/\/ (\S+\.ts)$/m.exec(code.split('\n')[0] ?? '')?.[1];
      if (language !== 'ts' || name === undefined) continue;
      this.write(name, code);
      const next = document.blocks[index + 1];
      if (next?.language === 'text') printed.set(name, next.code.trimEnd());
    }
    this.printed = printed;
    this.commands = document.commands;
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text);
  }

  async run(command: string, env: Readonly<Record<string, string>> = {}) {
    const script = `relay() { node "${root}/packages/cli/bin/relay.mjs" "$@"; }\n${command}`;
    const child = spawn('bash', ['-c', script], {
      cwd: this.folder,
      env: { ...process.env, NODE_NO_WARNINGS: '1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    }
    const exit = await new Promise((resolve) => child.once('close', resolve));
    return { exit, output: output.trimEnd() };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }
}

const ofServers = ['library-to-server', 'migrate'].map(
  (guide) => [guide, new Project(guide)] as const,
);
const agents = new Project('test-your-agents');
agents.write('wardrobe.ts', readFileSync(join(root, 'examples/mcp-tools/wardrobe.ts'), 'utf8'));
const projects = [...ofServers.map(([, project]) => project), agents];
afterAll(() => projects.forEach((project) => project.remove()));

test('the programs compile in a strict program', () => {
  const include = [
    ...projects.map(({ folder }) => `${folder}/*.ts`),
    `${root}/packages/*/src/**/*.d.ts`,
  ];
  const config = { extends: '../../tsconfig.test.json', include };
  // One run of the compiler: most of its time goes into the packages, which all of them import.
  agents.write('tsconfig.json', JSON.stringify(config));
  expect(compile(agents.folder)).toBe('');
}, 60_000);

describe.each(ofServers)('the guide %s', (_, project) => {
  const configured = new LocalServer({ RELAY_CONFIG: join(project.folder, 'relay.config.ts') });
  const plain = new LocalServer();
  beforeAll(async () => void (await Promise.all([configured.start(), plain.start()])));
  afterAll(async () => {
    await Promise.all([configured.dispose(), plain.dispose()]);
  });

  test.each([...project.printed])('%s prints what is shown', async (name, output) => {
    const server = name === 'client.ts' ? plain : configured;
    const env = { RELAY_API_KEY: server.apiKey, PORT_OF_TEST: new URL(server.url).port };
    const command = `sed -i "s/:4000/:$PORT_OF_TEST/" ${name} && node ${name}`;
    expect(await project.run(command, env)).toEqual({ exit: 0, output });
  });

  test.each(project.commands)('%s: another person approves the call', async (command) => {
    const { approvals } = createClient({ baseUrl: configured.url, apiKey: configured.apiKey });
    const env = { RELAY_API_KEY: configured.apiKey, RELAY_URL: configured.url };
    const running = project.run(command, env);
    await vi.waitFor(
      async () => {
        const { items } = await approvals.list({ status: 'pending' }).page();
        expect(items).toHaveLength(1);
        await approvals.approve(items[0]?.id ?? '');
      },
      { timeout: 15_000, interval: 50 },
    );
    expect((await running).output).toContain('Refunded');
  });
});

describe('Test your agents in CI', () => {
  test('has tests that pass', async () => {
    const { exit, output } = await agents.run('node --test --test-reporter=tap');
    expect(output).toContain('# pass 3');
    expect(exit).toBe(0);
  }, 60_000);
});
