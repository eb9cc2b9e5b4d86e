/** A composed server for tests that listens on a free port. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Log, ModelRegistry, SystemStore, ToolRegistry } from '@relay/core';
import { defined, scopes as allScopes } from '@relay/protocol';
import { createMemoryStore, openSqliteStore } from '@relay/store';
import { compose, ids, type Relay } from '../../src/compose.ts';
import { type Config, readConfig } from '../../src/config/config.ts';
import type { RelayConfig } from '../../src/config/config-file.ts';
import { hashApiKey, makeApiKey } from '../../src/secrets/keys.ts';
import { masterKeys } from '../../src/secrets/master-key.ts';
import { rowAuthenticator } from '../../src/secrets/row-authenticator.ts';

export type StoreKind = 'memory' | 'sqlite';

export interface BootOptions {
  readonly kind?: StoreKind;
  /** Replaces `kind`: a store that outlives this server, such as one with faults. */
  readonly store?: SystemStore;
  readonly env?: Readonly<Record<string, string>>;
  readonly models?: ModelRegistry;
  readonly tools?: ToolRegistry;
  /** What `relay.config.ts` would define. */
  readonly file?: RelayConfig;
  /** The built files of the console. */
  readonly consoleDir?: string;
  /** Default: warnings and errors are collected in `logged`. */
  readonly log?: Log;
}

export interface KeyOptions {
  readonly tenant?: string;
  readonly scopes?: readonly string[];
  readonly owner?: string;
  readonly groups?: readonly string[];
  readonly expiresAt?: number;
  readonly revokedAt?: number;
}

export interface RequestOptions {
  readonly method?: string;
  /** An object is sent as JSON, a text as it is. */
  readonly body?: unknown;
  /** `null`: without a key. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface TestResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

export interface TestServer {
  readonly relay: Relay;
  readonly store: SystemStore;
  readonly config: Config;
  readonly url: string;
  /** Of the tenant `default`, with all scopes. */
  readonly apiKey: string;
  readonly tenantId: string;
  readonly logged: string[];
  /** The notes that `send_note` has written. */
  notes(): string[];
  request(path: string, options?: RequestOptions): Promise<Response>;
  json(path: string, options?: RequestOptions): Promise<Record<string, unknown>>;
  /** Without a body: an empty object. */
  ask(path: string, options?: RequestOptions): Promise<TestResponse>;
  stop(): Promise<void>;
}

export async function bootServer(options: BootOptions = {}): Promise<TestServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-server-'));
  const env = {
    RELAY_PORT: '0',
    RELAY_DATA_DIR: dataDir,
    // Fixed, because a later server may open the same store.
    RELAY_MASTER_KEY: '5e'.repeat(32),
    // A provider that fails for good shall not be waited for.
    RELAY_PROVIDER_ATTEMPTS: '4',
    RELAY_STOP_TIMEOUT_MS: '1000',
    ...options.env,
  };
  const config = readConfig(env, dataDir);
  const store = options.store ?? (await openStore(options.kind ?? 'memory', config));
  const logged: string[] = [];
  const log = (message: string, fields = {}) =>
    void logged.push(`${message} ${JSON.stringify(fields, errorAsText)}`);
  const relay = await compose({
    config,
    store,
    log: options.log ?? { warn: log, error: log },
    ...defined({
      models: options.models,
      tools: options.tools,
      file: options.file,
      consoleDir: options.consoleDir,
    }),
  });
  await relay.start();
  await relay.app.listen({ host: config.host, port: 0 });
  const { port } = relay.app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const { apiKey, tenantId } = await addKey(store, {});
  const request = (path: string, options: RequestOptions = {}) =>
    send(`${url}${path}`, apiKey, options);
  return {
    relay,
    store,
    config,
    url,
    apiKey,
    tenantId,
    logged,
    notes: () => linesOf(join(dataDir, 'notes.log')),
    request,
    json: async (path, options) => (await request(path, options)).json() as Promise<never>,
    async ask(path, options) {
      const response = await request(path, options);
      const { status, headers } = response;
      const text = (await response.text()) || '{}';
      return { status, headers, body: JSON.parse(text) as TestResponse['body'] };
    },
    async stop() {
      await relay.stop();
      if (options.store === undefined) await store.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function openStore(kind: StoreKind, config: Config): Promise<SystemStore> {
  const rows = rowAuthenticator(masterKeys(config));
  const { dataDir: dir } = config;
  return kind === 'sqlite' ? openSqliteStore({ dir, rows }) : createMemoryStore({ rows });
}

/** JSON.stringify writes an error as an empty object. */
function errorAsText(_name: string, value: unknown): unknown {
  return value instanceof Error ? (value.stack ?? value.message) : value;
}

/** Adds a key, by default with all scopes. */
export async function addKey(
  store: SystemStore,
  options: KeyOptions,
): Promise<{ apiKey: string; tenantId: string; keyId: string }> {
  const { tenant = 'default', scopes = allScopes } = options;
  const { id: tenantId } = await store.ensureTenant({ id: ids.next(), name: tenant, at: 0 });
  const apiKey = makeApiKey();
  const keyId = ids.next();
  const key = {
    id: keyId,
    tenantId,
    name: `key of ${tenant}`,
    owner: options.owner ?? null,
    role: null,
    scopes,
    groups: options.groups ?? [],
    createdAt: 0,
    expiresAt: options.expiresAt ?? null,
    revokedAt: options.revokedAt ?? null,
    lastUsedAt: null,
    replaces: [],
    replacedBy: null,
    kind: 'api' as const,
    parent: null,
  };
  await store.addKey(key, hashApiKey(apiKey));
  return { apiKey, tenantId, keyId };
}

function send(url: string, apiKey: string, options: RequestOptions): Promise<Response> {
  const { body, headers, signal } = options;
  const key = options.key === undefined ? apiKey : options.key;
  return fetch(url, {
    method: options.method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...defined({ signal }),
  });
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '');
  } catch {
    return [];
  }
}

/** Polls until `read` returns a value; fails after 15 s with what was expected. */
export async function until<Value>(
  read: () => Promise<Value | undefined | false> | Value | undefined | false,
  what: string,
): Promise<Value> {
  const deadline = Date.now() + 15_000;
  for (;;) {
    const found = await read();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`Timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
