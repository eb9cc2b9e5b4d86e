/** A decision is bound to the resolved paths of its call. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../../support/server.ts';
import { eventsOf, startRun } from '../../support/requests.ts';

let base = '';
let folder = '';
const closing: (() => Promise<void>)[] = [];
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'relay-located-')));
  folder = join(base, 'ws "b" ü');
  mkdirSync(folder);
  writeFileSync(join(folder, 'a.txt'), 'alpha\n');
  writeFileSync(join(folder, 'b.txt'), 'beta\n');
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  rmSync(base, { recursive: true, force: true });
});

async function boot(): Promise<TestServer> {
  const server = await bootServer({ env: { RELAY_WORKSPACE: folder } });
  closing.push(() => server.stop());
  return server;
}

async function asked(server: TestServer, filePath: string) {
  const { runId, reader } = await startRun(server, {
    input: `use read ${JSON.stringify({ filePath })}`,
    tools: [{ name: 'read', kind: 'builtin' }],
  });
  const { data } = await reader.until('approval_requested');
  return { runId, reader, approvalId: String(data['id']) };
}

const approval = (server: TestServer, id: string) => server.json(`/v1/approvals/${id}`);
const decide = (server: TestServer, id: string, body: object) =>
  server.request(`/v1/approvals/${id}`, { body });

describe('a decision about a path', () => {
  it('a call whose symlink changed after its approval requires a new approval', async () => {
    const server = await boot();
    const link = join(folder, 'link');
    symlinkSync('a.txt', link);
    const { runId, reader, approvalId } = await asked(server, 'link');
    const shown = await approval(server, approvalId);
    expect(shown).toMatchObject({ resolvedPaths: { filePath: join(folder, 'a.txt') } });
    rmSync(link);
    symlinkSync('b.txt', link);
    await decide(server, approvalId, { approved: true });
    const next = String((await reader.until('approval_requested')).data['id']);
    const again = await approval(server, next);
    expect(again).toMatchObject({
      status: 'pending',
      resolvedPaths: { filePath: join(folder, 'b.txt') },
    });
    expect(again['digest']).not.toBe(shown['digest']);
    const { events } = await eventsOf(server, runId);
    expect(events.map(({ type }) => type)).not.toContain('tool.started');
    await decide(server, next, { approved: true });
    expect(JSON.stringify(await reader.rest())).toContain('beta');
  });

  it('edited arguments are bound to the paths that they resolve to', async () => {
    const server = await boot();
    const { runId, reader, approvalId } = await asked(server, 'a.txt');
    const { digest } = await approval(server, approvalId);
    await decide(server, approvalId, { approved: true, input: { filePath: './b.txt' } });
    expect(JSON.stringify(await reader.rest())).toContain('beta');
    const { events } = await eventsOf(server, runId);
    const decided = events.find(({ type }) => type === 'approval.decided');
    expect(decided).toMatchObject({ resolvedPaths: { filePath: join(folder, 'b.txt') } });
    expect((decided as unknown as { digest: string }).digest).not.toBe(digest);
    expect(events.find(({ type }) => type === 'tool.started')).toMatchObject({
      resolvedPaths: { filePath: join(folder, 'b.txt') },
    });
  });
});
