/**
 * A program that has attached. It may be killed at any time: each frame, and each message that it consumes, is
 * on the disk before anything follows from it. It does not recognise what it had before; the file shows
 * whether it was told. Commands come as lines on standard input.
 */
import { existsSync, fsyncSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { readSse } from '@relay/protocol';
import { dropCutLine, readLines } from '../chaos/record.ts';
import type { Behaviour, Consigned } from '../chaos/deliveries.ts';
import { pause } from './serving.ts';

interface Frame {
  readonly type: string;
  readonly deliveryId: string;
  readonly message: { readonly id: string; readonly text: string };
  readonly attempt: number;
  readonly redelivered: boolean;
}

const path = process.env['RECIPIENT_FILE'] ?? '';
const handle = process.env['HANDLE'] ?? '';
const behaviour = process.env['BEHAVIOUR'] as Behaviour;
dropCutLine(path);
const before = readLines<Consigned>(path);
const file = openSync(path, 'a');
const tokenFile = `${path}.token`;
let urls: readonly string[] = [];
let key = '';
let place = 0;

function record(line: object): void {
  writeSync(file, `${JSON.stringify({ at: Date.now(), ...line })}\n`);
  fsyncSync(file);
}

/** Repeats a request until a server responds to it. */
async function insist(route: string, token: string, body?: object): Promise<Response> {
  for (;;) {
    const url = urls[(place += 1) % urls.length] ?? '';
    try {
      const response = await fetch(`${url}${route}`, {
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      });
      if (response.status < 500) return response;
    } catch {
      // The server is down.
    }
    await pause(20 + Math.random() * 50);
  }
}

interface Session {
  readonly id: string;
  readonly token: string;
}

/** With its token it continues its session. */
async function attach(): Promise<Session> {
  const known = existsSync(tokenFile)
    ? (JSON.parse(readFileSync(tokenFile, 'utf8')) as Session)
    : undefined;
  // Every other time it only connects again.
  if (known !== undefined && before.length % 2 === 0) return known;
  const response = await insist('/v1/sessions/attach', known?.token ?? key, {
    handle,
    identity: { name: handle, kind: 'program' },
    capabilities: {
      messaging: { receive: true },
      delivery: { modes: ['on-idle'], queue: true },
      events: { emits: ['status.changed'] },
      lifecycle: { release: false },
    },
  });
  const body = (await response.json()) as { session: { id: string }; token: string };
  if (!response.ok) throw new Error(`${response.status} ${JSON.stringify(body)}`);
  const session = { id: body.session.id, token: body.token };
  writeFileSync(tokenFile, JSON.stringify(session), { flush: true });
  return session;
}

let frames: Promise<void> = Promise.resolve();

/** One after the other, in the order in which they arrive. */
function take(session: Session, frame: Frame): void {
  const { deliveryId, message, attempt, redelivered } = frame;
  record({ kind: 'frame', deliveryId, text: message.text, attempt, redelivered });
  frames = frames.then(() => handleFrame(session, frame));
}

async function handleFrame(session: Session, frame: Frame): Promise<void> {
  const { deliveryId, redelivered } = frame;
  const number = Number(frame.message.text.split(' ').at(-1));
  await pause(Math.random() * 15);
  if (behaviour === 'fails' && number % 5 === 0) {
    await give(session, deliveryId, { status: 'failed', reason: 'cannot', retryable: true });
    return;
  }
  if (behaviour === 'defers' && number % 3 === 0 && !wasDeferred(deliveryId)) {
    deferred.add(deliveryId);
    record({ kind: 'deferred', deliveryId });
    const availableAt = new Date(Date.now() + 60).toISOString();
    await give(session, deliveryId, { status: 'deferred', availableAt, reason: 'not now' });
    return;
  }
  if (behaviour === 'slow') {
    // It was consumed before: the receipt had not come when it was sent again.
    if ((await give(session, deliveryId, { status: 'delivered' })) === 409) return;
    await pause(20);
  }
  record({ kind: 'consumed', deliveryId, redelivered });
  await pause(Math.random() * 10);
  await give(session, deliveryId, { status: 'consumed' });
}

const deferred = new Set<string>();

function wasDeferred(deliveryId: string): boolean {
  return (
    deferred.has(deliveryId) ||
    before.some((line) => line.kind === 'deferred' && line.deliveryId === deliveryId)
  );
}

interface Receipt {
  readonly status: string;
  readonly [field: string]: unknown;
}

/** The status of the response. */
async function give(session: Session, deliveryId: string, receipt: Receipt): Promise<number> {
  const route = `/v1/sessions/${session.id}/deliveries/${deliveryId}/receipt`;
  const response = await insist(route, session.token, receipt);
  const text = response.ok ? undefined : await response.text();
  const { status: code } = response;
  record({ kind: 'receipt', deliveryId, status: receipt.status, code, text });
  return code;
}

/** Of frames that are not marked. */
let first = 0;

async function follow(session: Session): Promise<void> {
  const response = await insist(`/v1/sessions/${session.id}/deliveries/stream`, session.token);
  if (!response.ok || response.body === null) {
    record({ kind: 'trouble', text: `${response.status} ${await response.text()}` });
    await pause(100);
    return;
  }
  for await (const { data } of readSse(response.body)) {
    const frame = JSON.parse(data) as Frame;
    if (frame.type !== 'delivery') continue;
    take(session, frame);
    if (frame.redelivered) continue;
    first += 1;
    // A second stream, while this one may still send: it replaces it.
    if (behaviour === 'twice' && first % 4 === 0) void follow(session).catch(() => undefined);
  }
}

async function live(): Promise<void> {
  const session = await attach();
  console.log(JSON.stringify({ said: 'ready', sessionId: session.id }));
  for (;;) {
    await follow(session).catch(() => undefined);
    await pause(Math.random() * 30);
  }
}

let isFirst = true;
for await (const line of createInterface({ input: process.stdin })) {
  ({ urls, key } = JSON.parse(line) as { urls: readonly string[]; key: string });
  if (isFirst) {
    live().catch((error: unknown) => {
      record({ kind: 'trouble', text: String(error) });
      process.exit(1);
    });
  }
  isFirst = false;
}
process.exit(0);
