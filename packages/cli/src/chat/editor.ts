/** The editor of the user, as in git: `VISUAL` or `EDITOR`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CliEnvironment, setting } from '../environment.ts';
import type { Terminal } from './terminal.ts';

/** Returns the text after the editor was closed; undefined if the editor failed. */
export type OpenEditor = (text: string, fileName: string) => Promise<string | undefined>;

/** `undefined` if there is no editor, or no terminal for it. */
export function editorFor(environment: CliEnvironment, terminal: Terminal): OpenEditor | undefined {
  const command = setting(environment, 'VISUAL') ?? setting(environment, 'EDITOR');
  const isUsable = terminal.isInteractive && environment.stdout.isTTY === true;
  if (command === undefined || !isUsable || setting(environment, 'TERM') === 'dumb') {
    return undefined;
  }
  return (text, fileName) => terminal.suspend(() => edit(command, text, fileName));
}

async function edit(command: string, text: string, fileName: string): Promise<string | undefined> {
  // The arguments of a call can be confidential: the folder is private.
  const folder = mkdtempSync(join(tmpdir(), 'relay-edit-'));
  const path = join(folder, fileName);
  try {
    writeFileSync(path, text, { mode: 0o600 });
    // The command can have arguments, such as `code --wait`.
    const editor = spawn('sh', ['-c', `${command} "$@"`, command, path], { stdio: 'inherit' });
    const [code] = (await once(editor, 'close')) as [number | null];
    return code === 0 ? readFileSync(path, 'utf8') : undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
