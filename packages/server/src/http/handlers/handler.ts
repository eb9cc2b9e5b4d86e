/** The types of handlers, which are derived from the route table, and what most handlers need. */
import {
  type AuditFact,
  auditRecordsOf,
  type RunControl,
  type NewAuditEntry,
  type RunRecord,
  type TenantStore,
} from '@relay/core';
import {
  type AuditAction,
  type BodyOf,
  type Limits,
  type ParamsOf,
  type QueryOf,
  type ResponseOf,
  type RouteName,
  type routes,
  type StoredEvent,
  type StoredSessionEvent,
} from '@relay/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { AuditSealer } from '../../audit/sealer.ts';
import type { TenantBudgets } from '../budgets.ts';
import type { ServerLog } from '../../observability/log.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { Vault } from '../../secrets/vault.ts';
import type { OutboundGuards } from '../../outbound/guards.ts';
import type { OpenStreams } from '../../streaming/open-streams.ts';
import type { Feed } from '../../streaming/feed.ts';
import type { Hub } from '../../streaming/hub.ts';
import type { WebhookSigner } from '../../secrets/webhook-signer.ts';
import type { AuthContext, Caller } from '../auth.ts';
import { notFound } from '../errors.ts';
import type { McpServerStatus } from '@relay/tools/mcp';
import type { HarnessRegistry } from '../../sessions/harnesses.ts';
import type { ConcurrencyLimiter, RateLimiter } from '../rate-limit.ts';

/** The services that handlers use. */
export interface ServerContext extends AuthContext {
  readonly control: RunControl;
  readonly hub: Hub<StoredEvent>;
  /** The same for sessions. */
  readonly sessionHub: Hub<StoredSessionEvent>;
  /** For what the programs of sessions have to know. */
  readonly programHub: Hub<StoredSessionEvent>;
  readonly harnesses: HarnessRegistry;
  /** The MCP servers whose tools a tenant has. */
  readonly mcpServers: (tenantId: string) => readonly McpServerStatus[];
  readonly feed: Feed;
  readonly metrics: Metrics;
  readonly log: ServerLog;
  readonly rates: {
    /** Requests per caller, and per tenant. */
    readonly requests: RateLimiter;
    readonly tenantRequests: RateLimiter;
    /** Of the bodies of requests, per caller. */
    readonly megabytes: RateLimiter;
    /** Failed authentications per address. */
    readonly failures: RateLimiter;
    /** Lookups of unknown keys per address, once it has too many failures. */
    readonly lookups: RateLimiter;
    readonly streams: ConcurrencyLimiter;
    readonly bodies: ConcurrencyLimiter;
  };
  readonly budgets: TenantBudgets;
  readonly streams: OpenStreams;
  readonly vault: Vault;
  readonly guards: OutboundGuards;
  readonly audit: AuditSealer;
  readonly signer: WebhookSigner;
  /** Signs what MCP clients send back with an answer of their user. The same on all nodes. */
  readonly requestStateKey: Uint8Array;
  /** The upper limits of every run. */
  readonly limits: Limits;
  readonly version: string;
  /** The folder with the built files of the console. */
  readonly consoleDir: string;
  readonly isStopping: () => boolean;
  /** Chat sessions whose end is being stored. */
  readonly endings: Set<Promise<void>>;
}

/** An authenticated request. */
export interface ApiRequest {
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

export interface RouteRequest<Name extends RouteName> extends ApiRequest, Input<Name> {}

/** What a handler may return for a response type: JSON.stringify drops `undefined`. */
type Sent<T> = [z.core.util.JSONType] extends [T]
  ? unknown
  : T extends readonly (infer Item)[]
    ? readonly Sent<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Sent<T[Key]> }
      : T;

type RouteOf<Name extends RouteName> = (typeof routes)[Name];

/** A route's result: a JSON value, a text, or nothing for an empty or a streamed response. */
export type ResultOf<Name extends RouteName> =
  RouteOf<Name> extends { streamed: true }
    ? void
    : RouteOf<Name> extends { responseType: infer Type }
      ? Type extends 'text' | 'html'
        ? string
        : void
      :
          | Sent<ResponseOf<Name>>
          | (RouteOf<Name> extends { noContentWhen: string } ? undefined : never);

type NamesWith<Auth extends string> = {
  [Name in RouteName]: RouteOf<Name> extends { auth: Auth } ? Name : never;
}[RouteName];

/** Routes without a caller. */
export type PublicRoute = NamesWith<'public'>;
/** Routes whose path contains the secret. */
export type LinkRoute = NamesWith<'link'>;
/** Routes that sign in to the console or out. */
export type SignInRoute = NamesWith<'sign-in'>;
export type CallerRoute = Exclude<RouteName, PublicRoute | LinkRoute | SignInRoute>;

export type Handler<Name extends CallerRoute> = (
  call: RouteRequest<Name>,
) => Promise<ResultOf<Name>>;
export type PublicHandler<Name extends PublicRoute> = (
  context: ServerContext,
) => Promise<ResultOf<Name>>;

/** A request by a decision link, whose token is not verified yet. */
export interface LinkRequest extends Omit<ApiRequest, 'caller'> {
  readonly token: string;
}

export type LinkHandler<Name extends LinkRoute> = (call: LinkRequest) => Promise<ResultOf<Name>>;

export type SignInHandler<Name extends SignInRoute> = (
  call: Omit<RouteRequest<Name>, 'caller'>,
) => Promise<ResultOf<Name>>;

/** The store of the caller's tenant. */
export function storeOf({ context, caller }: Pick<ApiRequest, 'context' | 'caller'>): TenantStore {
  return context.store.tenant(caller.tenantId);
}

/** Another tenant's run is answered exactly like one that does not exist. */
export async function findRun(call: ApiRequest, runId: string): Promise<RunRecord> {
  const run = await storeOf(call).readRun(runId);
  if (run === undefined) throw notFound('run');
  return run;
}

/** The audit entry for an action of this caller. */
export function auditEntry(
  { context, caller }: ApiRequest,
  action: AuditAction,
  what: Readonly<Record<string, AuditFact>>,
): NewAuditEntry[] {
  const { engine } = context.control;
  const at = engine.clock.now();
  return auditRecordsOf(engine, caller.tenantId, [
    { at, who: caller.actor, action, what, why: null },
  ]);
}
