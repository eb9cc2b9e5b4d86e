#!/usr/bin/env node
// Runs on any Node version: uses the Node of the project if this one is too old, or reports the problem.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import * as modules from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const minVersion = '24.16';
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
// A checkout of the repository has the source, and needs no build step.
const isSource = existsSync(here('../src/main.ts'));
// The npm package `node` of this repository, or of the project that installed this package.
const projectNode = here(isSource ? '../../../node_modules/node/bin/node' : '../../node/bin/node');

stopWithScript();
if (isSupported(process.versions.node)) {
  await start();
} else if (existsSync(projectNode)) {
  runWithProjectNode();
} else {
  console.error(
    `relay: needs Node ${minVersion} or newer, this is ${process.versions.node} [node_too_old]`,
  );
  process.exitCode = 1;
}

/**
 * npm runs a script such as `relay dev` in a shell, and sends its own signals to that shell. Many shells end
 * without passing them on, and this process would remain.
 */
function stopWithScript() {
  const isWholeScript = /^relay [^&|;]*$/.test(process.env.npm_lifecycle_script ?? '');
  if (!isWholeScript) return;
  const parent = process.ppid;
  const watching = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watching);
    process.kill(process.pid, 'SIGTERM');
  }, 500);
  watching.unref();
}

function isSupported(version) {
  const [major, minor] = version.split('.').map(Number);
  const [minMajor, minMinor] = minVersion.split('.').map(Number);
  return major > minMajor || (major === minMajor && minor >= minMinor);
}

async function start() {
  // Not in a shared temporary folder, where another user could plant compiled code.
  const cacheDir = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  modules.enableCompileCache?.(
    isSource ? here('../../../node_modules/.cache/relay') : join(cacheDir, 'relay'),
  );
  const { runCli } = await import(isSource ? '../src/main.ts' : '../dist/main.js');
  process.exitCode = await runCli(process.argv.slice(2));
}

function runWithProjectNode() {
  const child = spawn(projectNode, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  // A terminal sends Ctrl-C to both processes; other signals reach only this one.
  const { stdin, stdout, stderr } = process;
  const isTerminal = [stdin, stdout, stderr].some(({ isTTY }) => isTTY);
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) {
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !isTerminal) child.kill(signal);
    });
  }
  child.on('exit', (code, signal) => {
    if (signal === null) process.exitCode = code;
    else {
      for (const each of signals) process.removeAllListeners(each);
      process.kill(process.pid, signal);
    }
  });
}
