// Runs on any Node, before anything is installed.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** The project's own Node. */
export const projectNode = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url));

/** Installs missing dependencies. If none is missing, this costs two file reads. */
export function setUp() {
  if (isComplete()) return;
  console.error('Installing dependencies (once, about a minute) …');
  const { status } = spawnSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0 || !existsSync(projectNode)) {
    console.error('The installation failed. Run `npm install` for details.');
    process.exit(1);
  }
}

function isComplete() {
  if (!existsSync(projectNode)) return false;
  try {
    const wanted = packagesOf('../package-lock.json');
    const present = packagesOf('../node_modules/.package-lock.json');
    return Object.entries(wanted).every(([path, { version, optional, link }]) => {
      if (path === '' || link === true || !path.startsWith('node_modules/')) return true;
      return optional === true || present[path]?.version === version;
    });
  } catch {
    return false;
  }
}

function packagesOf(file) {
  return JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8')).packages;
}

/** Runs the project's Node in this terminal and exits with its exit code. */
export function runNode(args) {
  const { status, signal } = spawnSync(projectNode, args, { cwd: root, stdio: 'inherit' });
  process.exitCode = status ?? (signal === null ? 1 : 130);
}
