/** `kill -9` of the real server while a command of its `bash` runs. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { requiresLinux } from '../support/requires.ts';
import { FrameReader } from '../support/frames.ts';
import { until } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';

const processesOf = (words: string): string[] =>
  readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(words);
    } catch {
      return false;
    }
  });

let base: string;
let server: TestServer;
beforeEach(async () => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'relay-kill-bash-')));
  mkdirSync(join(base, 'ws'));
  server = await new TestServer({ RELAY_WORKSPACE: join(base, 'ws') }).start();
});
afterEach(async () => {
  await server.dispose();
  rmSync(base, { recursive: true, force: true });
});

async function startBash(command: string, through = server) {
  const response = await through.request('/v1/runs', {
    body: {
      model: 'demo',
      input: `use bash ${JSON.stringify({ command })}`,
      tools: [{ name: 'bash', kind: 'builtin' }],
      permissions: { allowlist: [{ tool: 'bash' }] },
    },
  });
  return { runId: response.headers.get('x-run-id') ?? '', reader: new FrameReader(response) };
}

const unique = (): string => `${100_000 + Math.floor(Math.random() * 900_000)}.${Date.now()}`;
describe('kill -9 of the server while bash runs', requiresLinux(), () => {
  test(
    'ends the orphaned command, and requests an outcome approval',
    { timeout: 60_000 },
    async () => {
      const n = unique();
      const asleep = `sleep\0${n}`;
      const { runId, reader } = await startBash(
        `echo begun >> log; setsid sleep ${n} & sleep ${n}; echo done >> log`,
      );
      await until(async () => processesOf(asleep).length >= 2, 'the command to run');
      await server.kill();
      await reader.close().catch(() => undefined);

      await server.start();
      expect(processesOf(asleep)).toEqual([]);
      const approvals = async () => {
        const response = await server.request('/v1/approvals?status=pending');
        const { approvals: found } = (await response.json()) as {
          approvals: { id: string; kind: string; runId: string; tool: string }[];
        };
        return found;
      };
      await until(async () => (await approvals()).length === 1, 'the question about its outcome');
      const [approval] = await approvals();
      expect(approval).toMatchObject({ kind: 'outcome', runId, tool: 'bash' });
      const log = () => readFileSync(join(base, 'ws/log'), 'utf8');
      expect(log()).toBe('begun\n');

      const output = { exitCode: 1, note: 'it was ended' };
      await server.request(`/v1/approvals/${approval!.id}`, {
        body: { outcome: 'completed', output },
      });
      await until(async () => {
        const run = (await (await server.request(`/v1/runs/${runId}`)).json()) as {
          status: string;
        };
        return run.status === 'completed';
      }, 'the run to end');
      expect(log()).toBe('begun\n');
    },
  );

  test('does not end commands of a server that is still running', { timeout: 60_000 }, async () => {
    const n = unique();
    const { runId, reader } = await startBash(`sleep ${n}`);
    await until(async () => processesOf(`sleep\0${n}`).length > 0, 'the command to run');
    mkdirSync(join(base, 'other'));
    const other = await new TestServer({ RELAY_WORKSPACE: join(base, 'other') }).start();
    try {
      expect(processesOf(`sleep\0${n}`)).toHaveLength(1);
    } finally {
      await other.dispose();
    }
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    await until(async () => processesOf(`sleep\0${n}`).length === 0, 'the command to end');
    await reader.close().catch(() => undefined);
  });
});
