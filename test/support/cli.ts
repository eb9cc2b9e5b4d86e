/** The command in this process, with pipes for its world; and where its program lies. */
import { PassThrough, Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { runCli } from '@relay/cli';

export const relayBin = fileURLToPath(new URL('../../packages/cli/bin/relay.mjs', import.meta.url));

export interface CliWorld {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: string;
}

export interface CliOutcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function relay(args: readonly string[], world: CliWorld = {}): Promise<CliOutcome> {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const texts = { out: '', err: '' };
  stdout.on('data', (chunk: Buffer) => (texts.out += chunk.toString()));
  stderr.on('data', (chunk: Buffer) => (texts.err += chunk.toString()));
  const code = await runCli(args, {
    env: world.env ?? {},
    cwd: world.cwd ?? '/nowhere',
    stdin: Readable.from(world.stdin === undefined ? [] : [world.stdin]),
    stdout,
    stderr,
  });
  return { code, ...texts };
}

/** What `--json` printed: one value a line. */
export function values<Value = Record<string, unknown>>({ out }: CliOutcome): Value[] {
  return out
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Value);
}
