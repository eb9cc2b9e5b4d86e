/** A smoke test of the server on each store; its behaviour is tested on one of them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SystemStore } from '@relay/core';
import { createMemoryStore, openPostgresStore, openSqliteStore } from '@relay/store';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createDatabase } from '../../../../test/support/postgres.ts';
import { bootServer } from '../support/server.ts';
import { eventsOf, startRun, untilStatus } from '../support/requests.ts';

const stores: Readonly<Record<string, () => Promise<SystemStore>>> = {
  memory: async () => createMemoryStore(),
  SQLite: () => {
    const dir = mkdtempSync(join(tmpdir(), 'relay-stores-'));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    return openSqliteStore({ dir });
  },
  PostgreSQL: async () => {
    const database = await createDatabase();
    onTestFinished(() => database.drop());
    return openPostgresStore({ url: database.url });
  },
};

describe.each(Object.entries(stores))('a server on the %s store', (_name, open) => {
  it('starts, approves, resumes, lists, audits and remembers', async () => {
    const store = await open();
    onTestFinished(() => store.close());
    const first = await bootServer({ store });
    const headers = { 'idempotency-key': 'once' };
    const body = { input: 'notify the build is green', labels: { team: 'a' } };
    const { runId, reader } = await startRun(first, body, { headers });
    const { data: relay } = await reader.until('approval_requested');
    await first.stop();

    // A run that waits outlives its server.
    const server = await bootServer({ store });
    onTestFinished(() => server.stop());
    expect((await startRun(server, body, { headers })).runId).toBe(runId);
    const decision = { body: { approved: true, always: true, reason: 'Fine' } };
    const decided = await server.request(`/v1/approvals/${String(relay['id'])}`, decision);
    expect(decided.status).toBe(200);
    await untilStatus(server, runId, 'completed');
    expect(server.notes()).toHaveLength(1);
    const { events } = await eventsOf(server, runId);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)).toMatchObject({ type: 'run.ended', status: 'completed' });

    expect(await server.json('/v1/runs?label=team:a')).toMatchObject({ runs: [{ id: runId }] });
    expect(await server.json('/v1/approvals?status=approved')).toMatchObject({
      approvals: [{ runId }],
    });
    expect(await server.json(`/v1/audit?runId=${runId}`)).toMatchObject({
      entries: [
        { action: 'grant.created' },
        { action: 'approval.decided', why: 'Fine' },
        { action: 'run.started' },
      ],
    });
    const memory = { namespace: 'n', text: 'Ada drinks green tea' };
    expect((await server.request('/v1/memories', { body: memory })).ok).toBe(true);
    expect(await server.json('/v1/memories?namespace=n&q=tea')).toMatchObject({
      memories: [memory],
    });
  });
});
