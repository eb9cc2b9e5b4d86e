import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import {
  actionBodySchema,
  attachBodySchema,
  channelBodySchema,
  commandAnswerBodySchema,
  deliveryWaitQuerySchema,
  invocationResultBodySchema,
  invokeBodySchema,
  keyBodySchema,
  messageBodySchema,
  messagesQuerySchema,
  receiptBodySchema,
  sessionBodySchema,
  sessionEventsBodySchema,
  sessionInputBodySchema,
  sessionsQuerySchema,
  sessionStreamQuerySchema,
} from '../../src/routes/index.ts';
import { fieldIssues, issueMessage } from '../../src/schemas/issues.ts';

const id = '01963a5c-7891-7abc-8ef0-123456789abc';

function accepts(schema: z.ZodType, value: unknown): boolean {
  return schema.safeParse(value).success;
}

describe('the bodies of /v1/sessions', () => {
  const session = { harness: 'native', handle: 'ada', agent: 'assistant', labels: { team: 'a' } };
  const attached = {
    handle: 'build',
    identity: { name: 'Build server', kind: 'program' },
    capabilities: {
      messaging: { receive: true },
      delivery: { modes: ['immediate'] },
      events: { emits: ['status.changed'] },
      lifecycle: { release: false },
    },
  };

  it('are accepted as documented', () => {
    expect(sessionBodySchema.parse(session)).toStrictEqual(session);
    expect(attachBodySchema.parse(attached)).toStrictEqual(attached);
    expect(accepts(sessionBodySchema, { ...session, fromSnapshot: id, workspace: 'app' })).toBe(
      true,
    );
  });

  it.each([
    ['no harness', { handle: 'ada' }],
    ['no handle', { harness: 'native' }],
    ['a handle with its sign', { ...session, handle: '@ada' }],
    ['a status', { ...session, status: 'idle' }],
    ['capabilities, which the harness declares', { ...session, capabilities: {} }],
  ])('are refused with %s', (_what, body) => {
    expect(accepts(sessionBodySchema, body)).toBe(false);
  });

  it('attach nothing whose identity has a status or repeats the handle', () => {
    const identity = { ...attached.identity };
    for (const more of [{ status: 'idle' }, { handle: 'other' }]) {
      expect(accepts(attachBodySchema, { ...attached, identity: { ...identity, ...more } })).toBe(
        false,
      );
    }
  });

  it('report one event or several', () => {
    const event = { type: 'status.changed', status: 'active' };
    expect(accepts(sessionEventsBodySchema, event)).toBe(true);
    expect(accepts(sessionEventsBodySchema, { events: [event, event] })).toBe(true);
    for (const body of [[event], { events: [] }, { events: event }, { type: 'status.idle' }]) {
      expect(accepts(sessionEventsBodySchema, body)).toBe(false);
    }
  });

  it('name the field of an event that is wrong', () => {
    const issuesOf = (body: unknown) => {
      const { error } = sessionEventsBodySchema.safeParse(body, { error: issueMessage });
      return fieldIssues(error?.issues ?? []);
    };
    const required = { path: 'tool', message: 'Required' };
    expect(issuesOf({ type: 'tool.called' })).toEqual([required]);
    expect(issuesOf({ events: [{ type: 'tool.called' }] })).toEqual([
      { ...required, path: 'events[0].tool' },
    ]);
    expect(issuesOf({})).toEqual([{ path: 'events', message: 'Required' }]);
    expect(issuesOf({ type: 'status.idle' })).toEqual([
      {
        path: 'type',
        message: expect.stringMatching(/^Must be status\.changed, .+, log or error$/),
      },
    ]);
  });

  it('type text or resize the terminal, and not both', () => {
    const resize = { cols: 80, rows: 24 };
    expect(accepts(sessionInputBodySchema, { text: 'ls\r' })).toBe(true);
    expect(accepts(sessionInputBodySchema, { resize })).toBe(true);
    expect(accepts(sessionInputBodySchema, { text: 'ls\r', resize })).toBe(false);
    expect(accepts(sessionInputBodySchema, {})).toBe(false);
  });

  it.each([
    [true, { status: 'delivered' }],
    [true, { status: 'consumed' }],
    [true, { status: 'deferred', availableAt: '2026-03-01T10:00:00Z', reason: 'tool running' }],
    [true, { status: 'failed', reason: 'cannot read it', retryable: true }],
    [false, { status: 'accepted' }],
    [false, { status: 'consumed', availableAt: '2026-03-01T10:00:00Z' }],
    [false, { status: 'deferred', retryable: true }],
    [false, { status: 'read' }],
    [false, {}],
  ])('answer a delivery: %s for %j', (valid, body) => {
    expect(accepts(receiptBodySchema, body)).toBe(valid);
  });

  it('answer a command with a result or an error', () => {
    expect(accepts(commandAnswerBodySchema, { ok: true })).toBe(true);
    expect(accepts(commandAnswerBodySchema, { ok: true, result: { seq: 3 } })).toBe(true);
    expect(accepts(commandAnswerBodySchema, { ok: false, error: 'busy' })).toBe(true);
    for (const body of [{ ok: false }, { ok: true, error: 'busy' }, { result: 1 }]) {
      expect(accepts(commandAnswerBodySchema, body)).toBe(false);
    }
  });
});

describe('the body of POST /v1/messages', () => {
  const body = { to: '@ada', text: 'Hello' };

  it.each([
    [body],
    [{ ...body, to: '#general' }],
    [{ ...body, to: ['@ada', '@bob', '#general'] }],
    [{ text: 'Yes', replyTo: id }],
    [{ ...body, mode: 'next-tool-call', idempotencyKey: 'k1' }],
    [{ ...body, text: '', attachments: [{ type: 'text', text: 'a file' }] }],
    [{ ...body, attachments: [{ type: 'image', mediaType: 'image/png', data: 'AAAA' }] }],
  ])('accepts %j', (message) => {
    expect(messageBodySchema.parse(message)).toStrictEqual(message);
  });

  it.each([
    ['no recipient', { text: 'Hello' }],
    ['an empty list of recipients', { ...body, to: [] }],
    ['a recipient without a sign', { ...body, to: 'ada' }],
    ['no text', { to: '@ada' }],
    ['an empty text', { ...body, text: '' }],
    ['an unknown mode', { ...body, mode: 'soon' }],
    ['a sender, which comes from the token', { ...body, from: { type: 'key', id, name: 'x' } }],
    ['a file as an attachment', { ...body, attachments: [{ type: 'file', url: 'https://a/b' }] }],
  ])('is refused with %s', (_what, message) => {
    expect(accepts(messageBodySchema, message)).toBe(false);
  });
});

describe('the queries of sessions and messages', () => {
  it('filter by names with and without their sign', () => {
    const query = { channel: '#general', with: 'ada', limit: '10' };
    expect(messagesQuerySchema.parse(query)).toEqual({
      channel: 'general',
      with: 'ada',
      limit: 10,
    });
    expect(messagesQuerySchema.parse({ channel: 'general', with: '@ada' })).toMatchObject({
      channel: 'general',
      with: 'ada',
    });
    expect(accepts(messagesQuerySchema, { channel: '##general' })).toBe(false);
    expect(accepts(messagesQuerySchema, { with: '#ada' })).toBe(false);
  });

  it('wait 25 seconds, and at most 60', () => {
    expect(deliveryWaitQuerySchema.parse({})).toEqual({ waitMs: 25_000 });
    expect(deliveryWaitQuerySchema.parse({ wait: 'consumed', waitMs: '60000' })).toEqual({
      wait: 'consumed',
      waitMs: 60_000,
    });
    expect(accepts(deliveryWaitQuerySchema, { waitMs: '60001' })).toBe(false);
    expect(accepts(deliveryWaitQuerySchema, { wait: 'accepted' })).toBe(false);
  });

  it('have no dialect, and filter sessions by status, harness and label', () => {
    expect(sessionStreamQuerySchema.parse({ after: '3' })).toEqual({ after: 3, follow: 'true' });
    expect(accepts(sessionStreamQuerySchema, { dialect: 'runs' })).toBe(false);
    const query = { status: 'idle', harness: 'native', label: 'team:a' };
    expect(sessionsQuerySchema.parse(query)).toMatchObject(query);
    expect(accepts(sessionsQuerySchema, { status: 'busy' })).toBe(false);
    expect(accepts(sessionsQuerySchema, { label: 'team' })).toBe(false);
  });
});

describe('the bodies of /v1/actions and /v1/invocations', () => {
  const body = {
    name: 'deploy',
    description: 'Deploy a version',
    inputSchema: { type: 'object', properties: { version: { type: 'string' } } },
    handler: { sessionId: id },
  };
  const selectors = [
    { handle: 'ada' },
    { kind: 'human' },
    { label: 'team:a' },
    { capability: 'actions.invoke' },
  ];

  it('register an action of a session or a URL', () => {
    expect(actionBodySchema.parse(body)).toStrictEqual(body);
    const url = { url: 'https://example.com/deploy' };
    const more = { outputSchema: { type: 'string' }, availableTo: selectors, timeoutMs: 1000 };
    const full = { ...body, ...more, handler: url, idempotent: true };
    expect(actionBodySchema.parse(full)).toStrictEqual(full);
  });

  it.each([
    ['a name that no tool can have', { name: 'a b' }],
    ['no object as its input', { inputSchema: { type: 'string' } }],
    ['a malformed schema', { inputSchema: { type: 'object', properties: 7 } }],
    ['two handlers', { handler: { sessionId: id, url: 'https://example.com' } }],
    ['a handler in the configuration', { handler: { config: true } }],
    ['a selector of two', { availableTo: [{ handle: 'ada', kind: 'human' }] }],
    ['an unknown capability', { availableTo: [{ capability: 'messaging.channels' }] }],
  ])('refuse an action with %s', (_what, wrong) => {
    expect(accepts(actionBodySchema, { ...body, ...wrong })).toBe(false);
  });

  it('invoke with an input, and answer with an output or an error', () => {
    expect(invokeBodySchema.parse({})).toEqual({ input: {} });
    expect(accepts(invocationResultBodySchema, { output: null })).toBe(true);
    expect(accepts(invocationResultBodySchema, { error: 'failed', retryable: true })).toBe(true);
    for (const result of [{}, { output: 1, error: 'failed' }, { output: 1, retryable: true }]) {
      expect(accepts(invocationResultBodySchema, result)).toBe(false);
    }
  });
});

describe('texts that are shown among others', () => {
  const capabilities = {
    messaging: { receive: true },
    delivery: { modes: ['immediate'] },
    events: { emits: [] },
    lifecycle: { release: false },
  };
  const identity = { name: 'Builder', kind: 'program' };
  const attach = { handle: 'ada', identity, capabilities };
  const action = { name: 'count', inputSchema: { type: 'object' }, handler: { sessionId: id } };
  const bodies: Record<string, (text: string) => [schema: z.ZodType, body: unknown, path: string]> =
    {
      'the name of a session': (name) => [
        attachBodySchema,
        { ...attach, identity: { ...identity, name } },
        'identity.name',
      ],
      'the value of a label': (team) => [
        sessionBodySchema,
        { harness: 'native', handle: 'ada', labels: { team } },
        'labels.team',
      ],
      'the topic of a channel': (topic) => [channelBodySchema, { topic }, 'topic'],
      'the name of a key': (name) => [keyBodySchema, { name }, 'name'],
      'the owner of a key': (owner) => [keyBodySchema, { name: 'k', owner }, 'owner'],
      'the description of an action': (description) => [
        actionBodySchema,
        { ...action, description },
        'description',
      ],
    };

  it.each(Object.entries(bodies))('%s has no control characters', (_what, bodyOf) => {
    for (const char of ['\0', '\u0007', '\u001b[2J', '\u007f', '\u0085']) {
      const [schema, body, path] = bodyOf(`a${char}b`);
      const { error } = schema.safeParse(body, { error: issueMessage });
      expect(fieldIssues(error?.issues ?? [])).toMatchObject([
        { path, message: expect.stringContaining('control characters') },
      ]);
    }
    const [schema, body] = bodyOf('Ada \u202eLovelace é 👩‍💻');
    expect(accepts(schema, body)).toBe(true);
  });

  it('are one line, except the description of an action', () => {
    for (const [what, bodyOf] of Object.entries(bodies)) {
      const isDescription = what === 'the description of an action';
      for (const text of ['a\nb', 'a\r\nb', 'a\tb']) {
        const [schema, body] = bodyOf(text);
        expect(accepts(schema, body)).toBe(isDescription);
      }
      for (const separator of ['\u2028', '\u2029']) {
        const [schema, body] = bodyOf(`a${separator}b`);
        expect(accepts(schema, body)).toBe(isDescription);
      }
    }
    const names = { harness: 'native', handle: 'ada', labels: { 'te\nam': 'a' } };
    expect(accepts(sessionBodySchema, names)).toBe(false);
  });
});
