/** The oracle's processes: started, spoken to by lines, and ended. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const folder = new URL('../processes/', import.meta.url);

export class Process {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting: ((line: string) => boolean)[] = [];
  #faults = '';

  constructor(name: string, env: Readonly<Record<string, string>>) {
    const child = spawn(process.execPath, [fileURLToPath(new URL(`${name}.ts`, folder))], {
      env: { ...process.env, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stdin.on('error', () => undefined);
    child.stderr.on('data', (chunk: Buffer) => (this.#faults += chunk.toString()));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const index = this.#waiting.findIndex((takes) => takes(line));
      if (index >= 0) this.#waiting.splice(index, 1);
    });
  }

  /** The next line that is meant for the caller. */
  waitFor<Line>(isExpected: (said: Line) => boolean): Promise<Line> {
    return new Promise((resolve, reject) => {
      this.#child.once('exit', (code) =>
        setImmediate(() => reject(new Error(`It ended with ${code}:\n${this.#faults}`))),
      );
      this.#waiting.push((line) => {
        const said = JSON.parse(line) as Line;
        const takes = isExpected(said);
        if (takes) resolve(said);
        return takes;
      });
    });
  }

  send(command: object): void {
    this.#child.stdin.write(`${JSON.stringify(command)}\n`);
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }
}

/** A server of the oracle, and where it listens. */
export async function startOracle(
  name: 'tool-server' | 'model-server',
  env: Readonly<Record<string, string>>,
): Promise<{ readonly url: string; end(): void }> {
  const process_ = new Process(name, env);
  const { url } = await process_.waitFor<{ url?: string }>((said) => said.url !== undefined);
  return { url: url ?? '', end: () => process_.end() };
}
