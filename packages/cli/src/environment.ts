/** What a command receives from its process: environment variables, working directory, streams. */
import type { Readable, Writable } from 'node:stream';

export interface CliEnvironment {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdin: Readable & {
    readonly isTTY?: boolean;
    setRawMode?(isRaw: boolean): unknown;
  };
  readonly stdout: Output;
  readonly stderr: Output;
}

export type Output = Writable & { readonly isTTY?: boolean; readonly columns?: number };

export function processEnvironment(): CliEnvironment {
  const { env, stdin, stdout, stderr } = process;
  return { env, cwd: process.cwd(), stdin, stdout, stderr };
}

/** The value of a variable; a blank one counts as unset. */
export function setting({ env }: Pick<CliEnvironment, 'env'>, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === undefined || value === '' ? undefined : value;
}

/** The command as a person has to type it: in a project or a clone, only npm finds it. */
export const relay = setting(process, 'npm_lifecycle_event') === undefined ? 'relay' : 'npx relay';

/** The columns of a terminal. Some terminals report 0. */
export function terminalWidth({ columns = 0 }: Output): number {
  return columns > 0 ? columns : 80;
}
