import { expect, test } from 'vitest';
import { values } from '../support/cli.ts';
import { cliFixture, waitingNote } from './fixture.ts';

const fixture = cliFixture();
const { run } = fixture;

async function finished(input: string): Promise<string> {
  const { id } = await (await fixture.client.runs.create({ model: 'demo', input })).result();
  return id;
}

test('runs list prints a table, or one JSON value per line', async () => {
  const ids = [await finished('say 2'), await finished('say 3')];
  const table = await run('runs', 'list');
  expect(table.code).toBe(0);
  const [head, ...rows] = table.out.trimEnd().split('\n');
  expect(head).toMatch(/^RUN +STATUS +AGENT +MODEL +CREATED +INPUT$/);
  expect(rows[0]).toMatch(new RegExp(`^${ids[1]} +completed +assistant +demo +.*say 3$`));
  const listed = values<{ id: string; status: string }>(await run('runs', 'list', '--json'));
  expect(listed.slice(0, 2).map(({ id }) => id)).toEqual(ids.toReversed());
  expect(table.out).not.toContain('\u001B');
});

test('runs list filters, and notes on standard error that there are no results', async () => {
  await finished('say 1');
  expect(values(await run('runs', 'list', '--limit', '1', '--json'))).toHaveLength(1);
  const none = await run('runs', 'list', '--status', 'failed');
  expect(none).toMatchObject({ code: 0, out: '' });
  expect(none.err).toContain('No matching runs.');
  expect(values(await run('runs', 'list', '--since', '1h', '--json')).length).toBeGreaterThan(0);
  expect(values(await run('runs', 'list', '--until', '1h', '--json'))).toEqual([]);
  expect(await run('runs', 'list', '--status', 'tired')).toMatchObject({ code: 2, out: '' });
  expect(await run('runs', 'list', '--limit', '0')).toMatchObject({ code: 2 });
});

test('runs list reads several pages for a large limit', async () => {
  const { server } = fixture;
  const started = await Promise.all(
    Array.from({ length: 205 }, () =>
      server.request('/v1/runs', {
        body: { model: 'demo', input: 'say 1', labels: { batch: 'many' } },
      }),
    ),
  );
  await Promise.all(started.map((response) => response.text()));
  const all = await run('runs', 'list', '--label', 'batch:many', '--limit', '1000', '--json');
  expect(new Set(values<{ id: string }>(all).map(({ id }) => id)).size).toBe(205);
}, 60_000);

test('runs show prints a run, and its journal with --events', async () => {
  const id = await finished('say 4');
  const shown = await run('runs', 'show', id);
  for (const text of [id, 'completed', '1 2 3 4', 'say 4']) expect(shown.out).toContain(text);
  const [one, ...events] = values<{ id?: string; type?: string; seq?: number }>(
    await run('runs', 'show', id, '--events', '--json'),
  );
  expect(one?.id).toBe(id);
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.at(-1)?.type).toBe('run.ended');
  expect((await run('runs', 'show', id, '--events')).out).toContain('run.ended');
});

test('runs tail follows a run, and exits with its outcome', async () => {
  const good = await finished('say 5');
  const tail = await run('runs', 'tail', good);
  expect(tail).toMatchObject({ code: 0, out: '1 2 3 4 5\n' });
  const events = values<{ type: string; seq: number }>(await run('runs', 'tail', good, '--json'));
  expect(events.at(-1)).toMatchObject({ type: 'done', status: 'completed' });
  const { seq } = events[2] ?? { seq: 0 };
  const rest = values(await run('runs', 'tail', good, '--after', String(seq), '--json'));
  expect(rest).toEqual(events.slice(3));
  const bad = await fixture.server.request('/v1/runs', {
    body: { model: 'demo', input: 'fail 400' },
  });
  const failed = await run('runs', 'tail', bad.headers.get('x-run-id') ?? '');
  expect(failed.code).toBe(7);
  expect(failed.err).toMatch(/relay: .*400.* \[provider_rejected\]/);
  // The error is printed only once, on standard error.
  expect(failed.out).toBe('');
});

test('runs can be canceled, resumed and forked', async () => {
  const { runId } = await waitingNote(fixture, 'cancel me');
  const resumed = values<{ status: string }>(await run('runs', 'resume', runId, '--json'));
  expect(resumed[0]?.status).toBe('waiting');
  const canceled = await run('runs', 'cancel', runId);
  expect(canceled).toMatchObject({ code: 0, out: `Canceling ${runId}.\n` });
  expect((await run('runs', 'tail', runId)).code).toBe(7);
  const again = await run('runs', 'resume', runId);
  expect(again.code).toBe(5);
  expect(again.err).toContain('[run_ended] – continue from it with "relay runs fork ID"');
  const id = await finished('say 1');
  expect((await run('runs', 'cancel', id)).out).toBe(`${id} has already ended: completed.\n`);
  const fork = await run('runs', 'fork', id, '--input', 'say 6', '--follow', '--json');
  const [made, ...events] = values<{ forkedFrom?: { runId: string }; type?: string }>(fork);
  expect(made?.forkedFrom?.runId).toBe(id);
  expect(events.at(-1)).toMatchObject({ type: 'done', output: '1 2 3 4 5 6' });
});

test('a run that does not exist exits with 3 and prints one line', async () => {
  const missing = await run('runs', 'show', '01234567-89ab-7def-8123-456789abcdef');
  expect(missing).toMatchObject({ code: 3, out: '', err: 'relay: No such run [not_found]\n' });
  const json = await run('runs', 'show', '01234567-89ab-7def-8123-456789abcdef', '--json');
  expect(JSON.parse(json.err)).toEqual({ error: 'No such run', code: 'not_found' });
  expect(json).toMatchObject({ code: 3, out: '' });
});
