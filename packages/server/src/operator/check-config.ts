/**
 * Checks `relay.config.ts` as a start would. It runs in a process of its own, because the file is a program: it
 * may print, open connections, or never end.
 */
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Installation } from '../config/config.ts';
import { findConfigFile } from '../config/config-file.ts';

export type ConfigCheck =
  | { readonly state: 'absent' }
  | {
      readonly state: 'valid';
      readonly path: string;
      readonly agents: number;
      readonly tools: number;
      /** Names. */
      readonly mcpServers: readonly string[];
    }
  | { readonly state: 'invalid'; readonly problem: string; readonly excerpt?: string | undefined };

const timeoutMs = 20_000;

export async function checkConfigFile({ env, cwd }: Installation): Promise<ConfigCheck> {
  if (isAbsent({ env: { ...process.env, ...env }, cwd })) return { state: 'absent' };
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const program = fileURLToPath(new URL(`./check-config-process.${extension}`, import.meta.url));
  return new Promise((resolve) => {
    // Its own environment, so that it checks what the server would see.
    const child = fork(program, [cwd], {
      ...(existsSync(cwd) ? { cwd } : {}),
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    let result: ConfigCheck | undefined;
    let hasTimedOut = false;
    const timer = setTimeout(() => {
      hasTimedOut = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    child.on('message', (message) => {
      result = message as ConfigCheck;
      child.kill('SIGKILL');
    });
    child.on('error', () => undefined);
    child.on('close', (code) => {
      clearTimeout(timer);
      const ended = hasTimedOut
        ? `it did not finish loading within ${timeoutMs / 1_000} s`
        : `it ended the process with the code ${code}`;
      resolve(
        result ?? { state: 'invalid', problem: `relay.config could not be loaded: ${ended}` },
      );
    });
  });
}

function isAbsent({ env, cwd }: Installation): boolean {
  try {
    return findConfigFile(env, cwd) === undefined;
  } catch {
    // The process reports why.
    return false;
  }
}
