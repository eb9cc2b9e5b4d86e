/** An environment of pipes that can pose as a terminal. */
import { PassThrough } from 'node:stream';
import type { CliEnvironment, Output } from '../../src/environment.ts';

export interface FakeEnvironment extends CliEnvironment {
  readonly stdin: PassThrough & { isTTY?: boolean; setRawMode?: (raw: boolean) => void };
  readonly out: () => string;
  readonly err: () => string;
}

export interface FakeEnvironmentOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export function fakeEnvironment(options: FakeEnvironmentOptions = {}): FakeEnvironment {
  const { isTTY = false, columns } = options;
  // Not those of this machine.
  const env = { XDG_STATE_HOME: '/nowhere', XDG_CONFIG_HOME: '/nowhere', ...options.env };
  const [stdout, out] = recorded(isTTY, columns);
  const [stderr, err] = recorded(isTTY, columns);
  const stdin = Object.assign(new PassThrough(), isTTY ? { isTTY, setRawMode: () => {} } : {});
  return { env, cwd: '/', stdin, stdout, stderr, out, err };
}

function recorded(isTTY: boolean, columns: number | undefined): [Output, () => string] {
  let text = '';
  const stream = new PassThrough();
  stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const size = columns === undefined ? {} : { columns };
  return [Object.assign(stream, isTTY ? { isTTY } : {}, size), () => text];
}

/** Waits until written input has been read and handled. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
