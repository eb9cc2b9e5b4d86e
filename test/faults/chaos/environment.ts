/** Real servers with the oracle around them: one on SQLite, or three on one PostgreSQL. */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { TcpProxy } from '../../support/tcp-proxy.ts';
import { TestServer } from '../../support/server.ts';
import { installAudit } from './audit.ts';
import { RestartablePostgres } from './postgres.ts';
import { startOracle } from './processes.ts';

export const leaseTtlMs = 1_500;
export const modelName = 'oracle:scripted';

const serverEntry = process.env['CHAOS_ENTRY'] ?? 'packages/server/src/main.ts';
const config = fileURLToPath(new URL('../processes/chaos.config.ts', import.meta.url));

type Oracle = Awaited<ReturnType<typeof startOracle>>;

interface Parts {
  readonly folder: string;
  readonly dataDir: string;
  readonly tools: Oracle;
  readonly models: Oracle;
  readonly secret: string;
  readonly nodes: readonly TestServer[];
  readonly postgres?: RestartablePostgres;
  readonly proxies?: readonly TcpProxy[];
}

export interface EnvironmentOptions {
  /** Where the data folder is, if not among the temporary files. */
  readonly dataDir?: string;
}

export class Environment {
  readonly #parts: Parts;

  private constructor(parts: Parts) {
    this.#parts = parts;
  }

  static async sqlite(options: EnvironmentOptions = {}): Promise<Environment> {
    const base = await startOracles(options);
    const node = new TestServer(base.env, serverEntry);
    const environment = new Environment({ ...base, nodes: [node] });
    await node.start();
    return environment;
  }

  static async nodes(count = 3): Promise<Environment> {
    const base = await startOracles({});
    const postgres = await RestartablePostgres.start();
    const proxies = Array.from({ length: count }, () => new TcpProxy(postgres.url));
    const nodes: TestServer[] = [];
    for (const [index, proxy] of proxies.entries()) {
      const url = `${await proxy.open()}?application_name=node-${index}`;
      const env = { ...base.env, RELAY_DATABASE_URL: url, RELAY_MASTER_KEY: 'ab'.repeat(32) };
      nodes.push(new TestServer(env, serverEntry));
    }
    const environment = new Environment({ ...base, nodes, postgres, proxies });
    await nodes[0]?.start();
    await installAudit(postgres);
    await Promise.all(nodes.slice(1).map((node) => node.start()));
    return environment;
  }

  get nodes(): readonly TestServer[] {
    return this.#parts.nodes;
  }

  get urls(): readonly string[] {
    return this.nodes.flatMap((node) => (node.isRunning ? [node.url] : []));
  }

  get postgres(): RestartablePostgres {
    if (this.#parts.postgres === undefined) throw new Error('This environment has no PostgreSQL');
    return this.#parts.postgres;
  }

  get proxies(): readonly TcpProxy[] {
    return this.#parts.proxies ?? [];
  }

  get isShared(): boolean {
    return this.#parts.postgres !== undefined;
  }

  get dataDir(): string {
    return this.#parts.dataDir;
  }

  get database(): string {
    return join(this.dataDir, 'relay.db');
  }

  get apiKey(): string {
    return readFileSync(join(this.dataDir, 'first-key'), 'utf8').trim();
  }

  /** Must never be shown: the provider's key and the caller's key. */
  get secrets(): readonly string[] {
    return [this.#parts.secret, this.apiKey];
  }

  get callsFile(): string {
    return join(this.#parts.folder, 'calls.jsonl');
  }

  get toolServer(): string {
    return this.#parts.tools.url;
  }

  get modelServer(): string {
    return this.#parts.models.url;
  }

  file(name: string): string {
    return join(this.#parts.folder, name);
  }

  /** The body that stores the key of the scripted provider. */
  get credential(): object {
    return { apiKey: this.#parts.secret, baseUrl: `${this.#parts.models.url}/v1` };
  }

  async request(path: string, init: RequestInit & { node?: number } = {}): Promise<Response> {
    const { node = 0, ...rest } = init;
    const url = this.urls[node % this.urls.length] ?? '';
    return fetch(`${url}${path}`, {
      ...rest,
      headers: { authorization: `Bearer ${this.apiKey}`, 'content-type': 'application/json' },
    });
  }

  async query(sql: string): Promise<Record<string, unknown>[]> {
    if (this.isShared) return this.postgres.sql(sql);
    const db = new DatabaseSync(this.database, { readOnly: true });
    try {
      return db.prepare(sql).all();
    } finally {
      db.close();
    }
  }

  async dispose(): Promise<void> {
    const { nodes, tools, models, postgres, proxies, folder } = this.#parts;
    for (const node of nodes) node.wake();
    await Promise.all(nodes.map((node) => node.dispose()));
    await Promise.all((proxies ?? []).map((proxy) => proxy.close()));
    await postgres?.stop();
    tools.end();
    models.end();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startOracles({ dataDir }: EnvironmentOptions) {
  const folder = mkdtempSync(join(tmpdir(), 'relay-chaos-'));
  const data = dataDir ?? join(folder, 'data');
  if (!existsSync(data)) mkdirSync(data, { recursive: true, mode: 0o700 });
  const tools = await startOracle('tool-server', { CALLS_FILE: join(folder, 'calls.jsonl') });
  const models = await startOracle('model-server', {});
  const env = {
    RELAY_DATA_DIR: data,
    RELAY_CONFIG: config,
    RELAY_LEASE_TTL_MS: String(leaseTtlMs),
    RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
    TEST_TOOL_SERVER: tools.url,
  };
  return { folder, dataDir: data, tools, models, env, secret: `sk-canary-${randomUUID()}` };
}
