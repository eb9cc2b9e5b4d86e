/**
 * Every route, with random malformed requests: never a 500,
 * never a hang, never a stack trace, and the server is healthy afterwards.
 */
import { errorTable, type Route, type RouteName, routes } from '@relay/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../support/server.ts';
import { errorOf, startRun, untilStatus } from '../support/requests.ts';

const table = Object.entries(routes) as [RouteName, Route][];
const rule = { tool: 'send_note', params: { to: '*' } };

/** A valid body of each route, to mutate. */
const examples: Partial<Record<RouteName, object>> = {
  startChat: {
    model: 'demo',
    messages: [{ role: 'user', content: [{ type: 'text', text: 'say 1' }] }],
    tools: ['calculator'],
    permissions: { allowlist: [rule], deny: [{ toolCallId: 'x', reason: 'no' }] },
    limits: { tokens: 10 },
    context: { a: 1 },
  },
  answerChatRelay: { sessionId: 'x', response: { approved: true, always: true } },
  startApiChat: { message: 'say 1', model: 'demo', permissions: { denylist: [rule] } },
  approveTool: {
    runId: '01963a5c-7891-7abc-8ef0-123456789abc',
    toolCallId: 'c',
    action: 'approve',
  },
  resumeChat: { runId: '01963a5c-7891-7abc-8ef0-123456789abc' },
  startRun: {
    model: 'demo',
    input: 'say 1',
    system: 'Be brief',
    tools: [{ name: 'calculator', kind: 'builtin' }],
    labels: { team: 'red' },
    permissions: { allowOnce: [rule], allowlist: [{ tool: 'send_note', exact: { a: [1] } }] },
    limits: { timeMs: 1000, depth: 1 },
    maxIterations: 2,
    memory: { namespace: 'user:42' },
  },
  decideApproval: {
    approved: true,
    always: true,
    scope: 'tenant',
    rule: 'exact',
    uses: 2,
    expiresAt: '2030-01-01T00:00:00Z',
    reason: 'why',
    input: { to: 'a', text: 'b' },
  },
  forkRun: {
    seq: 1,
    input: 'say 1',
    model: 'demo',
    permissions: { denylist: [rule] },
    labels: { a: 'b' },
    workflowId: 'w',
    maxIterations: 2,
    limits: { tokens: 10 },
  },
  createGrant: {
    ...rule,
    exact: { a: [1] },
    scope: 'run',
    scopeId: '01963a5c-7891-7abc-8ef0-123456789abc',
    uses: 3,
    expiresAt: '2030-01-01T00:00:00Z',
  },
  previewGrant: { ...rule, scope: 'tenant' },
  explainPermission: {
    tool: 'send_note',
    params: { to: 'a', text: 'b' },
    permissions: { allowlist: [rule], denylist: [rule] },
  },
  createWebhook: { url: 'https://203.0.113.9/x', events: ['run.ended', 'approval.requested'] },
  putPolicy: { agent: 'a', allow: [rule], deny: [rule], ask: [], version: 0 },
  previewPolicy: { deny: [rule], since: '2020-01-01T00:00:00Z' },
  createKey: { name: 'k', scopes: ['runs'], owner: 'o', expiresAt: '2030-01-01T00:00:00Z' },
  putCredential: { apiKey: 'sk-0123456789abcdef', label: 'l', baseUrl: 'https://example.com/v1' },
  updateTenant: { budgets: { tenant: { period: 'day', tokens: 1_000_000_000 } } },
  addMemory: { namespace: 'user:42', text: 'Ada likes tea', ttlSeconds: 60 },
  serveMcp: {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'list_messages', arguments: { limit: 1 }, _meta: { progressToken: 1 } },
  },
  cancelRuns: { agent: 'nobody', labels: { a: 'b' } },
  messageRun: { text: 'x', mode: 'immediate' },
};

const strange = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: 'binary', maxLength: 50 }),
  fc.constantFrom<unknown>(
    null,
    '',
    ' ',
    0,
    -1,
    1.5,
    1e308,
    2 ** 53,
    [],
    {},
    [[]],
    'constructor',
    '__proto__',
    '\u0000',
    '\ud800',
    '\r\n\r\ndata: x',
    '../../etc/passwd',
    '%00',
    '!(x)',
    '*a*a*a*c',
    'x'.repeat(5_000),
    Array.from({ length: 200 }, (_, n) => n),
  ),
);

/** The paths in a value, from the outside in. */
function placesIn(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [[...path]];
  return [
    [...path],
    ...Object.entries(value).flatMap(([key, inner]) => placesIn(inner, [...path, key])),
  ];
}

function replaced(value: unknown, path: readonly string[], by: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return by;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<
    string,
    unknown
  >;
  copy[key] = replaced(copy[key], rest, by);
  return copy;
}

function bodyFor(name: RouteName): fc.Arbitrary<unknown> {
  const example = examples[name] ?? {};
  const places = placesIn(example);
  return fc.oneof(
    fc.constant(example),
    fc
      .tuple(fc.constantFrom(...places), strange)
      .map(([place, value]) => replaced(example, place, value)),
    fc.tuple(fc.string({ maxLength: 10 }), strange).map(([key, value]) => ({
      ...example,
      [key]: value,
    })),
    strange,
  );
}

const secret = 'a-secret-of-16-or-more';
const internal = { authorization: `Internal ${secret}` };

const someId = fc.oneof(
  fc.uuid(),
  fc.constantFrom('x', '%2e%2e', '0', 'null', "'; DROP TABLE runs;--", 'a'.repeat(900)),
  fc.string({ minLength: 1, maxLength: 40 }),
);

const query = fc.dictionary(
  fc.constantFrom(
    'limit',
    'cursor',
    'after',
    'follow',
    'dialect',
    'status',
    'label',
    'since',
    'namespace',
    'q',
    'waitMs',
    'x',
  ),
  fc.oneof(fc.string({ maxLength: 20 }), fc.constantFrom('-1', '1e9', '0', 'false', 'NaN', 'MTIz')),
  { maxKeys: 3 },
);

const headers = fc.dictionary(
  fc.constantFrom('last-event-id', 'idempotency-key', 'x-request-id', 'accept', 'if-match'),
  fc.string({
    unit: fc.constantFrom('a', 'b', '0', '9', '-', '_', '=', ';', ',', '/', ' '),
    maxLength: 300,
  }),
  { maxKeys: 2 },
);

/** For each route: `FUZZ_REQUESTS=1000 npx vitest run http/fuzz` runs more. */
const requests = Number(process.env['FUZZ_REQUESTS'] ?? 10);

describe('random requests', () => {
  let server: TestServer;
  let known: { run: string; relay: string };

  beforeAll(async () => {
    server = await bootServer({ env: { RELAY_INTERNAL_SECRET: secret } });
    const asked = await startRun(server, { input: 'notify me' });
    const relay = await asked.reader.until('approval_requested');
    await untilStatus(server, asked.runId, 'waiting');
    await asked.reader.disconnect();
    known = { run: asked.runId, relay: String(relay.data['id']) };
  });
  afterAll(() => server.stop());

  function pathOf(route: Route, id: string): string {
    const named =
      id === 'known' ? (route.path.includes('approvals') ? known.relay : known.run) : id;
    return route.path.replaceAll(/:\w+/g, encodeURIComponent(named));
  }

  it.each(table)(
    '%s answers with what its route says',
    async (name, route) => {
      const request = fc.record({
        id: fc.oneof(fc.constant('known'), someId),
        body: bodyFor(name),
        query,
        headers,
      });
      await fc.assert(
        fc.asyncProperty(request, async ({ id, body, query: asked, headers: sent }) => {
          // Ended by `follow=false`, or aborted below: a stream of a run that waits stays open.
          const search = new URLSearchParams(asked).toString();
          const connection = new AbortController();
          const response = await server.request(`${pathOf(route, id)}?${search}`, {
            method: route.method,
            headers: route.auth === 'internal' ? { ...sent, ...internal } : sent,
            ...(route.auth === 'internal' ? { key: null } : {}),
            signal: AbortSignal.any([connection.signal, AbortSignal.timeout(10_000)]),
            ...(route.body === undefined ? {} : { body: JSON.stringify(body) ?? 'null' }),
          });
          const type = response.headers.get('content-type') ?? '';
          if (type.includes('text/event-stream')) {
            connection.abort();
            expect(response.status).toBe(200);
            return;
          }
          const text = await response.text();
          expect(text).not.toMatch(/\n\s+at .*:\d+:\d+/);
          if (response.status < 400) return;
          const { code, error } = (await errorOf(new Response(text))) as {
            code?: keyof typeof errorTable;
            error: string;
          };
          expect(error.length).toBeGreaterThan(0);
          // An error of another protocol, for a message that is not one of it.
          if (code === undefined) {
            expect(route.errorFormat, text).toBe('json-rpc');
            expect(response.status, text).toBeLessThan(500);
            return;
          }
          expect(errorTable[code]?.status, text).toBe(response.status);
          if (response.status >= 500) expect(code).toBe('approval_state_missing');
        }),
        { numRuns: requests },
      );
      expect(await server.json('/health')).toMatchObject({ status: 'ok' });
    },
    60_000,
  );
});
