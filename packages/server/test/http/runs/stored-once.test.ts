/** The answer of a run is stored once, and every reader sees it. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { unpackJson } from '../../../../store/src/codec/compression.ts';
import { bootServer, type TestServer } from '../../support/server.ts';
import { eventsOf, finishedRun } from '../../support/requests.ts';

/** How often a text occurs in what the tables hold. */
function countInTables(database: DatabaseSync, text: string): number {
  const names = database.prepare(`SELECT name FROM sqlite_master WHERE type = 'table'`).all();
  const values = names.flatMap(({ name }) =>
    database
      .prepare(`SELECT * FROM "${String(name)}"`)
      .all()
      .flatMap(({ deflated, ...row }) => [
        ...Object.values(row),
        deflated instanceof Uint8Array ? unpackJson(deflated, Number(row['size'])) : deflated,
      ]),
  );
  return values.reduce<number>((sum, value) => sum + String(value).split(text).length - 1, 0);
}

describe('the answer of a run', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer({ kind: 'sqlite' });
    return () => server.stop();
  });

  function open(): DatabaseSync {
    const database = new DatabaseSync(join(server.config.dataDir, 'relay.db'));
    onTestFinished(() => database.close());
    return database;
  }

  it('is in the tables once', async () => {
    const { runId } = await finishedRun(server, { input: 'say 40' });
    const { output } = await server.json(`/v1/runs/${runId}`);
    // The demo model streams words, and several commits may store them.
    const last = String(output).slice(-12);
    expect(last).toContain('40');
    expect(countInTables(open(), last)).toBe(1);
  });

  it.each(['say 3', 'say 1500'])('is the same for all readers: %s', async (input) => {
    const { runId } = await finishedRun(server, { input });
    const { events } = await eventsOf(server, runId);
    const end = events.at(-1);
    const deltas = events.filter(({ type }) => type === 'text.appended');
    const output = deltas.map((event) => event['text']).join('');
    expect(end).toMatchObject({ type: 'run.ended', output });
    expect(await server.json(`/v1/runs/${runId}`)).toMatchObject({ output });
    const [, ...frames] = await framesAfter(runId, 0);
    const done = frames.at(-1);
    expect(done).toMatchObject({ type: 'done', output });
    // A client that reconnects after the last delta.
    expect(await framesAfter(runId, Number(deltas.at(-1)?.['seq']))).toEqual([done]);
    expect(await framesAfter(runId, Number(end?.['seq']) - 1)).toEqual([done]);
  });

  it('is read from the row of a run that was stored with it', async () => {
    const { runId } = await finishedRun(server, { input: 'say 2' });
    const database = open();
    const stored = JSON.stringify({ output: 'stored here', approvals: [] });
    database
      .prepare('UPDATE runs SET answer_seq = NULL, output_json = ? WHERE id = ?')
      .run(stored, runId);
    expect(await server.json(`/v1/runs/${runId}`)).toMatchObject({ output: 'stored here' });
    const { runs } = (await server.json('/v1/runs?limit=1')) as { runs: unknown[] };
    expect(runs).toMatchObject([{ id: runId, output: 'stored here' }]);
  });

  async function framesAfter(runId: string, seq: number): Promise<Record<string, unknown>[]> {
    const headers = { 'last-event-id': String(seq) };
    const response = await server.request(`/v1/runs/${runId}/stream`, { headers });
    return (await response.text())
      .split('\n')
      .filter((line) => line.startsWith('data: '))
      .map((line) => JSON.parse(line.slice(6)) as Record<string, unknown>);
  }
});
