/** Real servers on a data folder that outlives them: in a process of their own, or in this one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { RunningServer, ServeOptions } from '@relay/server';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The environment of this process, without the settings of the developer's own server. */
export function environmentWithoutSettings(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('RELAY_') || name.startsWith('RELAY_TEST_'),
  );
  return Object.fromEntries(kept);
}

export abstract class ServerFixture {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'relay-test-'));
  readonly #env: Readonly<Record<string, string>>;
  #apiKey: string | undefined;
  protected listensOn: string | undefined;

  constructor(env: Readonly<Record<string, string>>) {
    this.#env = env;
  }

  get url(): string {
    if (this.listensOn === undefined) throw new Error('The server is not running');
    return this.listensOn;
  }

  get isRunning(): boolean {
    return this.listensOn !== undefined;
  }

  /** The key of the first start. Signing in to the console deletes its file. */
  get apiKey(): string {
    return (this.#apiKey ??= readFileSync(join(this.dataDir, 'first-key'), 'utf8').trim());
  }

  /** The lines that `send_note` wrote: what really happened. */
  get notes(): Note[] {
    try {
      return readFileSync(join(this.dataDir, 'notes.log'), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Note);
    } catch {
      return [];
    }
  }

  protected environment(env: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
    return {
      ...environmentWithoutSettings(),
      RELAY_PORT: '0',
      RELAY_DATA_DIR: this.dataDir,
      RELAY_PROVIDER_ATTEMPTS: '4',
      RELAY_STOP_TIMEOUT_MS: '5000',
      ...this.#env,
      ...env,
    };
  }

  /** A key for another tenant, made beside the running server. */
  async bootstrap(tenant: string): Promise<string> {
    const { relay } = await import('./cli.ts');
    const settings = Object.entries(this.environment({})).filter(([name]) =>
      name.startsWith('RELAY_'),
    );
    const env = Object.fromEntries(settings.map(([name, value]) => [name, value ?? '']));
    const { code, out, err } = await relay(['bootstrap', '--tenant', tenant], { env });
    if (code !== 0) throw new Error(err);
    return out.trim();
  }

  protected forgetKey(): void {
    this.#apiKey = undefined;
  }

  /** A JSON request with the first key, unless `keyless`. */
  async request(path: string, options: RequestOptions = {}): Promise<Response> {
    const { body, keyless = false, headers, ...rest } = options;
    return fetch(`${this.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      ...rest,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(keyless ? {} : { authorization: `Bearer ${this.apiKey}` }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  }
}

/**
 * In this process, which starts it about eight times faster. For tests that need neither its end by a signal nor what
 * it logs, and that do not block this process while a command of theirs waits for it.
 */
export class LocalServer extends ServerFixture {
  readonly #replaced: Pick<ServeOptions, 'models' | 'tools'>;
  #running: RunningServer | undefined;

  constructor(
    env: Readonly<Record<string, string>> = {},
    replaced: Pick<ServeOptions, 'models' | 'tools'> = {},
  ) {
    super(env);
    this.#replaced = replaced;
  }

  async start(env: Readonly<Record<string, string>> = {}): Promise<this> {
    const { serve } = await import('@relay/server');
    this.#running = await serve({
      env: this.environment({ RELAY_LOG_LEVEL: 'off', ...env }),
      cwd: root,
      terminal: false,
      register: true,
      print: () => {},
      ...this.#replaced,
    });
    this.listensOn = this.#running.url;
    return this;
  }

  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    this.listensOn = undefined;
    await running?.stop();
  }

  async dispose(): Promise<void> {
    await this.stop();
    rmSync(this.dataDir, { recursive: true, force: true });
  }
}

/** In a process of its own. */
export class TestServer extends ServerFixture {
  readonly #entry: string;
  #process: ChildProcess | undefined;
  output = '';

  constructor(env: Readonly<Record<string, string>> = {}, entry = 'packages/server/src/main.ts') {
    super(env);
    this.#entry = entry;
  }

  /** The most memory that the process has had, on Linux. */
  get peakMemoryBytes(): number {
    const status = readFileSync(`/proc/${this.#process?.pid}/status`, 'utf8');
    return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
  }

  async start(env: Readonly<Record<string, string>> = {}): Promise<this> {
    const child = spawn(process.execPath, [this.#entry], {
      cwd: root,
      env: {
        NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/relay'),
        ...this.environment(env),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#process = child;
    this.listensOn = await new Promise<string>((resolve, reject) => {
      const listen = (chunk: Buffer) => {
        this.output += chunk.toString();
        const url = /listening on (http:\S+)/.exec(this.output.slice(this.#seen))?.[1];
        if (url === undefined) return;
        this.#seen = this.output.length;
        resolve(url);
      };
      child.stdout.on('data', listen);
      child.stderr.on('data', listen);
      child.once('exit', () => reject(new Error(`The server did not start:\n${this.output}`)));
    });
    return this;
  }

  #seen = 0;

  /** What it has said since it was last asked, for tests that last long. */
  takeOutput(): string {
    const said = this.output;
    this.output = '';
    this.#seen = 0;
    return said;
  }

  /** Asks the process for something by a signal; what it says is in `output`. */
  signal(name: NodeJS.Signals): void {
    this.#process?.kill(name);
  }

  /** Ends the process without any chance to clean up. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async stop(): Promise<void> {
    await this.#end('SIGTERM');
  }

  /** Lets it sleep, as a machine does that is suspended; `wake` ends that. */
  sleep(): void {
    this.#process?.kill('SIGSTOP');
  }

  wake(): void {
    this.#process?.kill('SIGCONT');
  }

  /** Ends it and removes its data: the next start is a first one. */
  async reset(): Promise<void> {
    await this.kill();
    rmSync(this.dataDir, { recursive: true, force: true });
    mkdirSync(this.dataDir);
    this.forgetKey();
  }

  async dispose(): Promise<void> {
    await this.kill();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
    this.listensOn = undefined;
  }
}

export interface Note {
  readonly text: string;
  readonly toolCallId: string;
  readonly idempotencyKey?: string;
}

export interface RequestOptions {
  readonly method?: string;
  readonly body?: unknown;
  readonly keyless?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}
