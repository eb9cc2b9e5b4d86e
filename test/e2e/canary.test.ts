/**
 * Secrets that a real server was given, and everything that it has written, shown or sent since. The
 * provider does its worst to get its key repeated.
 */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';

/** Plain letters: nothing in it looks like a key, so only what knows it can hide it. */
const providerKey = `canary.${randomBytes(18).toString('hex')}.provider`;
const secondKey = `sk-canary-${randomBytes(18).toString('hex')}`;
const masterKey = randomBytes(32).toString('hex');
const internalSecret = `canary-internal-${randomBytes(12).toString('hex')}`;
const collectorToken = `canary-collector-${randomBytes(12).toString('hex')}`;

type Answer = (key: string, request: IncomingMessage, response: ServerResponse) => void;

const sse = { 'content-type': 'text/event-stream' };
const chunk = (delta: object) => `data: ${JSON.stringify({ choices: [{ delta }] })}\n\n`;

/** By the name of the model that is asked for. */
const answers: Record<string, Answer> = {
  unauthorized: (key, _request, response) => {
    const error = { message: `Incorrect API key provided: ${key}`, code: key, param: key };
    response.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
  },
  plain: (key, { headers }, response) => {
    const text = `No: ${key}\n${JSON.stringify(headers)}\n${encodeURIComponent(key)}`;
    response.writeHead(400, { 'content-type': 'text/plain', 'x-echo': key }).end(text);
  },
  html: (key, _request, response) => {
    response.writeHead(403, { 'content-type': 'text/html' }).end(`<h1>${key}</h1>`.repeat(50));
  },
  nested: (key, _request, response) => {
    const error = { message: JSON.stringify({ authorization: `Bearer ${key}` }) };
    response.writeHead(422, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
  },
  redirect: (key, _request, response) => {
    response.writeHead(302, { location: `http://127.0.0.1:1/?key=${key}` }).end();
  },
  halfway: (key, _request, response) => {
    response.writeHead(200, sse).write(chunk({ content: 'Let me see' }));
    response.end(`data: ${JSON.stringify({ error: { message: `Revoked: ${key}` } })}\n\n`);
  },
  garbage: (key, _request, response) => {
    response.writeHead(200, sse).end(`data: {"choices": ${key}\n\n`);
  },
  cut: (key, _request, response) => {
    response.writeHead(200, sse).write(chunk({ content: 'One moment' }));
    response.write(`event: ${key}\ndata: {`);
    setTimeout(() => response.destroy(), 5);
  },
  busy: (key, _request, response) => {
    response.writeHead(429, { 'retry-after': '0' }).end(`Slow down, ${key}`);
  },
};

const shown: string[] = [];
const exported: string[] = [];
const written: string[] = [];
let asked = 0;

const upstream = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (more: string) => (body += more));
  request.on('end', () => {
    asked += 1;
    const key = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? 'none';
    const { model } = JSON.parse(body) as { model: string };
    answers[model]?.(key, request, response);
  });
});
const collector = createServer((request, response) => {
  request.setEncoding('utf8').on('data', (more: string) => exported.push(more));
  request.on('end', () => response.writeHead(200).end('{}'));
});

const urlOf = (server: typeof upstream) =>
  `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const listening = (server: typeof upstream) =>
  new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

let server: TestServer;
let apiKey: string;

async function say(path: string, options: Parameters<TestServer['request']>[1] = {}) {
  const response = await server.request(path, options);
  const text = await response.text();
  shown.push(`${JSON.stringify([...response.headers])}\n${text}`);
  return { response, text };
}

beforeAll(async () => {
  await Promise.all([listening(upstream), listening(collector)]);
  server = await new TestServer({
    RELAY_LOG_LEVEL: 'debug',
    RELAY_MASTER_KEY: masterKey,
    RELAY_INTERNAL_SECRET: internalSecret,
    RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
    OTEL_EXPORTER_OTLP_ENDPOINT: urlOf(collector),
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer ${collectorToken}`,
  }).start();
  apiKey = server.apiKey;
  await provoke();
}, 120_000);

afterAll(async () => {
  await server.dispose();
  for (const each of [upstream, collector]) {
    each.closeAllConnections();
    each.close();
  }
});

/** Everything that could make a server say too much. */
async function provoke(): Promise<void> {
  for (const [provider, key] of [
    ['canary', providerKey],
    ['second', secondKey],
  ]) {
    const body = { apiKey: key, label: 'mine', baseUrl: `${urlOf(upstream)}/v1` };
    await say(`/v1/credentials/${provider}`, { method: 'PUT', body });
    await say(`/v1/credentials/${provider}`, { method: 'PUT', body: { ...body, more: 1 } });
    await say(`/v1/credentials/${provider}`, { method: 'PUT', body: { ...body, baseUrl: 'x' } });
  }
  await say('/v1/credentials');
  const models = Object.keys(answers).flatMap((name) => [`canary:${name}`, `second:${name}`]);
  await Promise.all(
    models.flatMap((model) => [
      say('/v1/runs', { body: { model, input: 'hello' } }),
      say('/api/chat', { body: { model, message: 'hello' } }),
      say('/chat', { body: { model, messages: [{ role: 'user', content: 'hello' }] } }),
    ]),
  );
  await say('/v1/runs', { body: { model: 'demo', input: 'calculate 6*7' } });
  await say(`/v1/runs?key=${apiKey}`, { keyless: true });
  await say('/v1/runs', { keyless: true, headers: { authorization: `Bearer ${apiKey}x` } });
  await say('/v1/runs', { headers: { 'x-request-id': 'plain-id' }, body: '{' });
  await say('/metrics', { headers: { authorization: `Internal ${internalSecret}` } });
  await say('/metrics', { headers: { authorization: `Internal ${internalSecret}x` } });
  const { text } = await say('/v1/runs?limit=200');
  for (const { id } of (JSON.parse(text) as { runs: { id: string }[] }).runs) {
    await say(`/v1/runs/${id}`);
    await say(`/v1/runs/${id}/events?limit=5000`);
    for (const dialect of ['runs', 'chat', 'runtime']) {
      await say(`/v1/runs/${id}/stream?follow=false&dialect=${dialect}`);
    }
  }
  for (const path of ['/v1/tenant', '/v1/keys', '/v1/approvals', '/metrics', '/openapi.json']) {
    await say(path);
  }
  await server.kill();
  written.push(...readAll());
  await server.start();
  await say('/v1/runs', { body: { model: 'canary:unauthorized', input: 'again' } });
  await server.stop();
  written.push(...readAll());
}

/** All files but the one that shows the first key, this once, to its operator alone. */
function readAll(): string[] {
  return filesIn(server.dataDir)
    .filter((path) => !path.endsWith('first-key'))
    .map((path) => `${path}\n${readFileSync(path, 'latin1')}`);
}

/** A secret as it is, and as it could be written down. */
function spellings(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [
    secret,
    secret.toUpperCase(),
    encodeURIComponent(secret),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ];
}

function filesIn(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .map((name) => join(dir, name))
    .filter((path) => statSync(path).isFile());
}

describe('after all scenarios', () => {
  const places: [string, () => string][] = [
    ['its output at the level debug', () => server.output],
    ['what it answered: bodies, errors, events, streams and metrics', () => shown.join('\n')],
    ['its traces', () => exported.join('\n')],
    ['its files, after a kill and after a stop', () => written.join('\n')],
  ];
  const secrets: [string, () => string[]][] = [
    ['the provider’s key', () => spellings(providerKey)],
    ['a key that looks like one', () => spellings(secondKey)],
    ['the API key', () => spellings(apiKey)],
    [
      'the master key',
      () => [
        ...spellings(masterKey),
        Buffer.from(masterKey, 'hex').toString('base64').replace(/=+$/, ''),
        Buffer.from(masterKey, 'hex').toString('latin1'),
      ],
    ],
    ['the internal secret', () => spellings(internalSecret)],
    ['the collector’s token', () => spellings(collectorToken)],
  ];

  for (const [place, text] of places) {
    it.each(secrets)(`${place} does not hold %s`, (_what, forms) => {
      const all = text();
      for (const form of forms()) {
        const at = all.indexOf(form);
        expect(at < 0 ? '' : all.slice(Math.max(0, at - 200), at + 200)).toBe('');
      }
    });
  }

  it('the search covers the requests to the provider and everything that was stored', () => {
    expect(asked).toBeGreaterThan(Object.keys(answers).length * 6);
    expect(server.output).toContain('"level":"debug"');
    expect(server.output).toContain('"route":"/v1/credentials/:provider"');
    expect(shown.join()).toContain('[redacted]');
    expect(exported.join()).toContain('provider_rejected');
    const names = written.map((text) => text.slice(0, text.indexOf('\n')));
    for (const kind of [/\.(db|sqlite)$/, /-wal$/]) {
      expect(names.filter((name) => kind.test(name)).length, String(kind)).toBeGreaterThan(0);
    }
    expect(names.join()).not.toContain('master-key');
  });
});
