/** A world of pipes, or one that says it is a terminal. */
import { PassThrough } from 'node:stream';
import type { Output, World } from '../../src/world.ts';

export interface FakeWorld extends World {
  readonly stdin: PassThrough & { isTTY?: boolean; setRawMode?: (raw: boolean) => void };
  readonly out: () => string;
  readonly err: () => string;
}

export interface FakeWorldOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export function fakeWorld(options: FakeWorldOptions = {}): FakeWorld {
  const { env = {}, isTTY = false, columns } = options;
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

/** Lets what was written be read, and what was read be acted upon. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
