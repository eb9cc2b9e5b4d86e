/** `pnpm bootstrap`, as 003 tells newcomers to get their key. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { verifies } from '../conformance/verifies.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

function bootstrap(dataDir: string, args: readonly string[]): Record<string, string> {
  const stdout = execFileSync(join(root, 'node_modules/.bin/pnpm'), ['bootstrap', ...args], {
    cwd: root,
    env: { ...process.env, RELAY_DATA_DIR: dataDir },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const line = stdout.split('\n').find((each) => each.startsWith('{'));
  return JSON.parse(line ?? '{}') as Record<string, string>;
}

test('pnpm bootstrap makes a key for a tenant, before the first start and beside a running server', async () => {
  verifies('003:auth:bootstrap-pnpm');
  const server = new TestServer();
  try {
    const made = bootstrap(server.dataDir, ['--tenant', 'acme', '--json']);
    expect(Object.keys(made).toSorted()).toEqual(['apiKey', 'keyId', 'tenantId']);
    expect(made['apiKey']).toMatch(/^relay_live_/);
    await server.start();
    const again = bootstrap(server.dataDir, ['--tenant', 'acme', '--json']);
    expect(again['tenantId']).toBe(made['tenantId']);
    expect(again['keyId']).not.toBe(made['keyId']);
    for (const { apiKey } of [made, again]) {
      const headers = { authorization: `Bearer ${apiKey}` };
      expect((await server.request('/v1/runs', { headers })).status).toBe(200);
    }
  } finally {
    await server.dispose();
  }
}, 60_000);
