/**
 * The limit of an approval: a request stores one row, durably, and emits an event; the tool starts
 * with the event. A run that waits is an id in a set. In SQLite, or in PostgreSQL if there is a URL.
 */
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { Client } from 'pg';
import { announce, reportToolStart } from './process.ts';

const insert = await openTable(process.env['RELAY_DATABASE_URL']);
const waiting = new Set<string>();
const events = new EventEmitter();
events.on('approved', reportToolStart);

async function openTable(url?: string): Promise<(id: string, body: string) => Promise<void>> {
  const table = 'CREATE TABLE bench_decisions (id TEXT PRIMARY KEY, body TEXT)';
  if (url !== undefined) {
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query(table);
    return async (id, body) => {
      const values = [id, body];
      await client.query({
        name: 'insert',
        text: 'INSERT INTO bench_decisions VALUES ($1, $2)',
        values,
      });
    };
  }
  const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  const db = new DatabaseSync(join(dir, 'bare.db'));
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
  db.exec(table);
  const insert = db.prepare('INSERT INTO bench_decisions VALUES (?, ?)');
  return async (id, body) => {
    insert.run(id, body);
  };
}

const server = createServer((request, response) => {
  void text(request).then(async (body) => {
    const [, id] = /^\/v1\/approvals\/(.+)$/.exec(request.url ?? '') ?? [];
    if (id === undefined) {
      // As one string: `randomUUID` returns a chain of its pieces, which takes more memory.
      const newId = Buffer.from(randomUUID()).toString('latin1');
      waiting.add(newId);
      response.write(`{"type":"run","id":"${newId}"}`);
      response.end(`{"type":"approval_requested","id":"${newId}"}`);
      return;
    }
    if (waiting.delete(id)) {
      await insert(id, body);
      events.emit('approved', id);
    }
    response.end('{}');
  });
});
announce(server);
