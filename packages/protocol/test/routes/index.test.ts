import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { effectiveScopes, type Role, scopesOfRole } from '../../src/schemas/roles.ts';
import { dialects } from '../../src/dialects/index.ts';
import { errorTable } from '../../src/errors.ts';
import {
  chatBodySchema,
  chatRelayBodySchema,
  eventsQuerySchema,
  type Route,
  routes,
  runBodySchema,
  streamQuerySchema,
} from '../../src/routes/index.ts';

const table: readonly (readonly [string, Route])[] = Object.entries(routes);
const id = '01963a5c-7891-7abc-8ef0-123456789abc';

function accepts(schema: z.ZodType, value: unknown): boolean {
  return schema.safeParse(value).success;
}

describe('route table', () => {
  it('has each method and path once', () => {
    const places = table.map(
      ([, { method, path }]) => `${method} ${path.replaceAll(/:\w+/g, ':')}`,
    );
    expect(new Set(places).size).toBe(places.length);
  });

  it.each(table)('%s has a plain path and a summary', (_name, route) => {
    const path = route.path === '/' ? '/root' : route.path;
    expect(path).toMatch(/^(\/(:[a-z][A-Za-z]*|[a-z0-9]+(-[a-z0-9]+)*))+(\.json)?$/);
    expect(route.summary).toMatch(/^[A-Z].*[^.]$/);
  });

  it.each(table)('%s requires a key and a scope if it is under /v1', (_name, route) => {
    if (route.path.startsWith('/v1/')) expect(route.auth).toBeUndefined();
    if (['public', 'link', 'sign-in', 'internal'].includes(route.auth ?? 'key'))
      expect(route.scopes).toEqual([]);
    else expect(route.scopes.length).toBeGreaterThan(0);
  });

  it('has public routes only for content without tenant data', () => {
    const open = table.filter(([, route]) => route.auth === 'public').map(([, { path }]) => path);
    const shown = ['/', '/health', '/ready', '/openapi.json', '/docs'];
    for (const path of open) expect(shown).toContain(path);
  });

  it('accepts local callers without a key on /chat and /models only', () => {
    const local = table.filter(([, route]) => route.auth === 'local-or-key');
    expect(
      local.map(([, { path }]) => path).filter((path) => !/^\/(chat|models)/.test(path)),
    ).toEqual([]);
  });

  it('accepts the internal secret only on routes without a tenant', () => {
    const internal = table.filter(([, route]) => route.auth === 'internal-or-key');
    expect(internal.map(([, { path }]) => path)).toEqual(['/metrics']);
    const alone = table.filter(([, route]) => route.auth === 'internal');
    for (const [, { path }] of alone) expect(path).toMatch(/^\/internal\//);
  });

  it.each(table)('%s lists known errors, each once', (_name, { errors }) => {
    for (const code of errors) expect(Object.hasOwn(errorTable, code), code).toBe(true);
    expect(new Set(errors).size).toBe(errors.length);
  });

  it.each(table)('%s lists the errors of its authentication and its body', (_name, route) => {
    const due = [
      ...(['public', 'link', 'sign-in'].includes(route.auth ?? 'key') ? [] : ['unauthorized']),
      ...(route.scopes.length === 0 ? [] : ['scope_required']),
      ...(route.body === undefined ? [] : ['invalid_json', 'invalid_request']),
      ...(route.query === undefined ? [] : ['invalid_request']),
    ];
    expect(due.filter((code) => !(route.errors as readonly string[]).includes(code))).toEqual([]);
  });

  it.each(table)('%s declares exactly the parameters of its path', (_name, route) => {
    const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name);
    const declared = route.params instanceof z.ZodObject ? Object.keys(route.params.shape) : [];
    expect(declared).toEqual(inPath);
  });

  it.each(table)('%s has a body only with a method that allows one', (_name, route) => {
    if (route.body !== undefined) expect(['POST', 'PUT', 'PATCH']).toContain(route.method);
  });

  it.each([
    ['GET', '/health'],
    ['GET', '/models'],
    ['POST', '/chat'],
    ['POST', '/chat/relay/:relayId'],
    ['POST', '/v1/runs'],
    ['GET', '/v1/runs/:id'],
    ['GET', '/v1/runs/:id/events'],
    ['GET', '/v1/runs/:id/stream'],
    ['POST', '/v1/runs/:id/cancel'],
    ['POST', '/v1/runs/:id/tool-results/:toolUseId'],
    ['GET', '/internal/runs/:id/tool-result/:toolUseId'],
  ])('has the documented %s %s', (method, path) => {
    expect(table.some(([, route]) => route.method === method && route.path === path)).toBe(true);
  });
});

describe('the body of POST /chat', () => {
  const body = { model: 'demo', messages: [{ role: 'user', content: 'hi' }] };

  it('accepts a model and messages, and all fields together', () => {
    expect(accepts(chatBodySchema, body)).toBe(true);
    const full = {
      ...body,
      permissions: { allowlist: [{ tool: 'bash' }] },
      tools: ['bash'],
      context: { user: { id: 7 } },
      conversationId: id,
      maxIterations: 5,
    };
    expect(chatBodySchema.parse(full)).toEqual(full);
  });

  it.each([
    ['no messages', { model: 'demo' }],
    ['an empty list of messages', { ...body, messages: [] }],
    ['an empty model', { ...body, model: '' }],
    ['a message that is text', { ...body, messages: ['hi'] }],
    ['a key that is unknown', { ...body, stream: true }],
    ['a misspelt rule', { ...body, permissions: { allow: [] } }],
    ['a context that is not an object', { ...body, context: 'x' }],
    ['no turn at all', { ...body, maxIterations: 0 }],
    ['turns without end', { ...body, maxIterations: 1001 }],
    ['half a turn', { ...body, maxIterations: 1.5 }],
  ])('is rejected with %s', (_what, value) => {
    expect(accepts(chatBodySchema, value)).toBe(false);
  });
});

describe('the body of POST /chat/relay/:relayId', () => {
  const sessionId = '01963a5c-7890-7abc-def0-123456789abc';

  it.each([
    [{ approved: true }],
    [{ approved: true, always: true }],
    [{ approved: false, reason: 'This operation could delete important files' }],
  ])('accepts the documented example with %j', (response) => {
    expect(chatRelayBodySchema.parse({ sessionId, response })).toEqual({ sessionId, response });
  });

  it.each([
    ['no session', { response: { approved: true } }],
    ['an empty session', { sessionId: '', response: { approved: true } }],
    ['no response', { sessionId }],
    ['an approval that is text', { sessionId, response: { approved: 'yes' } }],
    ['a key that is unknown', { sessionId, response: { approved: true }, by: 'ann' }],
  ])('is rejected with %s', (_what, value) => {
    expect(accepts(chatRelayBodySchema, value)).toBe(false);
  });
});

describe('the body of POST /v1/runs', () => {
  const body = {
    model: 'gpt-4o-mini',
    system: 'You are a helpful assistant.',
    input: 'What is 23 * 47?',
    tools: [{ name: 'calculator', kind: 'builtin' }],
  };

  it('accepts its input as a string or as messages', () => {
    expect(runBodySchema.parse(body)).toEqual(body);
    const messages = { ...body, input: [{ role: 'user', content: 'hi' }] };
    expect(runBodySchema.parse(messages)).toEqual(messages);
  });

  it.each([
    ['no input', { model: 'demo' }],
    ['an empty input', { ...body, input: '' }],
    ['no message in the input', { ...body, input: [] }],
    ['a tool that is only a name', { ...body, tools: ['calculator'] }],
    ['a tool of an unknown kind', { ...body, tools: [{ name: 'x', kind: 'magic' }] }],
    ['a tool without a name', { ...body, tools: [{ name: '', kind: 'builtin' }] }],
    ['a key that is unknown', { ...body, temperature: 1 }],
    ['a label that is not text', { ...body, labels: { team: 7 } }],
    ['a conversation that is no id', { ...body, conversationId: 'x' }],
  ])('is rejected with %s', (_what, value) => {
    expect(accepts(runBodySchema, value)).toBe(false);
  });
});

describe('query schemas', () => {
  it('accept the known dialects', () => {
    const { dialect } = streamQuerySchema.shape;
    expect(dialect.unwrap().options.toSorted()).toEqual(Object.keys(dialects).toSorted());
  });

  it('default to the runs dialect and accept a cursor', () => {
    expect(streamQuerySchema.parse({})).toEqual({ dialect: 'runs', follow: 'true' });
    expect(streamQuerySchema.parse({ after: '12', follow: 'false', dialect: 'chat' })).toEqual({
      after: 12,
      follow: 'false',
      dialect: 'chat',
    });
  });

  it('limit a page to 5,000 events', () => {
    expect(eventsQuerySchema.parse({})).toMatchObject({ after: 0 });
    expect(eventsQuerySchema.parse({ after: '3', limit: '5000' })).toEqual({
      after: 3,
      limit: 5000,
    });
    for (const limit of ['0', '-1', '5001', '1.5', 'all']) {
      expect(accepts(eventsQuerySchema, { limit }), limit).toBe(false);
    }
  });

  it.each(['-1', '1.5', 'x', 'NaN', 'Infinity', '9007199254740993'])(
    'refuse the cursor %s',
    (after) => {
      expect(accepts(eventsQuerySchema, { after })).toBe(false);
      expect(accepts(streamQuerySchema, { after })).toBe(false);
    },
  );

  it('reject unknown parameters', () => {
    expect(accepts(streamQuerySchema, { follow: 'no' })).toBe(false);
    expect(accepts(streamQuerySchema, { dialect: 'latin' })).toBe(false);
    expect(accepts(streamQuerySchema, { since: '3' })).toBe(false);
    expect(accepts(eventsQuerySchema, { cursor: '3' })).toBe(false);
  });
});

describe('roles', () => {
  const keyed = table.filter(([, { auth }]) => !['public', 'link', 'sign-in'].includes(auth ?? ''));
  const opened = (role: Role) => {
    const held = effectiveScopes(scopesOfRole[role]);
    return keyed.flatMap(([name, { scopes, anyScope, auth }]) => {
      const missing = scopes.filter((scope) => !held.has(scope));
      const allowed = missing.length === 0 || (anyScope === true && missing.length < scopes.length);
      return allowed && auth !== 'internal' ? [name] : [];
    });
  };

  it('let a viewer read what belongs to the tenant, and change nothing', () => {
    for (const name of opened('viewer')) {
      const { method } = routes[name as keyof typeof routes];
      // Each tool of /mcp requires the scopes of its own route.
      const isPost = ['explainPermission', 'serveMcp', 'createConsoleLink'].includes(name);
      expect([name, method]).toEqual([name, isPost ? 'POST' : 'GET']);
    }
    const closed = keyed.filter(
      ([name, { method }]) => method === 'GET' && !opened('viewer').includes(name),
    );
    expect(closed.map(([name]) => name).toSorted()).toEqual([
      'auditHead',
      'awaitToolResult',
      'exportAudit',
      'followDeliveries',
      'getTenant',
      'listAudit',
      'listCredentials',
      'listKeys',
      'listWebhookDeliveries',
      'listWebhooks',
      'metrics',
      'verifyAudit',
    ]);
  });

  it('let an approver decide, and start nothing', () => {
    const more = opened('approver').filter((name) => !opened('viewer').includes(name));
    expect(more.toSorted()).toEqual([
      'answerChatRelay',
      'approveTool',
      'createGrant',
      'decideApproval',
      'previewGrant',
      'revokeGrant',
    ]);
  });

  it('let neither an operator nor an administrator decide', () => {
    const decisions = opened('approver').filter((name) => !opened('viewer').includes(name));
    for (const role of ['operator', 'admin'] as const) {
      expect(opened(role).filter((name) => decisions.includes(name))).toEqual([]);
    }
    const rest = keyed.map(([name]) => name).filter((name) => !opened('admin').includes(name));
    // Typing requires the scopes of an operator and of an approver.
    expect(rest.toSorted()).toEqual([...decisions, 'awaitToolResult', 'inputSession'].toSorted());
  });
});
