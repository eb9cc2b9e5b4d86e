/** `GET /v1/audit/export`: JSON lines that verify by themselves and continue by cursor. */
import type { AuditLine } from '@relay/protocol/wire';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type ExportVerdict, HeadSigner, verifyExport } from '../../../src/audit/export.ts';
import { addKey, bootServer, type TestServer } from '../../support/server.ts';

type Head = Extract<AuditLine, { type: 'head' }>;

async function boot(): Promise<TestServer> {
  const server = await bootServer();
  onTestFinished(() => server.stop());
  return server;
}

async function linesOf(server: TestServer, query = ''): Promise<string[]> {
  const response = await server.request(`/v1/audit/export${query}`);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('application/x-ndjson');
  return (await response.text()).trimEnd().split('\n');
}

const headOf = (lines: readonly string[]) => JSON.parse(lines.at(-1) ?? '') as Head;
const seqsOf = (lines: readonly string[]) =>
  lines.slice(0, -1).map((line) => (JSON.parse(line) as { seq: number }).seq);

async function* each(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

function verify(lines: readonly string[], known = {}): Promise<ExportVerdict> {
  return verifyExport(each(lines), known);
}

async function addEntries(server: TestServer, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    await server.json('/v1/keys', { body: { name: `k${n}`, role: 'viewer' } });
  }
}

describe('the export of the audit trail', () => {
  it('ends with a head that the public key of the trail verifies', async () => {
    const server = await boot();
    await addEntries(server, 3);
    const lines = await linesOf(server);
    expect(seqsOf(lines)).toEqual([1, 2, 3]);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      type: 'entry',
      action: 'key.created',
      who: { type: 'key', role: 'admin' },
    });
    const { seq, hash, publicKey } = (await server.json('/v1/audit/head')) as unknown as Head;
    expect(headOf(lines)).toMatchObject({ seq, hash, publicKey, after: { seq: 0 } });
    expect(await verify(lines, { publicKey })).toMatchObject({ ok: true, entries: 3 });
  });

  it('continues exactly after a cursor, while entries are written', async () => {
    const server = await boot();
    const all: number[] = [];
    let cursor: string | undefined;
    const writing = addEntries(server, 12);
    for (let round = 0; round < 6; round += 1) {
      const after = cursor === undefined ? '' : `&after=${cursor}`;
      const lines = await linesOf(server, `?limit=3${after}`);
      expect(await verify(lines, { after: cursor })).toMatchObject({ ok: true });
      all.push(...seqsOf(lines));
      cursor = headOf(lines).cursor;
      if (round === 2) await writing;
    }
    expect(all).toEqual(Array.from(all, (_, index) => index + 1));
    all.push(...seqsOf(await linesOf(server, `?after=${cursor}`)));
    expect(all).toEqual(Array.from({ length: 12 }, (_, index) => index + 1));
  });

  it('is complete over several pages, and empty after its end', async () => {
    const server = await boot();
    await addEntries(server, 450);
    const lines = await linesOf(server);
    expect(await verify(lines)).toMatchObject({ ok: true, entries: 450 });
    const rest = await linesOf(server, `?after=${headOf(lines).cursor}`);
    expect(rest).toHaveLength(1);
    expect(await verify(rest, { after: headOf(lines).cursor })).toMatchObject({ ok: true });
  });

  it('is found out when a line is changed, removed, moved or added, or the head is another', async () => {
    const server = await boot();
    await addEntries(server, 4);
    const lines = await linesOf(server);
    const [a = '', b = '', c = '', d = '', head = ''] = lines;
    const { publicKey } = new HeadSigner(Buffer.alloc(32, 7));
    for (const changed of [
      [b, c, d, head],
      [a, c, d, head],
      [a, b, c, head],
      [a, b, c, d],
      [b, a, c, d, head],
      [a, b, b, c, d, head],
      [a, b, c, d, head, a],
      [a, b.replaceAll('k1', 'kX'), c, d, head],
      [a, b.replace('"action":"key.created"', '"action":"key.revoked"'), c, d, head],
      [a, b, c, d, head.replace('"seq":4', '"seq":3')],
      [a, b, 'x', c, d, head],
    ]) {
      expect(await verify(changed)).toMatchObject({ ok: false });
    }
    expect(await verify(lines)).toMatchObject({ ok: true });
    expect(await verify(lines, { publicKey })).toMatchObject({ ok: false });
    expect(await verify(lines, { after: headOf(lines).cursor })).toMatchObject({ ok: false });
  });

  it('refuses a cursor that the trail does not contain', async () => {
    const server = await boot();
    await addEntries(server, 2);
    const { cursor } = headOf(await linesOf(server));
    const refused = [
      cursor.replace(/^2/, '1'),
      cursor.replace(/^2/, '9'),
      `2.${'0'.repeat(64)}`,
      `0.${'0'.repeat(64)}`,
    ];
    for (const after of refused) {
      const response = await server.request(`/v1/audit/export?after=${after}`);
      expect([after, response.status]).toEqual([after, 409]);
      expect(await response.json()).toMatchObject({ code: 'cursor_past_end' });
    }
    expect((await server.request('/v1/audit/export?after=1')).status).toBe(400);
  });

  it('contains nothing of another tenant', async () => {
    const server = await boot();
    await addEntries(server, 2);
    const { apiKey: key } = await addKey(server.store, { tenant: 'stranger' });
    const text = await (await server.request('/v1/audit/export', { key })).text();
    expect(text.trimEnd().split('\n')).toHaveLength(1);
  });
});
