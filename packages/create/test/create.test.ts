import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

const bin = fileURLToPath(new URL('../bin/create-relay.mjs', import.meta.url));
const root = fileURLToPath(new URL('../../..', import.meta.url));
interface Manifest {
  readonly version: string;
  readonly scripts: Readonly<Record<string, string>>;
}

let dir: string;
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'create-relay-'))));
afterEach(() => rmSync(dir, { recursive: true }));

const create = (...args: string[]) =>
  spawnSync(process.execPath, [bin, ...args], { cwd: dir, encoding: 'utf8', input: '' });
const read = (path: string) => readFileSync(join(dir, path), 'utf8');

describe('create-relay', () => {
  test('makes a project whose test passes', () => {
    const { stdout, status } = create('my-bot', '--no-install');
    expect(status).toBe(0);
    expect(stdout).toContain('cd my-bot\n  npm install\n  npm run dev');
    const project = join(dir, 'my-bot');
    expect(read('my-bot/.gitignore')).toContain('.env\n');
    expect(read('my-bot/.env.example')).toContain('OPENAI_API_KEY');
    symlinkSync(join(root, 'node_modules'), join(project, 'node_modules'));
    const options = { cwd: project, encoding: 'utf8' } as const;
    const { scripts } = JSON.parse(read('my-bot/package.json')) as Manifest;
    const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` };
    expect(execFileSync('sh', ['-c', scripts['test'] ?? ''], { ...options, env })).toContain(
      'pass 2',
    );
    // A Node that cannot run TypeScript finds no tests by itself, and would be content with none.
    expect(scripts['test']).toContain('.test.ts');
  });

  test('makes a project whose options the compiler knows', () => {
    create('my-bot', '--no-install');
    // `npm run types` checks the types of the template, with stricter options.
    const tsc = join(root, 'node_modules/.bin/tsc');
    const options = { cwd: join(dir, 'my-bot'), encoding: 'utf8' } as const;
    const { stdout, status } = spawnSync(tsc, ['--showConfig'], options);
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      compilerOptions: { strict: true, noEmit: true },
      files: ['./relay.config.ts', './test/support.test.ts'],
    });
  });

  test('asks nothing without a terminal, and has a default folder', () => {
    expect(create('--no-install').status).toBe(0);
    expect(JSON.parse(read('my-bot/package.json'))).toMatchObject({ name: 'my-bot' });
  });

  test('names the package after its folder, and quotes the folder for a shell', () => {
    expect(create("Ann's Bot", '--no-install').stdout).toContain("cd 'Ann'\\''s Bot'\n");
    expect(JSON.parse(read("Ann's Bot/package.json"))).toMatchObject({ name: 'ann-s-bot' });
  });

  test('is ready for pnpm if that has started it', () => {
    const env = { ...process.env, npm_config_user_agent: 'pnpm/10.34.9 npm/? node/v24.21.0' };
    const options = { cwd: dir, env, encoding: 'utf8' } as const;
    const output = execFileSync(process.execPath, [bin, 'my-bot', '--no-install'], options);
    expect(output).toContain('pnpm install\n  pnpm run dev');
    // Without it, pnpm does not install Node.
    expect(read('my-bot/README.md')).toMatch(/^pnpm install .*\npnpm run dev /m);
    expect(read('my-bot/pnpm-workspace.yaml')).toBe('allowBuilds:\n  node: true\n');
  });

  test('makes no project for yarn on a Node that is too old', () => {
    const old = "Object.defineProperty(process.versions, 'node', { value: '22.3.0' })";
    const args = ['--import', `data:text/javascript,${old}`, bin, 'my-bot'];
    const env = { ...process.env, npm_config_user_agent: 'yarn/4.18.1 npm/? node/v22.3.0' };
    const options = { cwd: dir, env, encoding: 'utf8' } as const;
    const { stderr, status } = spawnSync(process.execPath, args, options);
    expect(stderr).toBe(
      'create-relay: the project needs Node 24.16 or newer, this is 22.3.0; install a newer Node, ' +
        'or use npm or pnpm: the project then gets its own from the registry\n',
    );
    expect(status).toBe(1);
    expect(existsSync(join(dir, 'my-bot'))).toBe(false);
  });

  test('refuses a folder that is not empty', () => {
    mkdirSync(join(dir, 'taken'));
    writeFileSync(join(dir, 'taken/a'), '');
    const { stderr, status } = create('taken');
    expect(stderr).toMatch(/^create-relay: the folder .*taken is not empty; choose another one\n$/);
    expect(status).toBe(1);
  });

  test('refuses an unknown option, and a folder without one of the tarballs', () => {
    expect(create('--frobnicate').stderr).toContain('see create-relay --help');
    const { stderr } = create('a', '--packages', '.');
    const [, missing = ''] = / has no (\S+); `npm run pack` .* makes it\n$/.exec(stderr) ?? [];
    expect(missing).toMatch(/^node-24.*\.tgz$/);
    writeFileSync(join(dir, missing), '');
    expect(create('a', '--packages', '.').stderr).toContain('has no relay-kit-');
    expect(existsSync(join(dir, 'a'))).toBe(false);
  });
});
