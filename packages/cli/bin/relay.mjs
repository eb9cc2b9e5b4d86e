#!/usr/bin/env node
// Runs on whatever Node is at hand: it finds one that is new enough, or says what to do.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import * as modules from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const needed = 24;
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
// In the repository there is the source, the project's own Node beside it, and no build step.
const isSource = existsSync(here('../src/index.ts'));
const projectNode = here('../../../node_modules/node/bin/node');

if (Number.parseInt(process.versions.node, 10) >= needed) {
  await start();
} else if (isSource && existsSync(projectNode)) {
  handOver();
} else {
  console.error(
    `relay: needs Node ${needed} or newer, this is ${process.versions.node} [node_too_old]`,
  );
  process.exitCode = 1;
}

async function start() {
  // Another user's files must not be taken for compiled code: never a shared temporary folder.
  const own = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  modules.enableCompileCache?.(
    isSource ? here('../../../node_modules/.cache/relay') : join(own, 'relay'),
  );
  const { runCli } = await import(isSource ? '../src/index.ts' : '../dist/index.js');
  process.exitCode = await runCli(process.argv.slice(2));
}

function handOver() {
  const child = spawn(projectNode, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  // Ctrl-C reaches both by the terminal itself; other signals are told to this one alone.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => signal !== 'SIGINT' && child.kill(signal));
  }
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? (signal === null ? 1 : 130);
  });
}
