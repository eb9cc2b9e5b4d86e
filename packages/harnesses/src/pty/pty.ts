/** Any program that runs in a terminal, as a session. */
import { access, constants } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import type { Harness, HarnessContext, HarnessInput } from '@relay/core';
import { cleanEnvironment, type CommandLine, inBubblewrap } from '@relay/processes';
import { defineHarness } from '../define-harness.ts';
import { TerminalSession } from './session.ts';

export interface PtyOptions {
  /** As `POST /v1/sessions` names it. */
  readonly name: string;
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
  /** Besides `PATH`, `LANG`, `HOME` and `TERM`; these win. */
  readonly env?: Readonly<Record<string, string>>;
  /** The size of the terminal until it is changed. Default: 120 columns. */
  readonly cols?: number;
  /** Default: 40. */
  readonly rows?: number;
}

/** As for commands in a sandbox. */
const defaultMemoryBytes = 4 * 1024 ** 3;

/** Throws a TypeError that says which option is wrong. */
export function pty(options: PtyOptions): Harness {
  const problem = optionProblem(options);
  if (problem !== undefined) throw new TypeError(`pty: ${problem}`);
  const { name, command, cols = 120, rows = 40 } = options;
  return defineHarness({
    name,
    runsProcesses: true,
    observesConsumption: false,
    create: async (input: HarnessInput, { signal }: HarnessContext) => {
      const line = await commandLine(options, input);
      const { handle } = input;
      const shown = command.join(' ');
      const size = { cols, rows };
      const memoryBytes = input.process?.sandbox?.memoryBytes ?? defaultMemoryBytes;
      const settings = { harness: name, handle, line, memoryBytes, command: shown, size };
      return new TerminalSession(settings, signal).started();
    },
  });
}

const optionNames: readonly string[] = ['name', 'command', 'env', 'cols', 'rows'];

function optionProblem(options: PtyOptions): string | undefined {
  const { command, env = {}, cols = 1, rows = 1 } = options;
  const unknown = Object.keys(options).find((name) => !optionNames.includes(name));
  if (unknown !== undefined) return `${unknown}: Unknown option`;
  const isText = (value: unknown) => typeof value === 'string' && !value.includes('\0');
  if (!Array.isArray(command) || !command.every(isText) || !command[0]) {
    return 'command: Must be a list: the program, and its arguments';
  }
  if (!isAbsolute(command[0]) && command[0].includes('/')) {
    return 'command: The program must be an absolute path, or a name that is on the PATH';
  }
  if (!Object.values(env).every(isText)) return 'env: Must be an object with strings';
  for (const [field, value] of Object.entries({ cols, rows })) {
    if (!Number.isInteger(value) || value < 1 || value > 1_000) {
      return `${field}: Must be a whole number from 1 to 1000`;
    }
  }
  return undefined;
}

async function commandLine(
  { name, command: [program, ...args], env: own = {} }: PtyOptions,
  { process: given }: HarnessInput,
): Promise<CommandLine> {
  if (given === undefined) throw new Error(`The harness ${name} needs a workspace`);
  const { workspace, home, hidden, sandbox } = given;
  const clean = cleanEnvironment({ env: process.env, pass: [], home, workspace });
  const env: CommandLine['env'] = { ...clean, TERM: 'xterm-256color', ...own };
  const file = await findProgram(program, env['PATH'] ?? '');
  const line: CommandLine = { file, args, cwd: workspace, env };
  if (sandbox === undefined) return line;
  const view = { root: workspace, home, hidden: hidden(), hasTerminal: true };
  return inBubblewrap(line, { commands: 'all', ...sandbox }, view);
}

/** A terminal does not say why a program did not start. */
async function findProgram(program: string, path: string): Promise<string> {
  const folders = path.split(delimiter);
  const files = isAbsolute(program) ? [program] : folders.map((folder) => join(folder, program));
  for (const file of files) if (await isExecutable(file)) return file;
  const where = isAbsolute(program) ? '' : ' on the PATH';
  throw new Error(
    `There is no program ${program}${where}: install it, or change the command of the harness in relay.config.ts`,
  );
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
