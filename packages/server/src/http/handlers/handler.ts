/** The types of handlers, which follow from the route table, and what most handlers need. */
import {
  type AuditFact,
  audited,
  type NewAudit,
  type RunRecord,
  type TenantStore,
} from '@relay/core';
import type {
  AnswerOf,
  AuditAction,
  BodyOf,
  ParamsOf,
  QueryOf,
  RouteName,
  routes,
} from '@relay/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { Caller } from '../auth.ts';
import type { ServerContext } from '../context.ts';
import { notFound } from '../errors.ts';

/** A request whose caller is known. */
export interface Call {
  readonly caller: Caller;
  readonly context: ServerContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** The parts of a request that its route declares, validated. */
export interface Input<Name extends RouteName> {
  readonly params: ParamsOf<Name>;
  readonly query: QueryOf<Name>;
  readonly body: BodyOf<Name>;
}

export interface RouteCall<Name extends RouteName> extends Call, Input<Name> {}

/** What a handler may return for an answer: JSON.stringify drops `undefined` and keeps the rest. */
type Sent<T> = [z.core.util.JSONType] extends [T]
  ? unknown
  : T extends readonly (infer Item)[]
    ? readonly Sent<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Sent<T[Key]> }
      : T;

type RouteOf<Name extends RouteName> = (typeof routes)[Name];

/** A route's answer: a JSON value, a text, or nothing where the status says all or a stream is open. */
export type ResultOf<Name extends RouteName> = RouteOf<Name>['answer'] extends 'json'
  ? Sent<AnswerOf<Name>> | (RouteOf<Name> extends { mayBeNothing: string } ? undefined : never)
  : RouteOf<Name>['answer'] extends 'text' | 'html'
    ? string
    : void;

type NamesWith<Auth extends string> = {
  [Name in RouteName]: RouteOf<Name>['auth'] extends Auth ? Name : never;
}[RouteName];

/** Routes without a caller. */
export type PublicRoute = NamesWith<'public'>;
/** Routes whose path holds the secret. */
export type LinkRoute = NamesWith<'link'>;
export type CallerRoute = Exclude<RouteName, PublicRoute | LinkRoute>;

export type Handler<Name extends CallerRoute> = (call: RouteCall<Name>) => Promise<ResultOf<Name>>;
export type PublicHandler<Name extends PublicRoute> = (
  context: ServerContext,
) => Promise<ResultOf<Name>>;

/** A request by a link, whose token has not been looked at. */
export interface LinkCall extends Omit<Call, 'caller'> {
  readonly token: string;
}

export type LinkHandler<Name extends LinkRoute> = (call: LinkCall) => Promise<ResultOf<Name>>;

/** All that a caller can see. */
export function storeOf({ context, caller }: Pick<Call, 'context' | 'caller'>): TenantStore {
  return context.store.tenant(caller.tenantId);
}

/** Another tenant's run is answered exactly like one that does not exist. */
export async function findRun(call: Call, runId: string): Promise<RunRecord> {
  const run = await storeOf(call).readRun(runId);
  if (run === undefined) throw notFound('run');
  return run;
}

/** The audit entry for an action of this caller. */
export function auditEntry(
  { context, caller }: Call,
  action: AuditAction,
  what: Readonly<Record<string, AuditFact>>,
): NewAudit[] {
  const { engine } = context.control;
  const at = engine.clock.now();
  return audited(engine, caller.tenantId, [{ at, who: caller.as, action, what, why: null }]);
}
