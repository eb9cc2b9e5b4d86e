import { connect, type Socket } from 'node:net';
import { type DialectName, dialects } from '@relay/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allFrames, FrameReader, type SeenFrame } from '../../support/frames.ts';
import { addKey, bootServer, type TestServer, until } from '../../support/server.ts';
import {
  answerApproval,
  eventsOf,
  finishedRun,
  startChat,
  startRun,
} from '../../support/requests.ts';

const names = Object.keys(dialects) as DialectName[];

describe('SSE stream', () => {
  let server: TestServer;
  /** A run with text, calls, an approval and a denial in it. */
  let runId: string;
  let lastSeq: number;

  const stream = (query = '', headers: Record<string, string> = {}, id = runId) =>
    server.request(`/v1/runs/${id}/stream${query}`, { headers });
  const frames = async (query = '', headers: Record<string, string> = {}) =>
    allFrames(await stream(query, headers));

  beforeAll(async () => {
    server = await bootServer();
    const said =
      'use calculator {"a":1,"b":2,"op":"+"}\nuse send_note {"to":"a","text":"b"}\nuse send_note {"to":"c","text":"d"}';
    const chat = await startChat(server, said);
    const first = await chat.reader.until('relay');
    const second = await chat.reader.until('relay');
    await answerApproval(server, chat, {
      approvalId: first.data['id'],
      response: { approved: true },
    });
    await answerApproval(server, chat, {
      approvalId: second.data['id'],
      response: { approved: false },
    });
    await chat.reader.rest();
    runId = chat.runId;
    lastSeq = (await eventsOf(server, runId)).events.length;
  });

  afterAll(async () => {
    await server.stop();
  });

  it('uses the runs dialect by default, and ends with done', async () => {
    const response = await stream();
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    expect(response.headers.get('x-run-id')).toBe(runId);
    const plain = await allFrames(response);
    expect(plain.at(-1)?.data.type).toBe('done');
    expect(plain).toEqual(await frames('?dialect=runs'));
  });

  it.each(names)('projects the journal into the %s dialect', async (name) => {
    const { events, run } = await eventsOf(server, runId);
    const header = {
      runId,
      conversationId: String(run['conversationId']),
      correlationId: String(events[0]?.['correlationId']),
    };
    const expected = events.flatMap((event) => {
      const frame = dialects[name].project(event as never, header);
      return frame === undefined
        ? []
        : [{ id: String(event.seq), data: JSON.parse(JSON.stringify(frame)) as unknown }];
    });
    const seen = await frames(`?dialect=${name}`);
    expect(seen.map(({ id, data }) => ({ id, data }))).toEqual(expected);
    for (const { event, data } of seen) {
      expect(event).toBe(dialects[name].namesEvents ? data.type : 'message');
    }
  });

  it.each(names)('resumes after any Last-Event-ID without gaps in the %s dialect', async (name) => {
    const whole = await frames(`?dialect=${name}`);
    const after = (seq: number): SeenFrame[] => whole.filter(({ id }) => Number(id) > seq);
    for (let seq = 0; seq < lastSeq; seq += 1) {
      const query = `?dialect=${name}&follow=false`;
      expect(await frames(query, { 'last-event-id': String(seq) }), `${seq}`).toEqual(after(seq));
      expect(await frames(`${query}&after=${seq}`), `${seq}`).toEqual(after(seq));
      expect(await frames(`?dialect=${name}&after=${seq}`), `${seq}`).toEqual(after(seq));
    }
  });

  it('starts at the beginning for an empty Last-Event-ID, which a new EventSource sends', async () => {
    expect(await frames('?follow=false', { 'last-event-id': '' })).toEqual(await frames());
  });

  it('prefers Last-Event-ID to the query parameter after', async () => {
    const ids = (await frames()).map(({ id }) => Number(id));
    const middle = ids.at(ids.length / 2) ?? 0;
    const seen = await frames('?after=0&follow=false', { 'last-event-id': String(middle) });
    expect(seen.map(({ id }) => Number(id))).toEqual(ids.filter((id) => id > middle));
  });

  it.each(['true', 'false'])(
    'answers 204 after the last event of an ended run, with follow=%s',
    async (follow) => {
      const atEnd = { 'last-event-id': String(lastSeq) };
      const byHeader = await stream(`?follow=${follow}`, atEnd);
      const byQuery = await stream(`?follow=${follow}&after=${lastSeq}`);
      for (const response of [byHeader, byQuery]) {
        expect(response.status).toBe(204);
        expect(response.headers.get('x-run-id')).toBe(runId);
        expect(await response.text()).toBe('');
      }
    },
  );

  it('stays open after the last event of an active run', async () => {
    const talk = await startRun(server, { input: 'notify somebody' });
    const relay = await talk.reader.until('approval_requested');
    const { events } = await eventsOf(server, talk.runId);
    const query = `?follow=false&after=${events.length}`;
    const response = await server.request(`/v1/runs/${talk.runId}/stream${query}`);
    expect(response.status).toBe(200);
    await response.text();
    await server.request(`/v1/approvals/${String(relay.data['id'])}`, {
      body: { approved: false },
    });
    await talk.reader.rest();
  });

  it('has the events as they are stored at /events/stream, from any of them', async () => {
    const events = (query: string) =>
      server.request(`/v1/runs/${runId}/events/stream${query}`, { headers: {} });
    const { events: stored } = await eventsOf(server, runId);
    const whole = await allFrames(await events(''));
    expect(whole.map(({ data }) => data)).toEqual(stored);
    expect(whole.map(({ id }) => Number(id))).toEqual(stored.map(({ seq }) => seq));
    const rest = await allFrames(await events('?after=3'));
    expect(rest.map(({ data }) => data)).toEqual(stored.slice(3));
    expect((await events(`?after=${lastSeq}`)).status).toBe(204);
    expect((await events(`?after=${lastSeq + 1}`)).status).toBe(409);
    const { apiKey: key } = await addKey(server.store, { tenant: 'reader' });
    const path = `/v1/runs/${runId}/events/stream`;
    expect((await server.request(path, { key })).status).toBe(404);
  });

  it('starts with the ids of the run, its conversation and its agent', async () => {
    const { run } = await eventsOf(server, runId);
    const [first] = await frames('?dialect=runs');
    expect(first).toMatchObject({
      id: '1',
      data: { type: 'run', id: runId, conversationId: run['conversationId'], agent: 'assistant' },
    });
  });

  it.each(['1.5', '-1', 'abc', '0x1', '1e3', ' 1 2', '9'.repeat(16), 'null', 'NaN'])(
    'refuses the Last-Event-ID %j',
    async (id) => {
      const response = await stream('', { 'last-event-id': id });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        code: 'invalid_request',
        details: [{ path: 'Last-Event-ID' }],
      });
    },
  );

  it('refuses a position past the end with 409, by header and by query', async () => {
    for (const response of [
      await stream(`?after=${lastSeq + 1}`),
      await stream('', { 'last-event-id': String(lastSeq + 1) }),
      await stream('?after=999999999999999'),
    ]) {
      expect(response.status).toBe(409);
      expect(await response.json()).toMatchObject({ code: 'cursor_past_end' });
    }
  });

  it('stays open while a run waits, and sends later events to every client', async () => {
    const chat = await startChat(server, 'notify several readers');
    const relay = await chat.reader.until('relay');
    const early = new FrameReader(await stream('?dialect=chat', {}, chat.runId));
    await early.until('relay');
    const late = new FrameReader(
      await stream('?dialect=chat', { 'last-event-id': relay.id }, chat.runId),
    );
    await answerApproval(server, chat, {
      approvalId: relay.data['id'],
      response: { approved: true },
    });
    const all = await chat.reader.rest();
    const withoutGreeting = all.filter(({ data }) => data.type !== 'connected');
    expect(await early.rest()).toEqual(withoutGreeting);
    expect(await late.rest()).toEqual(
      withoutGreeting.filter(({ id }) => Number(id) > Number(relay.id)),
    );
    await until(() => server.relay.hub.size === 0, 'the readers to be gone');
  });

  it('ends at the current end with follow=false', async () => {
    const { runId: id, reader } = await startRun(server, { input: 'notify not followed' });
    await reader.until('approval_requested');
    const seen = await allFrames(await stream('?follow=false', {}, id));
    expect(seen.at(-1)?.data.type).toBe('approval_requested');
    await server.request(`/v1/runs/${id}/cancel`, { method: 'POST' });
    await reader.rest();
  });

  it('has no gaps and no repeats over many reconnects to an active run', async () => {
    const { runId: id, reader } = await startRun(server, { input: 'say 3000' });
    const seen: SeenFrame[] = [];
    let last = '0';
    while (seen.at(-1)?.data.type !== 'done') {
      const piece = new FrameReader(await stream('', { 'last-event-id': last }, id));
      for (let n = 0; n < 150 && seen.at(-1)?.data.type !== 'done'; n += 1) {
        const next = await piece.next();
        if (next === undefined) break;
        seen.push(next);
        last = next.id;
      }
      await piece.disconnect();
    }
    expect(seen).toEqual(await reader.rest());
    expect(seen.filter(({ data }) => data.type === 'token')).toHaveLength(3000);
  });

  it('keeps text with line breaks inside one frame', async () => {
    const text = 'a\n\ndata: x\r\rid: 99\n\n\u2028b\u2029';
    const { runId: id, reader } = await startRun(server, { input: `notify ${text}!` });
    const relay = await reader.until('approval_requested');
    expect(relay.data['params']).toEqual({ to: 'operator', text: `${text}!` });
    await server.request(`/v1/runs/${id}/cancel`, { method: 'POST' });
    await reader.rest();
    for (const name of names) {
      const response = await stream(`?dialect=${name}`, {}, id);
      const blocks = (await response.text()).split('\n\n').slice(0, -1);
      const ids = blocks.map(
        (block) => /^id: (\d+)\n(event: \w+\n)?data: [^\n\r]+$/.exec(block)?.[1],
      );
      expect(ids).not.toContain(undefined);
      expect(new Set(ids).size).toBe(blocks.length);
    }
  });
});

describe('a client that stops reading', () => {
  it('buffers at most 256 KiB in the server, and receives everything when it continues', async () => {
    const server = await bootServer();
    const sockets: Socket[] = [];
    server.relay.app.server.on('connection', (socket: Socket) => sockets.push(socket));
    const { runId, reader } = await startRun(server, { input: 'say 60000' });
    const { hostname, port } = new URL(server.url);
    const lazy = connect(Number(port), hostname).setEncoding('utf8').pause();
    const head = [
      `GET /v1/runs/${runId}/stream?dialect=chat HTTP/1.1`,
      `host: ${hostname}`,
      `authorization: Bearer ${server.apiKey}`,
    ];
    lazy.write(`${head.join('\r\n')}\r\n\r\n`);
    const buffered = () => Math.max(...sockets.map((socket) => socket.writableLength));
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, buffered())), 1);
    await reader.rest();
    let text = '';
    lazy.on('data', (chunk: string) => (text += chunk));
    lazy.resume();
    await until(() => text.includes('"harness_end"'), 'the rest of the stream');
    clearInterval(watch);
    lazy.destroy();
    await server.stop();
    expect(text.match(/event: text\n/g)).toHaveLength(60_000);
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(256 * 1024);
  });
});

describe('an in-process server without a port', () => {
  it('streams to inject() too', async () => {
    const server = await bootServer();
    const inject = (method: 'GET' | 'POST', url: string, payload?: object) =>
      Promise.race([
        server.relay.app.inject({
          method,
          url,
          headers: { authorization: `Bearer ${server.apiKey}` },
          ...(payload === undefined ? {} : { payload }),
        }),
        new Promise<undefined>((resolve) => {
          setTimeout(() => resolve(undefined), 2_000);
        }),
      ]);
    const { runId } = await finishedRun(server, { input: 'say 2' });
    const started = await inject('POST', '/v1/runs', { model: 'demo', input: 'say 2' });
    const followed = await inject('GET', `/v1/runs/${runId}/stream`);
    await server.stop();
    expect(started?.body ?? 'no answer').toContain('"type":"done"');
    expect(followed?.body ?? 'no answer').toContain('"type":"done"');
  });
});
