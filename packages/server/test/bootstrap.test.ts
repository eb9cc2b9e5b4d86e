import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { serve, type RunningServer } from '../src/serve.ts';

const script = fileURLToPath(new URL('../src/bootstrap.ts', import.meta.url));
let base = '';
let serving: RunningServer | undefined;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'relay-bootstrap-')));
  mkdirSync(join(base, 'ws'));
});
afterEach(async () => {
  await serving?.stop();
  serving = undefined;
  rmSync(base, { recursive: true, force: true });
});

async function bootstrap(...args: string[]) {
  const child = spawn(process.execPath, [script, '--json', ...args], {
    cwd: tmpdir(),
    env: { PATH: process.env['PATH'], RELAY_DATA_DIR: join(base, 'data'), INIT_CWD: base },
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (text) => void (output.stdout += String(text)));
  child.stderr.on('data', (text) => void (output.stderr += String(text)));
  const [code] = (await once(child, 'close')) as [number];
  return { code, ...output };
}

describe('bootstrap --workspace', { timeout: 60_000 }, () => {
  it('sets a workspace beside a running server, effective with the first request', async () => {
    serving = await serve({
      env: { RELAY_DATA_DIR: join(base, 'data'), RELAY_PORT: '0', RELAY_LOG_LEVEL: 'off' },
      cwd: base,
      terminal: false,
      print: () => undefined,
    });
    const { url } = serving;
    const made = await bootstrap('--tenant', 'acme', '--workspace', 'ws');
    expect(made.code).toBe(0);
    const { apiKey } = JSON.parse(made.stdout) as { apiKey: string };
    const run = async () => {
      const response = await fetch(`${url}/v1/runs`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: 'demo',
          input: 'use bash {"command": "pwd"}',
          tools: [{ name: 'bash', kind: 'builtin' }],
          permissions: { allowlist: [{ tool: 'bash' }] },
        }),
      });
      return response.status === 200 ? response.text() : undefined;
    };
    expect(await run()).toContain(join(base, 'ws'));
  });

  it('reports a mistake in one line and creates nothing', async () => {
    mkdirSync(join(base, 'data/inner'), { recursive: true });
    for (const [folder, message] of [
      ['data/inner', 'and the data folder'],
      ['none', '--workspace: there is no folder'],
    ] as const) {
      const { code, stdout, stderr } = await bootstrap('--tenant', 'acme', '--workspace', folder);
      expect(code).toBe(1);
      expect(stdout).toBe('');
      expect(stderr).toContain(message);
      expect(stderr.trim().split('\n')).toHaveLength(1);
    }
  });
});
