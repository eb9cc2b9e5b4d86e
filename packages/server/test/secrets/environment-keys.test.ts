import { createMemoryStore } from '@relay/store';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { uuidv7 } from 'uuidv7';
import { afterEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config/config.ts';
import { embed } from '../../src/embed.ts';
import { masterKeyOf } from '../../src/secrets/secret-encryption.ts';
import { Vault } from '../../src/secrets/vault.ts';

const key = 'sk-environment-0001-abcd';
const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** A provider that records the keys it receives, and refuses them with the key in its message. */
async function provider() {
  const keys: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    keys.push(request.headers.authorization);
    response.writeHead(401, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { message: `Wrong ${request.headers.authorization}` } }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { keys, url: `http://127.0.0.1:${port}/v1` };
}

async function open(env: Record<string, string>) {
  const dataDir = mkdtempSync(join(tmpdir(), 'relay-environment-keys-'));
  closing.push(() => rmSync(dataDir, { recursive: true }));
  const relay = await embed({
    env: { RELAY_PRIVATE_NETWORKS: '127.0.0.0/8', RELAY_DATA_DIR: dataDir, ...env },
    cwd: dataDir,
  });
  let stopped: Promise<void> | undefined;
  const stop = () => (stopped ??= relay.stop());
  closing.push(stop);
  const call = async (method: string, path: string, body?: unknown) => {
    const response = await relay.fetch(`${relay.baseUrl}${path}`, {
      method,
      headers: { authorization: `Bearer ${relay.apiKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
  return { call, dataDir, stop };
}

const run = { model: 'gpt-5', input: 'Hi' };

describe('a provider key of the environment', () => {
  test('is used by the tenant default, is listed with its source, and is stored and shown nowhere', async () => {
    const { keys, url } = await provider();
    const { call, dataDir, stop } = await open({ OPENAI_API_KEY: key, OPENAI_BASE_URL: url });
    const answer = await call('POST', '/v1/runs', run);
    expect(keys).toContain(`Bearer ${key}`);
    expect(answer.text).not.toContain(key);
    const { text } = await call('GET', '/v1/credentials');
    expect(JSON.parse(text)).toMatchObject({
      credentials: [{ provider: 'openai', last4: 'abcd', source: 'environment' }],
    });
    await stop();
    for (const name of readdirSync(dataDir, { recursive: true, withFileTypes: true })) {
      if (!name.isFile()) continue;
      expect(readFileSync(join(name.parentPath, name.name)).includes(key), name.name).toBe(false);
    }
  });

  test('yields to a stored credential, until that is deleted', async () => {
    const { keys, url } = await provider();
    const { call } = await open({ OPENAI_API_KEY: key, OPENAI_BASE_URL: url });
    const apiKey = 'sk-stored-0000-0002';
    await call('PUT', '/v1/credentials/openai', { apiKey, baseUrl: url });
    await call('POST', '/v1/runs', run);
    expect(new Set(keys)).toEqual(new Set([`Bearer ${apiKey}`]));
    expect((await call('GET', '/v1/credentials')).text).not.toContain('environment');
    await call('DELETE', '/v1/credentials/openai');
    await call('POST', '/v1/runs', run);
    expect(keys.at(-1)).toBe(`Bearer ${key}`);
  });
});

test('the vault offers it to no other tenant', async () => {
  const store = createMemoryStore();
  const log = { addSecret: () => undefined };
  const vault = new Vault({
    store,
    masters: [masterKeyOf(randomBytes(32))],
    ids: { next: uuidv7 },
    log,
  });
  const [own, other] = await Promise.all(
    ['own', 'other'].map((name) => store.ensureTenant({ id: uuidv7(), name, at: 0 })),
  );
  const environment = { provider: 'openai', variable: 'OPENAI_API_KEY', apiKey: key } as const;
  vault.useEnvironment(own?.id ?? '', [{ ...environment, baseUrl: undefined }]);
  expect(await vault.list(own?.id ?? '')).toHaveLength(1);
  expect(await vault.read(other?.id ?? '', 'openai')).toBeUndefined();
  expect(await vault.list(other?.id ?? '')).toEqual([]);
});

const names = (env: Record<string, string>) =>
  readConfig(env, '/').providerKeys.map(({ variable }) => variable);

describe('provider keys', () => {
  const env = { OPENAI_API_KEY: key, ANTHROPIC_API_KEY: key, GOOGLE_GENERATIVE_AI_API_KEY: key };

  test('are read under the names that other tools use', () => {
    expect(names(env)).toEqual(Object.keys(env));
    expect(names({ GEMINI_API_KEY: key, GOOGLE_API_KEY: key })).toEqual(['GEMINI_API_KEY']);
  });

  test.each([
    { RELAY_HOST: '0.0.0.0' },
    { RELAY_ALLOWED_HOSTS: 'relay.example' },
    { RELAY_PUBLIC_URL: 'https://relay.example' },
    { RELAY_DATABASE_URL: 'postgres://localhost/relay' },
    { RELAY_ENV_CREDENTIALS: 'off' },
  ])('are ignored with %o', (setting) => {
    expect(names({ ...env, ...setting })).toEqual([]);
  });

  test('are used by a public server that asks for them', () => {
    const settings = { RELAY_PUBLIC_URL: 'https://relay.example', RELAY_ENV_CREDENTIALS: 'on' };
    expect(names({ ...env, ...settings })).toEqual(Object.keys(env));
  });

  test('stop the start if they are malformed, without being repeated', () => {
    const bad = { OPENAI_API_KEY: 'sk wrong' };
    expect(() => names(bad)).toThrow('OPENAI_API_KEY must be printable ASCII characters');
    expect(() => names(bad)).not.toThrow('sk wrong');
  });
});
