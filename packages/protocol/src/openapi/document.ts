/** The OpenAPI document, generated from the route table. */
import { z } from 'zod';
import { defined } from '../defined.ts';
import { errorTable, type ErrorCode } from '../errors.ts';
import { jsonSchema } from '../schemas/values.ts';
import { capabilityDetailsSchema } from '../schemas/sessions.ts';
import { messageSchema } from '../schemas/messages.ts';
import {
  deciderSchema,
  permissionsSchema,
  policyRulesSchema,
  toolPermissionSchema,
} from '../schemas/permissions.ts';
import { approvalSchema } from '../routes/approvals.ts';
import { auditEntrySchema } from '../routes/audit.ts';
import { credentialSchema } from '../routes/credentials.ts';
import { grantSchema } from '../routes/grants.ts';
import { keySchema } from '../routes/keys.ts';
import { memorySchema } from '../routes/memories.ts';
import { policySchema } from '../routes/policy.ts';
import { eventSchema, feedFrameSchema, runSchema } from '../routes/runs.ts';
import { deliveryFrameSchema, sessionSchema } from '../routes/sessions.ts';
import { tenantSchema } from '../routes/tenant.ts';
import { webhookSchema } from '../routes/webhooks.ts';
import { checkpointEnvelopeSchema, runErrorSchema, wireUsageSchema } from '../schemas/runs.ts';
import { type Route, routes } from '../routes/index.ts';
import {
  chatFrameSchema,
  runsFrameSchema,
  runtimeFrameSchema,
  sessionFrameSchema,
} from './frames.ts';

type Schema = Record<string, unknown>;

export interface OpenApiDocument {
  readonly openapi: '3.1.0';
  readonly info: Schema;
  readonly servers: readonly Schema[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Schema>>>>;
  readonly components: Schema;
}

export function openApiDocument(version: string): OpenApiDocument {
  const schemas = new OpenApiSchemas();
  const paths: Record<string, Record<string, Schema>> = {};
  for (const [name, route] of Object.entries(routes) as [string, Route][]) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    (paths[path] ??= {})[route.method.toLowerCase()] = operationOf(name, route, schemas);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Relay',
      version,
      description: 'A self-hosted runtime and control plane for AI agents.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    paths,
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key, relay_live_…' },
        session: {
          type: 'http',
          scheme: 'bearer',
          description: 'A session token, relay_sess_…, for its own session',
        },
        console: {
          type: 'apiKey',
          in: 'cookie',
          name: 'relay_console',
          description:
            'A sign-in to the console, with the rights of its key. Requests that write need a same-origin Origin header',
        },
        internal: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'Internal <RELAY_INTERNAL_SECRET>',
        },
      },
      schemas: {
        Error: errorSchema(),
        JsonRpcError: jsonRpcErrorSchema(),
        ...schemas.components,
      },
    },
  };
}

function operationOf(name: string, route: Route, schemas: OpenApiSchemas): Schema {
  const parameters = [
    ...parametersOf(schemas, 'path', route.params),
    ...parametersOf(schemas, 'query', route.query),
    ...headersOf(name),
  ];
  return {
    operationId: name,
    summary: route.summary,
    tags: [tagOf(route.path)],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: !route.body.safeParse(undefined).success,
            content: { 'application/json': { schema: schemas.of(route.body, 'input') } },
          },
        }),
    responses: { ...responseOf(name, route, schemas), ...failuresOf(route) },
    ...securityOf(route),
  };
}

function tagOf(path: string): string {
  const [first = '', second] = path.split('/').filter((part) => part !== '');
  if (first === 'v1') return second ?? first;
  if (first === 'api') return 'api/chat';
  return ['chat', 'models', 'mcp'].includes(first) ? first : 'system';
}

function securityOf(route: Route): Schema {
  if (route.auth === 'public' || route.auth === 'link') return { security: [] };
  if (route.auth === 'sign-in') return { security: [] };
  if (route.auth === 'internal') return { security: [{ internal: [] }] };
  const { scopes, anyScope } = route;
  const keys =
    anyScope === true ? scopes.map((scope) => ({ key: [scope] })) : [{ key: [...scopes] }];
  const others = { 'internal-or-key': [{ internal: [] }], 'local-or-key': [{}] };
  const tokens = route.session === undefined ? [] : [{ session: [] }];
  const cookies = route.cookie === false ? [] : [{ console: [] }];
  return {
    security: [
      ...keys,
      ...cookies,
      ...tokens,
      ...(route.auth === undefined ? [] : others[route.auth]),
    ],
  };
}

function parametersOf(
  schemas: OpenApiSchemas,
  place: 'path' | 'query',
  schema: z.ZodType | undefined,
): Schema[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = schemas.of(schema, 'input') as {
    properties?: Record<string, Schema>;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, { description, ...property }]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    ...defined({ description }),
    schema: property,
  }));
}

const headers: Readonly<Record<string, Schema>> = {
  'Idempotency-Key': {
    description:
      'Repeating a request with the same key and body within 24 hours returns the same run',
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  },
  'Last-Event-ID': {
    description: 'The id of the last frame received; the stream resumes after it',
    schema: { type: 'string', pattern: '^\\d{1,15}$' },
  },
};

const headersByRoute: Readonly<Record<string, readonly string[]>> = {
  startRun: ['Idempotency-Key'],
  startApiChat: ['Idempotency-Key'],
  followRun: ['Last-Event-ID'],
  followRunEvents: ['Last-Event-ID'],
  followSession: ['Last-Event-ID'],
};

function headersOf(name: string): Schema[] {
  return (headersByRoute[name] ?? []).map((header) => ({
    name: header,
    in: 'header',
    required: false,
    ...headers[header],
  }));
}

const framesByRoute: Readonly<Record<string, z.ZodType>> = {
  startChat: chatFrameSchema,
  startRun: runsFrameSchema,
  followRun: z.union([runsFrameSchema, chatFrameSchema, runtimeFrameSchema]),
  followRunEvents: eventSchema,
  followFeed: feedFrameSchema,
  startApiChat: runtimeFrameSchema,
  followSession: sessionFrameSchema,
  followDeliveries: deliveryFrameSchema,
};

/** `itemSchema` of OpenAPI 3.2, as an extension: the schema of the JSON in the `data` of each frame. */
function framesOf(name: string, schemas: OpenApiSchemas): Schema {
  const frames = framesByRoute[name];
  return frames === undefined ? {} : { 'x-itemSchema': schemas.of(frames, 'output') };
}

const mediaTypes = {
  html: 'text/html',
  text: 'text/plain',
  lines: 'application/x-ndjson',
} as const;

function responseOf(name: string, route: Route, schemas: OpenApiSchemas): Schema {
  const { output, responseType, noContentWhen, acceptedWhen } = route;
  if (responseType === 'none') {
    return { '204': { description: 'Success; repeating the request has no effect' } };
  }
  const noContent = noContentWhen === undefined ? {} : { '204': { description: noContentWhen } };
  if (responseType === 'sse') {
    return {
      '200': {
        description:
          'A stream of server-sent events; the id of a frame is the seq of its journal event',
        headers: { 'x-run-id': { description: 'The id of the run', schema: { type: 'string' } } },
        content: {
          'text/event-stream': { schema: { type: 'string' }, ...framesOf(name, schemas) },
        },
      },
      ...noContent,
    };
  }
  if (responseType !== undefined) {
    const mediaType = mediaTypes[responseType];
    return { '200': { description: route.summary, content: { [mediaType]: {} } } };
  }
  const content =
    output === undefined
      ? {}
      : { content: { 'application/json': { schema: schemas.of(output, 'output') } } };
  return {
    [String(route.status ?? 200)]: { description: route.summary, ...content },
    ...(acceptedWhen === undefined ? {} : { '202': { description: acceptedWhen, ...content } }),
    ...noContent,
  };
}

/** One response per status, with its error codes. */
function failuresOf(route: Route): Schema {
  const byStatus = Map.groupBy(route.errors, (code) => errorTable[code].status);
  return Object.fromEntries(
    [...byStatus].map(([status, all]) => [
      String(status),
      {
        description: all.map((code) => `\`${code}\`: ${errorTable[code].title}`).join('\n\n'),
        content: { 'application/json': { schema: failureOf(route, all) } },
      },
    ]),
  );
}

function failureOf({ errorFormat }: Route, codes: readonly ErrorCode[]): Schema {
  const data = { properties: { code: { enum: codes } } };
  if (errorFormat === undefined) return { allOf: [{ $ref: '#/components/schemas/Error' }, data] };
  return {
    allOf: [
      { $ref: '#/components/schemas/JsonRpcError' },
      { properties: { error: { properties: { data } } } },
    ],
  };
}

/** Without an id: the message was not read. */
function jsonRpcErrorSchema(): Schema {
  return {
    type: 'object',
    required: ['jsonrpc', 'error'],
    properties: {
      jsonrpc: { const: '2.0' },
      error: {
        type: 'object',
        required: ['code', 'message'],
        properties: {
          code: { type: 'integer' },
          message: { type: 'string', description: 'A human-readable message' },
          data: { type: 'object' },
        },
      },
    },
  };
}

function errorSchema(): Schema {
  return {
    type: 'object',
    required: ['error', 'code'],
    properties: {
      error: { type: 'string', description: 'A human-readable message' },
      code: { type: 'string', enum: Object.keys(errorTable) },
      details: {
        description: 'The invalid fields, or the capability of a `capability_missing`',
        anyOf: [
          {
            type: 'array',
            items: {
              type: 'object',
              required: ['path', 'message'],
              properties: { path: { type: 'string' }, message: { type: 'string' } },
            },
          },
          withLocalRefs(z.toJSONSchema(capabilityDetailsSchema)),
        ],
      },
    },
  };
}

const named = {
  Approval: approvalSchema,
  AuditEntry: auditEntrySchema,
  ChatFrame: chatFrameSchema,
  Checkpoint: checkpointEnvelopeSchema,
  Credential: credentialSchema,
  Decider: deciderSchema,
  DeliveryFrame: deliveryFrameSchema,
  FeedFrame: feedFrameSchema,
  Grant: grantSchema,
  Json: jsonSchema,
  Key: keySchema,
  Memory: memorySchema,
  Message: messageSchema,
  Permissions: permissionsSchema,
  Policy: policySchema,
  PolicyRules: policyRulesSchema,
  Rule: toolPermissionSchema,
  Run: runSchema,
  RunError: runErrorSchema,
  RunEvent: eventSchema,
  RunsFrame: runsFrameSchema,
  RuntimeFrame: runtimeFrameSchema,
  Session: sessionSchema,
  SessionFrame: sessionFrameSchema,
  Tenant: tenantSchema,
  Usage: wireUsageSchema,
  Webhook: webhookSchema,
} as const satisfies Record<string, z.ZodType>;

for (const [id, schema] of Object.entries(named)) {
  z.globalRegistry.add(schema, { ...z.globalRegistry.get(schema), id });
}

/** Converts schemas, and collects the named schemas that they refer to. */
class OpenApiSchemas {
  /** `z.json()` is recursive, and clients generated from a recursive type do not compile. */
  readonly #found = new Map<string, Schema>([['Json', { description: 'Any JSON value' }]]);

  of(schema: z.ZodType, io: 'input' | 'output'): Schema {
    const { $defs = {}, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
    for (const [name, found] of Object.entries($defs)) {
      if (name in named) this.#found.set(name, withLocalRefs(found));
    }
    return withLocalRefs(rest);
  }

  get components(): Record<string, Schema> {
    return Object.fromEntries([...this.#found].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** Rewrites references to the document's components; an unnamed one is always `z.json()`. */
function withLocalRefs(schema: Schema): Schema {
  const own = { ...schema, $schema: undefined, id: undefined };
  return JSON.parse(JSON.stringify(own), (key, value: unknown) => {
    if (key !== '$ref' || typeof value !== 'string') return value;
    const [name = ''] = value.match(/\w+$/) ?? [];
    return `#/components/schemas/${name in named ? name : 'Json'}`;
  }) as Schema;
}
