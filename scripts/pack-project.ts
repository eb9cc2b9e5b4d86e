/**
 * Packs Relay for use without a registry: `npm run pack -- FOLDER` makes one tarball of `relay-kit` that contains
 * all its dependencies. Works on copies: the manifests of the repository stay as they are.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const unscoped: Readonly<Record<string, string>> = { cli: 'relay-kit', create: 'create-relay' };
/** Not compiled: the bundle of the console, and a package of plain modules. */
const uncompiled = ['console', 'create'];

export const packageFolders = readdirSync(join(root, 'packages'));

export function publishedAs(folder: string): string {
  return unscoped[folder] ?? `@relay/${folder}`;
}

interface Manifest {
  readonly version: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

function manifestIn(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest;
}

const run = (command: string, args: readonly string[], cwd = root) =>
  execFileSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });

const npm = (args: readonly string[], cwd = root) => run('npm', [...args, '--loglevel=error'], cwd);

/** One tarball per package, as it is published, in a folder of its own: some have the same file name. */
export function packAll(target: string): (folder: string) => string {
  run(join(root, 'node_modules/.bin/tsc'), ['-b']);
  run(process.execPath, ['packages/console/build.mjs']);
  const copy = mkdtempSync(join(tmpdir(), 'relay-pack-'));
  try {
    for (const name of ['packages', 'scripts']) {
      cpSync(join(root, name), join(copy, name), { recursive: true });
    }
    for (const folder of packageFolders) {
      const cwd = join(copy, 'packages', folder);
      if (!uncompiled.includes(folder)) {
        run(process.execPath, ['../../scripts/pack.mjs', 'rewrite'], cwd);
      }
      const destination = join(target, folder);
      mkdirSync(destination, { recursive: true });
      npm(['pack', '--ignore-scripts', '--pack-destination', destination], cwd);
    }
  } finally {
    rmSync(copy, { recursive: true });
  }
  const { version } = manifestIn(root);
  return (folder) => {
    const name = publishedAs(folder).replace(/^@/, '').replace('/', '-');
    return join(target, folder, `${name}-${version}.tgz`);
  };
}

export function unpack(tarball: string, target: string): void {
  mkdirSync(target, { recursive: true });
  run('tar', ['xzf', tarball, '-C', target, '--strip-components=1']);
}

/** Puts `relay-kit` with all its dependencies into one tarball, and returns its path. */
export function bundle(tarballOf: (folder: string) => string, target: string): string {
  const stage = mkdtempSync(join(tmpdir(), 'relay-bundle-'));
  try {
    unpack(tarballOf('cli'), stage);
    for (const path of dependencyPaths()) {
      const own = packageFolders.find((folder) => path === `node_modules/${publishedAs(folder)}`);
      if (own === undefined) copyPackage(join(root, path), join(stage, placeOf(path)));
      else if (own !== 'cli') unpack(tarballOf(own), join(stage, path));
    }
    const manifest = manifestIn(stage);
    const bundled = { ...manifest, bundleDependencies: Object.keys(manifest.dependencies ?? {}) };
    writeFileSync(join(stage, 'package.json'), `${JSON.stringify(bundled, null, 2)}\n`);
    mkdirSync(target, { recursive: true });
    npm(['pack', '--ignore-scripts', '--pack-destination', target], stage);
    return join(target, `relay-kit-${manifest.version}.tgz`);
  } finally {
    rmSync(stage, { recursive: true });
  }
}

/** A package of the repository has some dependencies for itself. */
function placeOf(path: string): string {
  const [, folder = '', nested] = /^packages\/([^/]+)\/(.+)$/.exec(path) ?? [];
  return nested === undefined ? path : `node_modules/${publishedAs(folder)}/${nested}`;
}

/** Of everything that `relay-kit` needs at run time, relative to the repository. */
function dependencyPaths(): string[] {
  const args = ['ls', '--all', '--omit=dev', '--parseable', '-w', 'relay-kit'];
  const stdio: ('ignore' | 'pipe')[] = ['ignore', 'pipe', 'ignore'];
  const output = execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio });
  return output
    .trim()
    .split('\n')
    .map((path) => relative(root, path))
    .filter((path) => path.includes('node_modules/'));
}

/** Without the packages inside it, which have a path of their own. */
function copyPackage(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  const inner = join(from, 'node_modules');
  cpSync(from, to, { recursive: true, filter: (path) => path !== inner });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const target = resolve(process.env['INIT_CWD'] ?? process.cwd(), process.argv[2] ?? 'tarballs');
  const parts = mkdtempSync(join(tmpdir(), 'relay-parts-'));
  try {
    console.error('Building and packing the packages (about a minute) …');
    const tarballOf = packAll(parts);
    console.error('Bundling their dependencies …');
    const path = bundle(tarballOf, target);
    console.log(path);
    console.log(`Install it with \`npm install ${path}\`, or make a project with`);
    console.log(`\`npx relay init ../my-bot --packages ${target}\`.`);
  } finally {
    rmSync(parts, { recursive: true });
  }
}
