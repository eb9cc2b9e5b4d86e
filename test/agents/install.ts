/** Installs the real agents once, into a folder of the clone that git ignores. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { agentPackages } from './agents.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = join(root, '.cache/agents');

/** Where the programs of the agents are. */
export const programs = join(folder, 'node_modules/.bin');

/** The exact dependencies; the folder is the agents' only if it was completed with them. */
const wanted = JSON.stringify({
  private: true,
  dependencies: agentPackages,
  allowScripts: { 'opencode-ai': true },
});

export function setup(): void {
  const manifest = join(folder, 'package.json');
  const completed = join(folder, 'completed.json');
  if (existsSync(completed) && readFileSync(completed, 'utf8') === wanted) return;
  const names = Object.entries(agentPackages).map(([name, version]) => `${name}@${version}`);
  console.error(`Installing ${names.join(', ')} into .cache/agents (once, several hundred MB) …`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(manifest, wanted);
  // npm chooses the versions of dependencies by the Node that runs it.
  const path = [dirname(process.execPath), process.env['PATH']].join(delimiter);
  const { status } = spawnSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=http'], {
    cwd: folder,
    env: { ...process.env, PATH: path },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status !== 0)
    throw new Error('The agents could not be installed: see the output of npm above');
  writeFileSync(completed, wanted);
}
