/** Makes a project: `npm create relay my-bot`, and `relay init my-bot`. Runs on Node 20. */
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const template = fileURLToPath(new URL('../template', import.meta.url));
const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

const usage = `Usage: create-relay [folder] [options]

Makes a project with one agent, one tool that needs approval, and a test.

Options:
  -y, --yes            ask nothing: the folder is my-bot unless it is given
  --no-install         do not install the dependencies
  --packages <folder>  install from the tarballs in this folder, without a registry
  -h, --help           show this help
  -V, --version        print the version

Examples:
  npm create relay my-bot
  npm create relay my-bot -- --no-install`;

/** The oldest Node that runs `relay-kit`. */
const minNode = [24, 16];

export class CreateError extends Error {
  name = 'CreateError';
  exitCode = 1;
}

export async function runCreate(args) {
  try {
    const { values, positionals } = readArguments(args);
    if (values.help || values.version) {
      console.log(values.help ? usage : version);
      return 0;
    }
    const { yes, packages } = values;
    const options = { folder: positionals[0], yes, packages, install: !values['no-install'] };
    const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
    await createProject(options, {
      cwd: process.cwd(),
      env: process.env,
      terminal: isTerminal ? { input: process.stdin, output: process.stdout } : undefined,
      print: (line) => console.log(line),
    });
    return 0;
  } catch (error) {
    if (!(error instanceof CreateError)) throw error;
    console.error(`create-relay: ${error.message}`);
    return error.exitCode;
  }
}

function readArguments(args) {
  try {
    const read = parseArgs({
      args,
      allowPositionals: true,
      options: {
        yes: { type: 'boolean', short: 'y' },
        'no-install': { type: 'boolean' },
        packages: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean', short: 'V' },
      },
    });
    if (read.positionals.length <= 1) return read;
  } catch (error) {
    throw new CreateError(`${error.message}; see create-relay --help`);
  }
  throw new CreateError('there must be one folder; see create-relay --help');
}

const defaultFolder = 'my-bot';

async function askForFolder({ input, output }) {
  const terminal = createInterface({ input, output });
  try {
    return (await terminal.question(`Folder? (${defaultFolder}) `)).trim();
  } catch (error) {
    // Ctrl-C, or the end of the input.
    if (error.code !== 'ABORT_ERR') throw error;
    output.write('\n');
    throw Object.assign(new CreateError('nothing was made'), { exitCode: 130 });
  } finally {
    terminal.close();
  }
}

export async function createProject({ folder, yes, install = true, packages }, io) {
  const { cwd, env, terminal, print } = io;
  const asked = folder ?? (yes || !terminal ? '' : await askForFolder(terminal));
  const target = resolve(cwd, asked || defaultFolder);
  requireEmpty(target);
  const tarballs = packages === undefined ? undefined : tarballsIn(resolve(cwd, packages));
  const manager = packageManager(env);
  if (manager === 'yarn') {
    if (tarballs !== undefined) {
      throw new CreateError('yarn does not install what a tarball contains; use npm or pnpm');
    }
    // Scripts run with the Node of yarn, whatever the project installs.
    requireNode('use npm or pnpm');
  } else if (tarballs !== undefined && !tarballs.has('node')) {
    requireNode('leave out --packages');
  }
  mkdirSync(target, { recursive: true });
  cpSync(template, target, { recursive: true });
  // npm leaves out or renames files with these names when it packs the template.
  for (const name of ['gitignore', 'env.example']) {
    renameSync(join(target, `_${name}`), join(target, `.${name}`));
  }
  const { manifest, missing } = manifestFor(basename(target), tarballs, target);
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  writeReadme(join(target, 'README.md'), manager, manifest.scripts);
  const shown = relative(cwd, target) || '.';
  print(`Made a project in ${shown}.`);
  if (missing.length > 0) {
    print(`Left out, because there is no tarball of it: ${missing.join(', ')}.`);
  }
  // Node is installed by a script, which pnpm runs only if it is allowed here.
  if (manager === 'pnpm' && !missing.includes('node')) {
    writeFileSync(join(target, 'pnpm-workspace.yaml'), 'allowBuilds:\n  node: true\n');
  }
  // TypeScript finds packages only in node_modules.
  if (manager === 'yarn') {
    writeFileSync(join(target, '.yarnrc.yml'), 'nodeLinker: node-modules\n');
  }
  if (install) {
    print(`Installing its dependencies with ${manager} …`);
    await installWith(manager, { cwd: target, env, isOffline: tarballs !== undefined });
  }
  const steps = [
    ...(shown === '.' ? [] : [`cd ${quoted(shown)}`]),
    ...(install ? [] : [`${manager} install`]),
    `${manager} run dev      # the server and its console`,
    `${manager} run chat     # in a second terminal`,
    `${manager} test`,
  ];
  print(`\nNext:\n\n${steps.map((step) => `  ${step}`).join('\n')}\n`);
}

function quoted(path) {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}

function requireEmpty(target) {
  let names = [];
  try {
    names = readdirSync(target);
  } catch (error) {
    if (error.code === 'ENOENT') return;
    throw new CreateError(`${target} is not a folder`);
  }
  if (names.some((name) => name !== '.git')) {
    throw new CreateError(`the folder ${target} is not empty; choose another one`);
  }
}

/** A project without a Node of its own runs with this one. */
function requireNode(otherwise) {
  const { node } = process.versions;
  const [major, minor] = node.split('.').map(Number);
  if (major > minNode[0] || (major === minNode[0] && minor >= minNode[1])) return;
  throw new CreateError(
    `the project needs Node ${minNode.join('.')} or newer, this is ${node}; install a newer Node, ` +
      `or ${otherwise}: the project then gets its own from the registry`,
  );
}

/** Paths of tarballs, by the name of their package. */
function tarballsIn(folder) {
  if (!existsSync(folder)) throw new CreateError(`there is no folder ${folder}`);
  const found = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  const own = `relay-kit-${version}.tgz`;
  if (!found.includes(own)) {
    throw new CreateError(
      `${folder} has no ${own}; make it with \`npm run pack\` in the repository`,
    );
  }
  return new Map(found.map((name) => [name.replace(/-\d[^/]*\.tgz$/, ''), join(folder, name)]));
}

function manifestFor(name, tarballs, target) {
  const manifest = JSON.parse(readFileSync(join(template, 'package.json'), 'utf8'));
  const missing = [];
  // As npm names the tarball of a package with a scope.
  const fileOf = (dependency) => tarballs.get(dependency.replace(/^@/, '').replace('/', '-'));
  for (const kind of ['dependencies', 'devDependencies']) {
    for (const dependency of Object.keys(manifest[kind])) {
      if (dependency === 'relay-kit') manifest[kind][dependency] = `^${version}`;
      if (tarballs === undefined) continue;
      const file = fileOf(dependency);
      if (file === undefined) {
        missing.push(dependency);
        delete manifest[kind][dependency];
      } else {
        manifest[kind][dependency] = `file:${relative(target, file)}`;
      }
    }
  }
  if (missing.includes('node')) delete manifest.allowScripts;
  if (missing.includes('typescript')) delete manifest.scripts.types;
  return { manifest: { name: packageName(name), ...manifest }, missing };
}

/** With the commands of the package manager, and of the scripts that the project has. */
function writeReadme(path, manager, scripts) {
  const lines = readFileSync(path, 'utf8').split('\n');
  const shown = lines.filter((line) => {
    const script = /^npm run (\w+)/.exec(line)?.[1];
    return script === undefined || script in scripts;
  });
  writeFileSync(
    path,
    shown.join('\n').replaceAll(/\bnpm (?=install|run|test|start)/g, `${manager} `),
  );
}

function packageName(folder) {
  return (
    folder
      .toLowerCase()
      .replaceAll(/[^a-z0-9-]+/g, '-')
      .replaceAll(/^-+|-+$/g, '') || 'my-bot'
  );
}

/** The one that started this process, as in `pnpm create relay`. */
function packageManager(env) {
  const [name] = (env['npm_config_user_agent'] ?? '').split('/');
  return ['pnpm', 'yarn'].includes(name) ? name : 'npm';
}

function installWith(manager, { cwd, env, isOffline }) {
  const args =
    manager === 'npm'
      ? [
          'install',
          '--no-audit',
          '--no-fund',
          '--loglevel=error',
          ...(isOffline ? ['--offline'] : []),
        ]
      : ['install'];
  const isWindows = process.platform === 'win32';
  const child = spawn(manager, args, {
    cwd,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: isWindows,
  });
  return new Promise((done, fail) => {
    const failed = (why) =>
      fail(
        new CreateError(`the installation failed (${why}); run \`${manager} install\` in ${cwd}`),
      );
    child.on('error', (error) => failed(error.message));
    child.on('exit', (code, signal) =>
      code === 0 ? done() : failed(signal ?? `exit code ${code}`),
    );
  });
}
