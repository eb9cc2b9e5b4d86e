/** What the command has around it: a terminal or pipes, an environment, a folder. */
import type { Readable, Writable } from 'node:stream';

export interface World {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Output;
  readonly stderr: Output;
}

export type Output = Writable & { readonly isTTY?: boolean; readonly columns?: number };

export function processWorld(): World {
  const { env, stdin, stdout, stderr } = process;
  return { env, cwd: process.cwd(), stdin, stdout, stderr };
}

/** A variable that is there and says something. */
export function setting({ env }: Pick<World, 'env'>, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === undefined || value === '' ? undefined : value;
}
