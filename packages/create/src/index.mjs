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
  const tarballs = packages === undefined ? undefined : resolve(cwd, packages);
  const manager = packageManager(env);
  if (manager === 'yarn') {
    if (tarballs !== undefined) {
      throw new CreateError('yarn does not install what a tarball contains; use npm or pnpm');
    }
    requireNodeForYarn();
  }
  const manifest = manifestFor(target, tarballs);
  mkdirSync(target, { recursive: true });
  cpSync(template, target, { recursive: true });
  // npm leaves out or renames files with these names when it packs the template.
  for (const name of ['gitignore', 'env.example']) {
    renameSync(join(target, `_${name}`), join(target, `.${name}`));
  }
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  writeReadme(join(target, 'README.md'), manager);
  const shown = relative(cwd, target) || '.';
  print(`Made a project in ${shown}.`);
  // Node is installed by a script, which pnpm runs only if it is allowed here.
  if (manager === 'pnpm') {
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

/** Yarn runs scripts with its own Node, whatever the project installs. */
function requireNodeForYarn() {
  const { node } = process.versions;
  const [major, minor] = node.split('.').map(Number);
  if (major > minNode[0] || (major === minNode[0] && minor >= minNode[1])) return;
  throw new CreateError(
    `the project needs Node ${minNode.join('.')} or newer, this is ${node}; install a newer Node, ` +
      'or use npm or pnpm: the project then gets its own from the registry',
  );
}

/** With versions of the registry, or with tarballs. */
function manifestFor(target, tarballs) {
  const manifest = JSON.parse(readFileSync(join(template, 'package.json'), 'utf8'));
  for (const dependencies of [manifest.dependencies, manifest.devDependencies]) {
    for (const [name, pinned] of Object.entries(dependencies)) {
      const own = name === 'relay-kit';
      dependencies[name] =
        tarballs === undefined
          ? own
            ? `^${version}`
            : pinned
          : `file:${relative(target, tarballOf(name, own ? version : pinned, tarballs))}`;
    }
  }
  return { name: packageName(basename(target)), ...manifest };
}

function tarballOf(name, version, folder) {
  if (!existsSync(folder)) throw new CreateError(`there is no folder ${folder}`);
  // As npm names the tarball of a package with a scope.
  const file = `${name.replace(/^@/, '').replace('/', '-')}-${version}.tgz`;
  if (existsSync(join(folder, file))) return join(folder, file);
  throw new CreateError(`${folder} has no ${file}; \`npm run pack\` in the repository makes it`);
}

/** With the commands of the package manager. */
function writeReadme(path, manager) {
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, text.replaceAll(/\bnpm (?=install|run|test|start)/g, `${manager} `));
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
        new CreateError(
          `the installation failed (${why}); run \`${manager} install\` in ${cwd}` +
            (isOffline ? '' : ', or without a registry make the project with --packages FOLDER'),
        ),
      );
    child.on('error', (error) => failed(error.message));
    child.on('exit', (code, signal) =>
      code === 0 ? done() : failed(signal ?? `exit code ${code}`),
    );
  });
}
