import { RelayError, type Route, routes } from '@relay/protocol';
import type { FastifyRequest } from 'fastify';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { validate } from '../../src/http/validate.ts';

const id = '01963a5c-7891-7abc-8ef0-123456789abc';

function requestOf(parts: Partial<ReturnType<typeof validate>>): FastifyRequest {
  return { params: {}, query: {}, body: undefined, ...parts } as FastifyRequest;
}

function refusal(route: Route, parts: Partial<ReturnType<typeof validate>>): RelayError {
  try {
    validate(route, requestOf(parts));
  } catch (error) {
    expect(error).toBeInstanceOf(RelayError);
    return error as RelayError;
  }
  throw new Error('It was accepted');
}

describe('a valid request', () => {
  it('is parsed with defaults and numbers', () => {
    const request = requestOf({ params: { id }, query: { limit: '7' } });
    expect(validate(routes.listRunEvents, request)).toEqual({
      params: { id },
      query: { after: 0, limit: 7 },
      body: undefined,
    });
  });

  it('drops the parts that its route does not declare', () => {
    const request = requestOf({ query: { api_key: 'x' }, body: { any: 'thing' } });
    expect(validate(routes.health, request)).toEqual({
      params: undefined,
      query: undefined,
      body: undefined,
    });
  });
});

describe('a missing field', () => {
  it.each<[string, Route, unknown, string, string[]]>([
    [
      'chat without messages',
      routes.startChat,
      {},
      'model and messages are required',
      ['messages'],
    ],
    ['a run without input', routes.startRun, { model: 'demo' }, 'input is required', ['input']],
    [
      'an answer without either',
      routes.answerChatRelay,
      {},
      'sessionId and response are required',
      ['sessionId', 'response'],
    ],
    [
      'an answer without a response',
      routes.answerChatRelay,
      { sessionId: 's' },
      'sessionId and response are required',
      ['response'],
    ],
  ])('answers %s with the message of its route', (_what, route, body, sentence, paths) => {
    const error = refusal(route, { params: { approvalId: id }, body });
    expect(error.code).toBe('invalid_request');
    expect(error.message).toBe(sentence);
    expect(error.details?.map(({ path }) => path)).toEqual(paths);
  });

  it.each([null, 'text', 7, true, [], [{ input: 'x' }]])(
    'is missing from a body that is %j',
    (body) => {
      expect(refusal(routes.startRun, { body }).message).toBe('input is required');
    },
  );

  it.each([null, ''])('is missing if it is %j', (input) => {
    const body = { model: 'demo', input };
    expect(refusal(routes.startRun, { body }).message).toBe('input is required');
  });

  it('is not reported for a request without a body', () => {
    const error = refusal(routes.startRun, { body: undefined });
    expect(error.toBody()).toEqual({ error: 'Invalid JSON body', code: 'invalid_json' });
  });

  it('is not taken from the prototype', () => {
    const body: unknown = Object.create({ input: 'hi' });
    expect(refusal(routes.startRun, { body }).message).toBe('input is required');
  });

  it('is reported before other issues', () => {
    const error = refusal(routes.startRun, { body: { model: 7, tools: 'x' } });
    expect(error.details).toEqual([{ path: 'input', message: 'Required' }]);
  });
});

describe('a malformed field', () => {
  it('is reported with its path, in the message and in the details', () => {
    const body = { model: 'demo', messages: [{ role: 'user', content: 7 }] };
    const error = refusal(routes.startChat, { body });
    expect(error.code).toBe('invalid_request');
    expect(error.status).toBe(400);
    expect(error.message).toMatch(/^messages\[0\]\.content: /);
    expect(error.details?.[0]?.path).toBe('messages[0].content');
  });

  it('is reported with all others, the first one in the message', () => {
    const error = refusal(routes.startRun, { body: { input: 'x', model: '', labels: { a: 1 } } });
    expect(error.details?.map(({ path }) => path)).toEqual(['model', 'labels.a']);
    expect(error.message).toMatch(/^model: /);
  });

  it('is reported for the body if it has an unknown key', () => {
    const error = refusal(routes.startRun, { body: { input: 'x', stream: true } });
    expect(error.message).toContain('stream');
    expect(error.details).toHaveLength(1);
  });

  it('is reported for the query', () => {
    const error = refusal(routes.listRunEvents, { params: { id }, query: { limit: '0' } });
    expect(error.details?.[0]?.path).toBe('limit');
  });

  it('is not repeated in the message, because it may be a secret', () => {
    const body = { input: 'x', model: ['sk-secret'], labels: { a: { key: 'sk-secret' } } };
    expect(JSON.stringify(refusal(routes.startRun, { body }).toBody())).not.toContain('sk-secret');
  });
});

describe('a malformed id', () => {
  it.each(['1', 'undefined', `${id}0`, '../etc/passwd', ' ', '%', 'null'])(
    '%j is answered like one that does not exist',
    (wrong) => {
      const error = refusal(routes.getRun, { params: { id: wrong } });
      expect(error.code).toBe('not_found');
      expect(error.details).toBeUndefined();
    },
  );

  it('is reported before the query', () => {
    const error = refusal(routes.listRunEvents, { params: { id: 'x' }, query: { limit: 'x' } });
    expect(error.code).toBe('not_found');
  });
});

describe('a schema issue without a path', () => {
  it('is reported with its message', () => {
    const route: Route = { ...routes.startRun, body: z.never() };
    const error = refusal(route, { body: { input: 'x' } });
    expect(error.message).not.toMatch(/^:/);
    expect(error.message.length).toBeGreaterThan(5);
  });
});
