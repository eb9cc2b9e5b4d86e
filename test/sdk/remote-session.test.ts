/** Programs that serve a session: receipts, commands, reconnects, and what they declare. */
import {
  type AgentStatus,
  type Delivery,
  type DeliveryMode,
  type ReceivedMessage,
  RelayApiError,
  type RemoteSession,
  type ServeOptions,
  type SessionMessage,
  type StoredSessionEvent,
} from '@relay/sdk';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type InProcessServer, startInProcess } from './environment.ts';

let server: InProcessServer;
beforeAll(async () => {
  server = await startInProcess();
});
const open: RemoteSession[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((session) => session.close()));
});
afterAll(() => server.dispose());

let handles = 0;
const fresh = () => `program-${(handles += 1)}`;

async function serve(
  options: Partial<ServeOptions> = {},
  client = server.client,
): Promise<RemoteSession> {
  const session = await client.sessions.serve({
    handle: fresh(),
    onMessage: () => undefined,
    ...options,
  });
  open.push(session);
  return session;
}

const send = (session: { readonly handle: string }, text = 'Hi', mode?: DeliveryMode) =>
  server.client.messages.send({
    to: `@${session.handle}`,
    text,
    ...(mode === undefined ? {} : { mode }),
  });

/** The delivery when it is settled. */
async function settled({ id }: SessionMessage): Promise<Delivery | undefined> {
  const [delivery] = await server.client.messages.deliveries(id, {
    wait: 'consumed',
    waitMs: 20_000,
  });
  return delivery;
}

async function journalOf({ id }: { readonly id: string }): Promise<StoredSessionEvent[]> {
  const events: StoredSessionEvent[] = [];
  for await (const event of server.client.sessions.events(id)) events.push(event);
  return events;
}

const statusOf = async ({ id }: RemoteSession) => (await server.client.sessions.get(id)).status;
const until = (status: AgentStatus, session: RemoteSession) =>
  expect.poll(() => statusOf(session), { timeout: 10_000 }).toBe(status);

function gate() {
  let pass = () => {};
  const passed = new Promise<void>((resolve) => (pass = resolve));
  return { pass: () => pass(), passed };
}

describe('what a program declares', () => {
  test('is what its handlers implement', async () => {
    verifies('004:shape:release-false-omits-method');
    const least = await serve();
    const { capabilities, identity } = await server.client.sessions.get(least.id);
    expect(identity).toEqual({ handle: least.handle, name: least.handle, kind: 'program' });
    expect(capabilities).toMatchObject({
      delivery: { modes: ['on-idle', 'manual'], queue: true },
      events: { emits: ['status.changed'] },
      lifecycle: { release: false, pause: false, resume: false, fork: false, snapshot: false },
    });
    const most = await serve({
      onInterrupt: () => undefined,
      onRelease: () => undefined,
      onPause: () => undefined,
      onResume: () => undefined,
      capabilities: { events: { emits: ['log'] }, messaging: { attachments: ['image'] } },
    });
    expect((await server.client.sessions.get(most.id)).capabilities).toMatchObject({
      messaging: { receive: true, send: true, attachments: ['image'] },
      delivery: { modes: ['on-idle', 'immediate', 'manual'] },
      events: { emits: ['log'] },
      lifecycle: { release: true, pause: true, resume: true, fork: false, snapshot: false },
    });
  });

  const handler = () => undefined;
  test.each<[string, Partial<ServeOptions>, object]>([
    [
      'a release without onRelease',
      { capabilities: { lifecycle: { release: true } } },
      { path: 'lifecycle.release', asked: true, offered: false },
    ],
    [
      'no release with onRelease',
      { onRelease: handler, capabilities: { lifecycle: { release: false } } },
      { path: 'lifecycle.release', asked: false, offered: true },
    ],
    [
      'a snapshot without onSnapshot',
      { capabilities: { lifecycle: { snapshot: true } } },
      { path: 'lifecycle.snapshot', asked: true, offered: false },
    ],
    [
      'immediate without onInterrupt',
      { capabilities: { delivery: { modes: ['immediate'] } } },
      { path: 'delivery.modes', asked: 'immediate', offered: ['on-idle', 'manual'] },
    ],
    [
      'no immediate with onInterrupt',
      { onInterrupt: handler, capabilities: { delivery: { modes: ['on-idle'] } } },
      { path: 'delivery.modes', asked: 'immediate' },
    ],
    [
      'a boundary that handlers do not have',
      { capabilities: { delivery: { modes: ['next-tool-call'] } } },
      { path: 'delivery.modes', asked: 'next-tool-call', offered: ['on-idle', 'manual'] },
    ],
  ])('is refused before anything is attached: %s', async (_name, options, capability) => {
    verifies('004:shape:declare-implemented-only', '004:shape:release-needs-method');
    const before = server.lines.length;
    await expect(serve(options)).rejects.toMatchObject({
      code: 'capability_missing',
      capability,
    });
    expect(server.lines.slice(before)).toEqual([]);
  });
});

describe('messages to a program', () => {
  test('are handled one at a time and in order, and consumed when their handler is done', async () => {
    verifies('004:messaging:direct', '004:status:active', '004:status:idle');
    const first = gate();
    const seen: string[] = [];
    const session = await serve({
      async onMessage({ text, redelivered, attempt }) {
        seen.push(`${text} ${attempt} ${redelivered}`);
        if (text === 'one') await first.passed;
        seen.push(`${text} done`);
      },
    });
    const sent = [await send(session, 'one'), await send(session, 'two')];
    await until('active', session);
    const [one] = await server.client.messages.deliveries(sent[0]?.id ?? '', { wait: 'delivered' });
    expect(one?.status).toBe('delivered');
    first.pass();
    const deliveries = await Promise.all(sent.map(settled));
    expect(deliveries).toMatchObject([{ status: 'consumed' }, { status: 'consumed' }]);
    expect(seen).toEqual(['one 1 false', 'one done', 'two 1 false', 'two done']);
    await until('idle', session);
    const received = (await journalOf(session)).filter(({ type }) => type === 'message.received');
    expect(received).toMatchObject(sent.map(({ id }) => ({ messageId: id })));
  });

  test('are deferred or failed as the handler says, and failed if it throws', async () => {
    const errors: unknown[] = [];
    const seen: string[] = [];
    const session = await serve({
      onError: (error) => errors.push(error),
      onMessage({ text, redelivered }) {
        seen.push(`${text} ${redelivered}`);
        if (text === 'no') return { status: 'failed', reason: 'Not mine', retryable: true };
        if (text === 'bad') throw new Error('Broken');
        if (text === 'later' && !redelivered) {
          const availableAt = new Date(Date.now() + 50).toISOString();
          return { status: 'deferred', availableAt, reason: 'In a meeting' };
        }
        return undefined;
      },
    });
    const [no, bad, later] = [
      await send(session, 'no'),
      await send(session, 'bad'),
      await send(session, 'later'),
    ];
    expect(await settled(no)).toMatchObject({
      status: 'failed',
      error: { code: 'Not mine', retryable: true },
    });
    expect(await settled(bad)).toMatchObject({ status: 'failed', error: { code: 'Broken' } });
    expect(await settled(later)).toMatchObject({ status: 'consumed', attempts: 2 });
    expect(seen).toEqual(['no false', 'bad false', 'later false', 'later true']);
    expect(errors).toEqual([new Error('Broken')]);
    // The same delivery, and the handler decides anew.
    await server.client.deliveries.redeliver((await settled(bad))?.id ?? '');
    await expect.poll(() => seen.length).toBe(5);
  });

  test('are answered in their thread, and sent to others as the session', async () => {
    verifies('004:messaging:send', '004:messaging:thread');
    const answers: ReceivedMessage[] = [];
    const asker = await serve({ onMessage: (message) => void answers.push(message) });
    const session = await serve({
      async onMessage({ text }, { reply }) {
        await reply(`You said ${text}`);
      },
    });
    const question = await asker.send({ to: `@${session.handle}`, text: 'hello' });
    expect((await settled(question))?.status).toBe('consumed');
    await expect.poll(() => answers.length).toBe(1);
    expect(answers[0]).toMatchObject({
      text: 'You said hello',
      replyTo: question.id,
      from: { type: 'session', name: session.handle },
    });
    const handles: string[] = [];
    for await (const { identity } of session.peers()) handles.push(identity.handle);
    expect(handles).toEqual(expect.arrayContaining([asker.handle, session.handle]));
  });

  test('are read by their sender and recipients only', async () => {
    const [session, stranger] = [await serve(), await serve()];
    const { id } = await send(session);
    const read = (token = '') => server.clientWith(token).messages.get(id);
    expect((await read(session.token)).id).toBe(id);
    await expect(read(stranger.token)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('interrupt a handler that runs if they are immediate and the program takes that', async () => {
    verifies('004:delivery:immediate-interrupts');
    const first = gate();
    const seen: string[] = [];
    const session = await serve({
      async onMessage({ text }) {
        seen.push(text);
        if (text === 'work') await first.passed;
      },
      onInterrupt: ({ text }) => void seen.push(`!${text}`),
    });
    const work = await send(session, 'work');
    await until('active', session);
    const later = await send(session, 'later');
    const stop = await send(session, 'stop', 'immediate');
    expect((await settled(stop))?.status).toBe('consumed');
    first.pass();
    expect([await settled(work), await settled(later)]).toMatchObject([
      { status: 'consumed' },
      { status: 'consumed' },
    ]);
    expect(seen).toEqual(['work', '!stop', 'later']);
  });
});

describe('events of a program', () => {
  test('are stored in order, between the statuses around the handler', async () => {
    verifies('004:events:explicit');
    const session = await serve({
      capabilities: { events: { emits: ['status.changed', 'log'] } },
      async onMessage(_, { session: self }) {
        await self.emit({ type: 'log', level: 'info', message: 'one' });
        await self.emit([
          { type: 'log', level: 'info', message: 'two' },
          { type: 'log', level: 'info', message: 'three' },
        ]);
      },
    });
    await send(session);
    await session.journal.waitFor({ type: 'status.idle' });
    const reported = (await journalOf(session)).flatMap((event) => {
      if (event.type === 'log') return event.message;
      return event.type === 'status.changed' ? event.status : [];
    });
    expect(reported.slice(-5)).toEqual(['active', 'one', 'two', 'three', 'idle']);
    const undeclared = session.emit({ type: 'terminal.output', text: 'x' });
    await expect(undeclared).rejects.toMatchObject({
      code: 'event_undeclared',
      capability: { path: 'events.emits' },
    });
  });

  test('are stored once, although the response is lost', async () => {
    let isLost = false;
    const client = server.clientWith(server.apiKey, {
      before: (url, init) => {
        isLost ||= url.endsWith('/events');
        return init;
      },
      after: (response) => {
        if (!isLost || lost.length > 0) return response;
        lost.push(response.status);
        throw new TypeError('fetch failed');
      },
    });
    const lost: number[] = [];
    const session = await serve({ capabilities: { events: { emits: ['log'] } } }, client);
    await session.emit({ type: 'log', level: 'info', message: 'once' });
    expect(lost).toEqual([200]);
    // The same event, reported again on purpose, is another one.
    await session.emit({ type: 'log', level: 'info', message: 'once' });
    const logs = (await journalOf(session)).filter(({ type }) => type === 'log');
    expect(logs).toHaveLength(2);
  });
});

describe('the status of a program', () => {
  test('is waiting while its handler says so', async () => {
    verifies('004:status:waiting');
    const answered = gate();
    const session = await serve({
      async onMessage(_, { session: self }) {
        await self.emit({ type: 'status.changed', status: 'waiting', reason: 'For a review' });
        await answered.passed;
      },
    });
    await send(session);
    const { reason } = await session.journal.waitFor({ type: 'status.waiting' });
    expect([reason, await statusOf(session)]).toEqual(['For a review', 'waiting']);
    answered.pass();
    await until('idle', session);
  });
});

describe('actions of a program', () => {
  const inputSchema = { type: 'object', properties: { by: { type: 'number' } } };
  const counter = (name: string, start = 0) => ({
    [name]: {
      description: 'Counts',
      inputSchema,
      run: ({ by }: { by: number }) => {
        if (by === 0) throw new Error('Nothing to add');
        return { count: start + by };
      },
    },
  });

  test('are invoked by others, also while a message is handled, and answer with the result', async () => {
    verifies('004:actions:expose', '004:actions:exposed-invocable', '004:actions:invoke');
    const errors: unknown[] = [];
    const waiting = gate();
    const actions = counter('count');
    const session = await serve({
      actions,
      onMessage: () => waiting.passed,
      onError: (error) => errors.push(error),
    });
    const message = await send(session);
    await until('active', session);
    const other = await serve();
    expect(await other.invoke('count', { by: 2 })).toMatchObject({
      status: 'completed',
      output: { count: 2 },
      by: { type: 'session', name: other.handle },
    });
    expect(await other.invoke('count', { by: 0 })).toMatchObject({
      status: 'failed',
      error: { message: 'Nothing to add' },
    });
    expect(errors).toEqual([new Error('Nothing to add')]);
    waiting.pass();
    expect((await settled(message))?.status).toBe('consumed');
  });

  test('are replaced by those of the next process, and those of others are not', async () => {
    const before = await serve({ actions: counter('tally') });
    const { handle, token } = before;
    await expect(serve({ actions: counter('tally') })).rejects.toMatchObject({
      code: 'action_name_taken',
    });
    await serve({ handle, token, actions: counter('tally', 10) });
    const { output } = await server.client.actions.invoke('tally', { by: 1 });
    expect(output).toEqual({ count: 11 });
  });

  test('are registered before a message that waits is handled, when the caller of serve has the session', async () => {
    const before = await serve({ actions: counter('early') });
    const { handle, token } = before;
    await before.close();
    const message = await send(before, 'waiting');
    let session: RemoteSession | undefined;
    const seen: (string | undefined)[] = [];
    session = await serve({
      handle,
      token,
      actions: counter('early'),
      onMessage: () => void seen.push(session?.handle),
    });
    expect((await settled(message))?.status).toBe('consumed');
    expect(seen).toEqual([handle]);
  });

  test('are declared by the program that has some, and by no other', async () => {
    verifies('004:shape:declare-implemented-only');
    const expose = { path: 'actions.expose' };
    await expect(serve({ capabilities: { actions: { expose: true } } })).rejects.toMatchObject({
      capability: { ...expose, asked: true, offered: false },
    });
    const hidden = { actions: counter('hidden'), capabilities: { actions: { expose: false } } };
    await expect(serve(hidden)).rejects.toMatchObject({
      capability: { ...expose, asked: false, offered: true },
    });
  });
});

describe('commands to a program', () => {
  test('pause and resume hold its messages back', async () => {
    verifies('004:lifecycle:pause', '004:lifecycle:resume', '004:status:paused');
    const seen: string[] = [];
    const calls: string[] = [];
    const session = await serve({
      onMessage: ({ text }) => void seen.push(text),
      onPause: () => void calls.push('pause'),
      onResume: () => void calls.push('resume'),
    });
    await server.client.sessions.pause(session.id);
    await until('paused', session);
    const message = await send(session, 'wait');
    expect(seen).toEqual([]);
    await server.client.sessions.resume(session.id);
    expect((await settled(message))?.status).toBe('consumed');
    expect([seen, calls]).toEqual([['wait'], ['pause', 'resume']]);
  });

  test('cancel aborts the handler that runs, and the next message is handled', async () => {
    const session = await serve({
      onMessage: ({ text }, { signal }) =>
        text === 'next'
          ? undefined
          : new Promise((_, reject) => {
              signal.addEventListener('abort', () => reject(signal.reason as Error));
            }),
    });
    const message = await send(session);
    await until('active', session);
    await server.client.sessions.cancel(session.id);
    expect(await settled(message)).toMatchObject({ status: 'failed', error: { code: 'canceled' } });
    expect((await settled(await send(session, 'next')))?.status).toBe('consumed');
  });

  test('release aborts the handler that runs, calls onRelease and ends the session', async () => {
    verifies('004:lifecycle:release', '004:status:released');
    const calls: string[] = [];
    const session = await serve({
      onMessage: (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('stop')));
        }),
      onRelease: () => void calls.push('release'),
    });
    const sent = [await send(session), await send(session)];
    await until('active', session);
    await server.client.sessions.release(session.id);
    expect(await session.closed).toEqual({ reason: 'released' });
    expect(calls).toEqual(['release']);
    await until('released', session);
    expect(await Promise.all(sent.map(settled))).toMatchObject([
      { status: 'failed', error: { code: 'released' } },
      { status: 'failed', error: { code: 'released' } },
    ]);
  });

  test('release fails the session if its handler throws', async () => {
    verifies('004:status:failed');
    const errors: unknown[] = [];
    const session = await serve({
      onError: (error) => errors.push(error),
      onRelease: () => {
        throw new Error('Cannot save');
      },
    });
    await server.client.sessions.release(session.id);
    await until('failed', session);
    expect(errors).toEqual([new Error('Cannot save')]);
  });

  test('that fail are answered with the error, and a pause that failed holds nothing back', async () => {
    const errors: unknown[] = [];
    const session = await serve({
      onError: (error) => errors.push(error),
      onPause: () => {
        throw new Error('Cannot stop now');
      },
    });
    await server.client.sessions.pause(session.id);
    const { error } = await session.journal.waitFor({ type: 'error', code: 'command_failed' });
    expect(error).toContain('Cannot stop now');
    expect(errors).toEqual([new Error('Cannot stop now')]);
    expect((await settled(await send(session)))?.status).toBe('consumed');
  });
});

describe('a program whose connection breaks', () => {
  test('handles a message once although its receipt was lost and its frame comes again', async () => {
    const seen: string[] = [];
    let refused = 0;
    let cut: AbortController | undefined;
    const client = server.clientWith(server.apiKey, {
      before: (url, init) => {
        if (url.endsWith('/deliveries/stream')) {
          cut = new AbortController();
          return { ...init, signal: AbortSignal.any([cut.signal, init.signal as AbortSignal]) };
        }
        if (url.endsWith('/receipt') && refused < 4) {
          refused += 1;
          cut?.abort();
          throw new TypeError('fetch failed');
        }
        return init;
      },
    });
    // A session that reports no status is idle for the server, which sends again what has no receipt.
    const capabilities = { events: { emits: [] } };
    const onMessage = ({ text }: ReceivedMessage) => void seen.push(text);
    const session = await serve({ capabilities, onMessage }, client);
    const message = await send(session, 'once');
    expect(await settled(message)).toMatchObject({ status: 'consumed' });
    expect(refused).toBe(4);
    expect((await settled(message))?.attempts).toBeGreaterThan(1);
    expect((await settled(await send(session, 'next')))?.status).toBe('consumed');
    expect(seen).toEqual(['once', 'next']);
  });

  test('continues its session in another process with the token: what was not consumed comes again', async () => {
    verifies('004:capabilities:told-on-attach');
    const never = gate();
    const before = await serve({ onMessage: () => never.passed });
    const message = await send(before, 'again');
    await server.client.messages.deliveries(message.id, { wait: 'delivered' });
    const seen: ReceivedMessage[] = [];
    const { handle, token } = before;
    const after = await serve({ handle, token, onMessage: (each) => void seen.push(each) });
    expect(after.id).toBe(before.id);
    expect((await settled(message))?.status).toBe('consumed');
    expect(seen).toMatchObject([{ text: 'again', redelivered: true }]);
    never.pass();
    expect(await before.closed).toMatchObject({
      reason: 'lost',
      error: { code: 'unauthorized' },
    });
    const end = await server.client.sessions.get(after.id);
    await server.client.sessions.drop(end.id);
    const anew = await serve({ handle, token: after.token });
    expect(anew.id).not.toBe(after.id);
  });

  test('that closes finishes what it handles, and what waits is for the next one', async () => {
    const first = gate();
    const seen: string[] = [];
    const session = await serve({
      async onMessage({ text }) {
        seen.push(text);
        await first.passed;
      },
    });
    const sent = [await send(session, 'one'), await send(session, 'two')];
    await until('active', session);
    const closing = session.close();
    first.pass();
    expect(await closing).toEqual({ reason: 'closed' });
    expect(seen).toEqual(['one']);
    const { handle, token } = session;
    await serve({ handle, token, onMessage: ({ text }) => void seen.push(text) });
    expect(await Promise.all(sent.map(settled))).toMatchObject([
      { status: 'consumed' },
      { status: 'consumed' },
    ]);
    expect(seen).toEqual(['one', 'two']);
  });

  test('cannot begin if the handle is in use', async () => {
    const { handle } = await serve();
    const refused = serve({ handle, handleTimeoutMs: 0 });
    await expect(refused).rejects.toBeInstanceOf(RelayApiError);
    await expect(refused).rejects.toMatchObject({ code: 'handle_taken' });
  });

  test('waits for the handle of the process before it, and says so once', async () => {
    const before = await serve();
    await before.close();
    const waits: string[] = [];
    const after = await serve({
      handle: before.handle,
      onWaiting: (text) => {
        waits.push(text);
        void server.client.sessions.drop(before.id);
      },
    });
    expect(after.id).not.toBe(before.id);
    expect(waits).toEqual([expect.stringContaining(`@${before.handle} was in use`)]);
  });

  test('stops waiting for the handle when its signal is aborted', async () => {
    const { handle } = await serve();
    const stopped = new AbortController();
    const reason = new Error('Stop');
    const onWaiting = () => stopped.abort(reason);
    await expect(serve({ handle, signal: stopped.signal, onWaiting })).rejects.toBe(reason);
  });

  test('replies once, and its handler goes on, when the server was away for longer than a request waits', async () => {
    const answers: string[] = [];
    const errors: unknown[] = [];
    let failures = 0;
    const client = server.clientWith(server.apiKey, {
      before: (url, init) => {
        if (/\/v1\/(messages|sessions\/[^/]+\/events)$/.test(url) && failures < 6) {
          failures += 1;
          throw new TypeError('fetch failed');
        }
        return init;
      },
    });
    const asker = await serve({ onMessage: ({ text }) => void answers.push(text) });
    const session = await serve(
      {
        capabilities: { events: { emits: ['log'] } },
        onError: (error) => errors.push(error),
        async onMessage(_, { reply, session: self }) {
          await reply('Done');
          failures = 4;
          await self.emit({ type: 'log', level: 'info', message: 'Replied' });
        },
      },
      client,
    );
    const message = await asker.send({ to: `@${session.handle}`, text: 'Do it' });
    expect(await settled(message)).toMatchObject({ status: 'consumed' });
    await expect.poll(() => answers).toEqual(['Done']);
    expect([failures, errors]).toEqual([6, []]);
  }, 30_000);
});
