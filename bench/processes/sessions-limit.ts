/**
 * The limit of sessions: a bare server that relays messages. Each step that must survive a crash is one
 * row in SQLite, with a commit of its own: a message is stored, it is consumed, an agent has answered.
 * A session is its handle and its open stream.
 */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, createServer, request, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { announce } from './process.ts';

interface Session {
  readonly id: string;
  readonly model: string | undefined;
  stream?: ServerResponse;
}

const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
const db = new DatabaseSync(join(dir, 'bare.db'));
db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
db.exec('CREATE TABLE messages (id TEXT PRIMARY KEY, text TEXT, status TEXT, answer TEXT)');
const insert = db.prepare(`INSERT INTO messages VALUES (?, ?, 'accepted', NULL)`);
const consume = db.prepare(`UPDATE messages SET status = 'consumed' WHERE id = ?`);
const settle = db.prepare('UPDATE messages SET answer = ? WHERE id = ?');

const byHandle = new Map<string, Session>();
const byId = new Map<string, Session>();
const agent = new Agent({ keepAlive: true });

function emit({ stream }: Session, frame: object): void {
  stream?.write(`data: ${JSON.stringify(frame)}\n\n`);
}

function answerOf(model: string, content: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const port = process.env['BENCH_PROVIDER_PORT'];
  const path = '/v1/chat/completions';
  const asked = request({ host: '127.0.0.1', port, path, method: 'POST', agent });
  asked.once('error', reject);
  asked.once('response', (response) => void text(response).then(resolve, reject));
  asked.end(JSON.stringify({ model, stream: true, messages: [{ role: 'user', content }] }));
  return promise;
}

async function deliver(session: Session, messageId: string, content: string): Promise<void> {
  const { model } = session;
  if (model === undefined) {
    emit(session, { type: 'delivery', deliveryId: messageId, message: { text: content } });
    return;
  }
  consume.run(messageId);
  emit(session, { type: 'message.received', messageId });
  settle.run(await answerOf(model, content), messageId);
  emit(session, { type: 'status.changed', status: 'idle' });
}

interface Body {
  readonly handle?: string;
  readonly model?: string;
  readonly to?: string;
  readonly text?: string;
}

function answer(path: string, { handle, model, to, text: content = '' }: Body): object {
  if (path === '/v1/messages') {
    const id = randomUUID();
    insert.run(id, content);
    const session = byHandle.get(to?.slice(1) ?? '');
    if (session !== undefined) setImmediate(() => void deliver(session, id, content));
    return { id };
  }
  const [, deliveryId] = /^\/v1\/sessions\/[^/]+\/deliveries\/([^/]+)\/receipt$/.exec(path) ?? [];
  if (deliveryId !== undefined) {
    consume.run(deliveryId);
    return { id: deliveryId };
  }
  const session: Session = { id: randomUUID(), model };
  byHandle.set(handle ?? '', session);
  byId.set(session.id, session);
  return path.endsWith('/attach') ? { session: { id: session.id }, token: 'none' } : session;
}

const server = createServer((asked, response) => {
  const path = asked.url ?? '';
  const [, sessionId] = /^\/v1\/sessions\/([^/]+)\/(?:deliveries\/)?stream/.exec(path) ?? [];
  const session = byId.get(sessionId ?? '');
  if (session !== undefined) {
    session.stream = response;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(': open\n\n');
    return;
  }
  void text(asked).then((body) => {
    response.end(JSON.stringify(answer(path, JSON.parse(body) as Body)));
  });
});
announce(server);
