/** A composed server for tests, on either store, with or without a port. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Log, ModelRegistry, SystemStore, ToolRegistry } from '@relay/core';
import { createMemoryStore, openSqliteStore } from '@relay/store';
import { compose, ids, type Relay } from '../../src/compose.ts';
import { type Config, readConfig } from '../../src/config/config.ts';
import type { RelayConfig } from '../../src/config/config-file.ts';
import { hashApiKey, makeApiKey } from '../../src/secrets/keys.ts';

export type StoreKind = 'memory' | 'sqlite';
export const storeKinds: readonly StoreKind[] = ['memory', 'sqlite'];

export interface BootOptions {
  readonly kind?: StoreKind;
  /** Replaces `kind`: a store that outlives this server, such as one with faults. */
  readonly store?: SystemStore;
  readonly env?: Readonly<Record<string, string>>;
  readonly models?: ModelRegistry;
  readonly tools?: ToolRegistry;
  /** What `relay.config.ts` would define. */
  readonly file?: RelayConfig;
  /** Left out: warnings and errors are kept in `logged`. */
  readonly log?: Log;
}

export interface KeyWish {
  readonly tenant?: string;
  readonly scopes?: readonly string[];
  readonly expiresAt?: number;
  readonly revokedAt?: number;
}

export interface Wish {
  readonly method?: string;
  /** An object is sent as JSON, a text as it is. */
  readonly body?: unknown;
  /** `null`: without a key. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface TestRelay {
  readonly relay: Relay;
  readonly store: SystemStore;
  readonly config: Config;
  readonly url: string;
  /** Of the tenant `default`, with all scopes. */
  readonly apiKey: string;
  readonly tenantId: string;
  readonly logged: string[];
  /** What `send_note` really did. */
  notes(): string[];
  request(path: string, wish?: Wish): Promise<Response>;
  json(path: string, wish?: Wish): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

export async function bootRelay(options: BootOptions = {}): Promise<TestRelay> {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-server-'));
  const env = {
    RELAY_PORT: '0',
    RELAY_DATA_DIR: dataDir,
    // A store may outlive this server, and is opened by the next one too.
    RELAY_MASTER_KEY: '5e'.repeat(32),
    ...options.env,
  };
  const config = readConfig(env, dataDir);
  const store = options.store ?? (await openStore(options.kind ?? 'memory', dataDir));
  const logged: string[] = [];
  const log = (message: string, fields = {}) =>
    void logged.push(`${message} ${JSON.stringify(fields, plainly)}`);
  const relay = await compose({
    config,
    store,
    log: options.log ?? { warn: log, error: log },
    ...(options.models === undefined ? {} : { models: options.models }),
    ...(options.tools === undefined ? {} : { tools: options.tools }),
    ...(options.file === undefined ? {} : { file: options.file }),
  });
  await relay.start();
  await relay.app.listen({ host: config.host, port: 0 });
  const { port } = relay.app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const { apiKey, tenantId } = await addKey(store, {});
  const request = (path: string, wish: Wish = {}) => ask(`${url}${path}`, apiKey, wish);
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
    json: async (path, wish) => (await request(path, wish)).json() as Promise<never>,
    async stop() {
      await relay.stop();
      if (options.store === undefined) await store.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

function openStore(kind: StoreKind, dir: string): Promise<SystemStore> {
  return kind === 'sqlite' ? openSqliteStore({ dir }) : Promise.resolve(createMemoryStore());
}

/** An error would otherwise be told as an empty object. */
function plainly(_name: string, value: unknown): unknown {
  return value instanceof Error ? (value.stack ?? value.message) : value;
}

/** A key as an operator would make it; with all scopes unless said otherwise. */
export async function addKey(
  store: SystemStore,
  wish: KeyWish,
): Promise<{ apiKey: string; tenantId: string; keyId: string }> {
  const { tenant = 'default', scopes = ['runs', 'approve', 'admin'] } = wish;
  const { id: tenantId } = await store.ensureTenant({ id: ids.next(), name: tenant, at: 0 });
  const apiKey = makeApiKey();
  const keyId = ids.next();
  const key = {
    id: keyId,
    tenantId,
    name: `key of ${tenant}`,
    owner: null,
    scopes,
    createdAt: 0,
    expiresAt: wish.expiresAt ?? null,
    revokedAt: wish.revokedAt ?? null,
  };
  await store.addKey(key, hashApiKey(apiKey));
  return { apiKey, tenantId, keyId };
}

function ask(url: string, apiKey: string, wish: Wish): Promise<Response> {
  const { body, headers, signal } = wish;
  const key = wish.key === undefined ? apiKey : wish.key;
  return fetch(url, {
    method: wish.method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
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

/** Looks again until something is there; what never comes fails by name. */
export async function until<Value>(
  look: () => Promise<Value | undefined | false> | Value | undefined | false,
  what: string,
): Promise<Value> {
  const deadline = Date.now() + 8_000;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`Waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
