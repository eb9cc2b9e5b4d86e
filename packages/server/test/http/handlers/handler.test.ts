import { describe, expectTypeOf, it } from 'vitest';
import type {
  CallerRoute,
  Handler,
  LinkRoute,
  PublicRoute,
  SignInRoute,
  ResultOf,
  RouteRequest,
} from '../../../src/http/handlers/handler.ts';
import {
  handlers,
  linkHandlers,
  publicHandlers,
  signInHandlers,
} from '../../../src/http/handlers/index.ts';
import type { RouteName } from '@relay/protocol';

const key = {
  id: 'k',
  kind: 'api' as const,
  name: 'ci',
  scopes: ['runs'] as const,
  groups: [],
  createdAt: '2026-01-31T12:00:00Z',
};

describe('a handler', () => {
  it('gets the params, the query and the body that its route declares', () => {
    expectTypeOf<RouteRequest<'getRun'>['params']>().toEqualTypeOf<{ id: string }>();
    expectTypeOf<RouteRequest<'getRun'>['body']>().toEqualTypeOf<undefined>();
    expectTypeOf<RouteRequest<'listRunEvents'>['query']>().toEqualTypeOf<{
      after: number;
      limit?: number | undefined;
    }>();
    expectTypeOf<RouteRequest<'resumeChat'>['body']>().toEqualTypeOf<{ runId: string }>();
  });

  it('does not compile if it returns another shape than its route declares', () => {
    const good: Handler<'listKeys'> = async () => ({ keys: [key], nextCursor: null });
    // @ts-expect-error A scope that does not exist.
    const scope: Handler<'listKeys'> = async () => ({
      keys: [{ ...key, scopes: ['root'] as const }],
      nextCursor: null,
    });
    // @ts-expect-error The cursor is missing.
    const cursor: Handler<'listKeys'> = async () => ({ keys: [key] });
    expectTypeOf([good, scope, cursor]).toBeArray();
  });

  it('does not compile if it reads a field that its route does not declare', () => {
    // @ts-expect-error The body of this route has no `name`.
    const wrong: Handler<'resumeRun'> = async (call) => call.body.name;
    expectTypeOf(wrong).toBeFunction();
  });

  it('answers with a text or with nothing where its route says so', () => {
    expectTypeOf<ResultOf<'metrics'>>().toEqualTypeOf<string>();
    expectTypeOf<ResultOf<'deleteMemory'>>().toEqualTypeOf<void>();
    expectTypeOf<undefined>().toExtend<ResultOf<'awaitToolResult'>>();
    expectTypeOf<undefined>().not.toExtend<ResultOf<'getRun'>>();
  });
});

describe('the tables of handlers', () => {
  it('have every route', () => {
    expectTypeOf<keyof typeof handlers>().toEqualTypeOf<CallerRoute>();
    expectTypeOf<keyof typeof publicHandlers>().toEqualTypeOf<PublicRoute>();
    expectTypeOf<keyof typeof linkHandlers>().toEqualTypeOf<LinkRoute>();
    expectTypeOf<keyof typeof signInHandlers>().toEqualTypeOf<SignInRoute>();
    type Every = CallerRoute | PublicRoute | LinkRoute | SignInRoute;
    expectTypeOf<Every>().toEqualTypeOf<RouteName>();
  });
});
