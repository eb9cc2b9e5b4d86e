/** Runs the CLI in this process with pipes, and the path of its executable. */
import { PassThrough, Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { runCli } from '../../packages/cli/src/main.ts';

export const relayBin = fileURLToPath(new URL('../../packages/cli/bin/relay.mjs', import.meta.url));

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: string;
}

export interface CliOutcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function relay(
  args: readonly string[],
  options: CliOptions = {},
): Promise<CliOutcome> {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const texts = { out: '', err: '' };
  stdout.on('data', (chunk: Buffer) => (texts.out += chunk.toString()));
  stderr.on('data', (chunk: Buffer) => (texts.err += chunk.toString()));
  const code = await runCli(args, {
    // Neither the servers nor the profiles of this machine.
    env: { XDG_STATE_HOME: '/nowhere', XDG_CONFIG_HOME: '/nowhere', ...options.env },
    cwd: options.cwd ?? '/nowhere',
    stdin: Readable.from(options.stdin === undefined ? [] : [options.stdin]),
    stdout,
    stderr,
  });
  return { code, ...texts };
}

/** What `--json` printed: one value per line. */
export function values<Value = Record<string, unknown>>({ out }: CliOutcome): Value[] {
  return out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Value);
}
