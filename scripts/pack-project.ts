/**
 * Packs Relay for use without a registry: `npm run pack -- FOLDER` makes one tarball for each package that a new
 * project installs, with all its dependencies. Works on copies: the manifests of the repository stay as they are.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { realpathSync, rmSync, writeFileSync } from 'node:fs';
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
  readonly scripts?: object;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
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

/**
 * Puts everything that a new project installs into tarballs, each with all its dependencies, and returns the path
 * of that of `relay-kit`.
 */
export function bundle(tarballOf: (folder: string) => string, target: string): string {
  mkdirSync(target, { recursive: true });
  const { dependencies, devDependencies } = manifestIn(join(root, 'packages/create/template'));
  for (const name of Object.keys({ ...dependencies, ...devDependencies })) {
    const stage = mkdtempSync(join(tmpdir(), 'relay-bundle-'));
    try {
      stagePackage(name, stage, tarballOf);
      npm(['pack', '--ignore-scripts', '--pack-destination', target], stage);
    } finally {
      rmSync(stage, { recursive: true });
    }
  }
  return join(target, `relay-kit-${manifestIn(root).version}.tgz`);
}

function stagePackage(name: string, stage: string, tarballOf: (folder: string) => string): void {
  const path = `node_modules/${name}`;
  const place = (from: string, to: string) => {
    const own = packageFolders.find((folder) => from === `node_modules/${publishedAs(folder)}`);
    if (own === undefined) copyPackage(join(root, from), to);
    else unpack(tarballOf(own), to);
  };
  place(path, stage);
  // The script of `node` downloads the program that is already inside it.
  const isComplete = name === 'node';
  const contents = isComplete ? [] : dependencyPaths(path);
  for (const each of contents) place(each, join(stage, placeOf(each)));
  const { scripts: _, optionalDependencies, ...manifest } = manifestIn(stage);
  const dependencies = Object.entries({ ...manifest.dependencies, ...optionalDependencies }).filter(
    ([dependency]) => contents.includes(`node_modules/${dependency}`),
  );
  const bundled = {
    ...manifest,
    dependencies: Object.fromEntries(dependencies),
    bundleDependencies: dependencies.map(([dependency]) => dependency),
  };
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(bundled, null, 2)}\n`);
}

/** A package of the repository has some dependencies for itself. */
function placeOf(path: string): string {
  const [, folder = '', nested] = /^packages\/([^/]+)\/(.+)$/.exec(path) ?? [];
  return nested === undefined ? path : `node_modules/${publishedAs(folder)}/${nested}`;
}

/** Of everything that an installed package needs at run time, relative to the repository. */
function dependencyPaths(path: string, found = new Set<string>()): string[] {
  const folder = realpathSync(join(root, path));
  const { dependencies, optionalDependencies } = manifestIn(folder);
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    const installed = installedPath(folder, name);
    // Optional ones are for other platforms.
    if (installed === undefined || found.has(installed)) continue;
    found.add(installed);
    dependencyPaths(installed, found);
  }
  return [...found];
}

/** Where Node finds a dependency of the package in this folder. */
function installedPath(folder: string, name: string): string | undefined {
  const path = join(folder, 'node_modules', name);
  if (existsSync(path)) return relative(root, path);
  return folder === resolve(root) ? undefined : installedPath(dirname(folder), name);
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
    console.error('Bundling them with their dependencies, Node and TypeScript …');
    const path = bundle(tarballOf, target);
    console.log(path);
    console.log(`Install it with \`npm install ${path}\`, or make a project with`);
    console.log(`\`npx relay init ../my-bot --packages ${target}\`.`);
  } finally {
    rmSync(parts, { recursive: true });
  }
}
