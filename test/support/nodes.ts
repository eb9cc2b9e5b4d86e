/** Several real servers on one PostgreSQL, each a process of its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { allFrames, FrameReader } from './frames.ts';
import { createDatabase, type TestDatabase } from './postgres.ts';
import {
  environmentWithoutSettings,
  type Note,
  type RequestOptions,
  TestServer,
} from './server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface NodesOptions {
  readonly count?: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly entry?: string;
}

export interface JournalEntry extends Readonly<Record<string, unknown>> {
  readonly seq: number;
  readonly type: string;
}

export class Nodes {
  readonly database: TestDatabase;
  readonly env: Readonly<Record<string, string>>;
  readonly #entry: string | undefined;
  readonly #nodes: TestServer[] = [];
  /** Whose folder all of them share: notes and the first key are there. */
  readonly #home = new TestServer();

  private constructor(database: TestDatabase, { env = {}, entry }: NodesOptions) {
    this.database = database;
    this.#entry = entry;
    this.env = {
      RELAY_DATABASE_URL: database.url,
      RELAY_MASTER_KEY: 'ab'.repeat(32),
      RELAY_DATA_DIR: this.#home.dataDir,
      RELAY_LEASE_TTL_MS: '2000',
      ...env,
    };
  }

  /** All start together, on an empty database. */
  static async start(options: NodesOptions = {}): Promise<Nodes> {
    const nodes = new Nodes(await createDatabase(), options);
    await Promise.all(Array.from({ length: options.count ?? 3 }, () => nodes.add()));
    return nodes;
  }

  async add(env: Readonly<Record<string, string>> = {}): Promise<TestServer> {
    const node = new TestServer({ ...this.env, ...env }, this.#entry);
    this.#nodes.push(node);
    return node.start();
  }

  node(place: number): TestServer {
    const node = this.#nodes[place];
    if (node === undefined) throw new Error(`There is no node ${place}`);
    return node;
  }

  get notes(): Note[] {
    return this.#home.notes;
  }

  get apiKey(): string {
    return this.#home.apiKey;
  }

  request(node: TestServer, path: string, options: RequestOptions = {}): Promise<Response> {
    return node.request(path, {
      keyless: true,
      ...options,
      headers: { authorization: `Bearer ${this.apiKey}`, ...options.headers },
    });
  }

  async json<Body>(node: TestServer, path: string, options?: RequestOptions): Promise<Body> {
    return (await this.request(node, path, options)).json() as Promise<Body>;
  }

  /** Starts a run, and reads what is streamed. */
  async run(node: TestServer, input: string, tools: readonly string[] = ['send_note']) {
    const response = await this.request(node, '/v1/runs', {
      body: { model: 'demo', input, tools: tools.map((name) => ({ name, kind: 'builtin' })) },
    });
    return { runId: response.headers.get('x-run-id') ?? '', reader: new FrameReader(response) };
  }

  async follow(node: TestServer, runId: string): Promise<FrameReader> {
    return new FrameReader(await this.request(node, `/v1/runs/${runId}/stream?after=0`));
  }

  async framesOf(node: TestServer, runId: string) {
    return allFrames(await this.request(node, `/v1/runs/${runId}/stream?after=0`));
  }

  async journal(node: TestServer, runId: string): Promise<JournalEntry[]> {
    const path = `/v1/runs/${runId}/events?limit=5000`;
    return (await this.json<{ events: JournalEntry[] }>(node, path)).events;
  }

  approve(node: TestServer, approvalId: unknown, body: object = {}): Promise<Response> {
    const path = `/v1/approvals/${String(approvalId)}`;
    return this.request(node, path, {
      body: 'outcome' in body ? body : { approved: true, ...body },
    });
  }

  /** `npm run bootstrap` with the environment of a node. */
  async bootstrap(...args: string[]): Promise<{ tenantId: string; apiKey: string }> {
    const child = spawn(process.execPath, ['packages/server/src/bootstrap.ts', '--json', ...args], {
      cwd: root,
      env: { ...environmentWithoutSettings(), ...this.env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    await once(child, 'close');
    return JSON.parse(said) as { tenantId: string; apiKey: string };
  }

  async dispose(): Promise<void> {
    for (const node of this.#nodes) node.wake();
    await Promise.all(this.#nodes.map((node) => node.dispose()));
    await this.#home.dispose();
    await this.database.drop();
  }
}
