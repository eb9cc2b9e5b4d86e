import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { processesWith } from '../../packages/harnesses/test/acp/agent-fixture.ts';
import { cliFixture } from './fixture.ts';

const workspace = mkdtempSync(join(tmpdir(), 'relay-workspace-'));
mkdirSync(join(workspace, 'app'));
afterAll(() => rmSync(workspace, { recursive: true, force: true }));

const { run } = cliFixture({
  RELAY_WORKSPACE: workspace,
  // It hides a clone that is below /tmp.
  RELAY_SANDBOX: 'off',
  RELAY_CONFIG: 'test/support/configs/hostile-agents.config.ts',
});

test('sessions start with --handle starts an agent of a harness, and waits until it is ready', async () => {
  const start = ['sessions', 'start', 'well-behaved', '--handle', '@reviewer'];
  const started = await run(...start, '--workspace', 'app');
  expect(started).toMatchObject({ code: 0, err: '' });
  expect(started.out).toContain('@reviewer is idle');
  const shown = await run('sessions', 'show', 'reviewer');
  expect(shown.out).toMatch(/harness +well-behaved/);
  expect(shown.out).toMatch(/workspace +app/);
  expect(processesWith('HOSTILE_KEY=hunter22').length).toBeGreaterThan(0);
  await run('sessions', 'release', 'reviewer');
  await expect.poll(() => processesWith('HOSTILE_KEY=hunter22'), { timeout: 10_000 }).toEqual([]);
});

test('sessions start says why an agent has failed', async () => {
  const start = (harness: string) =>
    run('sessions', 'start', harness, '--handle', harness.replaceAll('-', ''));
  const refused = await start('refuses-sessions');
  expect(refused).toMatchObject({ code: 1, out: '' });
  expect(refused.err).toContain('@refusessessions: ');
  expect(refused.err).toContain('relay credentials set PROVIDER');
  expect(refused.err).toContain('No more sessions for [redacted]');
  const exited = await start('exits-in-initialize');
  expect(exited.err).toContain('The agent exited with code 1: You are not logged in');
  const ended = await start('exits');
  expect(ended).toMatchObject({ code: 1, out: '' });
  expect(ended.err).toContain('@exits: The program exited with code 3');
  const absent = await start('absent');
  expect(absent.err).toContain(
    'The program claude-agent-acp-absent is not installed on the server: npm install -g @agentclientprotocol/claude-agent-acp',
  );
  expect(processesWith('HOSTILE_KEY=hunter22')).toEqual([]);
});

test('sessions start takes the harness once', async () => {
  const both = await run('sessions', 'start', 'a', '--handle', 'b', '--harness', 'c');
  expect(both.code).toBe(2);
  expect(both.err).toContain('relay sessions start c --handle b');
});

test('sessions start takes a workspace only for a harness', async () => {
  const native = await run('sessions', 'start', 'reviewer', '--workspace', 'app');
  expect(native.code).toBe(2);
  expect(native.err).toContain('relay sessions start claude --handle reviewer --workspace app');
});
