/** The OpenAPI document, made from the table of routes: nothing is described twice. */
import type { z } from 'zod';
import { errorTable, type ErrorCode } from '../errors.ts';
import { OpenApiSchemas, type Schema } from './schemas.ts';
import { type Route, routes } from '../routes/index.ts';

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
    // Wherever this document comes from.
    servers: [{ url: '/' }],
    paths,
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key, relay_live_…' },
        internal: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'Internal, a space, and RELAY_INTERNAL_SECRET',
        },
      },
      schemas: { Error: errorSchema(), ...schemas.components },
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
    responses: { ...answerOf(route, schemas), ...failuresOf(route.errors) },
    ...securityOf(route),
  };
}

/** The first part of the path that says what it is about. */
function tagOf(path: string): string {
  const [first = '', second] = path.split('/').filter((part) => part !== '');
  if (first === 'v1') return second ?? first;
  if (first === 'api') return 'api/chat';
  return ['chat', 'models'].includes(first) ? first : 'system';
}

function securityOf(route: Route): Schema {
  if (route.auth === 'public' || route.auth === 'link') return { security: [] };
  if (route.auth === 'internal') return { security: [{ internal: [] }] };
  const { scopes, anyScope } = route;
  const keys =
    anyScope === true ? scopes.map((scope) => ({ key: [scope] })) : [{ key: [...scopes] }];
  const others = { key: [], 'internal-or-key': [{ internal: [] }], 'local-or-key': [{}] };
  return { security: [...keys, ...others[route.auth]] };
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
    ...(description === undefined ? {} : { description }),
    schema: property,
  }));
}

const headers: Readonly<Record<string, Schema>> = {
  'Idempotency-Key': {
    description: 'Sent again with the same body within 24 hours, it names the same run',
    schema: { type: 'string', minLength: 1, maxLength: 255 },
  },
  'Last-Event-ID': {
    description: 'The id of the last frame that was seen: exactly what follows it is sent',
    schema: { type: 'string', pattern: '^\\d{1,15}$' },
  },
};

const headersByRoute: Readonly<Record<string, readonly string[]>> = {
  startRun: ['Idempotency-Key'],
  startApiChat: ['Idempotency-Key'],
  followRun: ['Last-Event-ID'],
};

function headersOf(name: string): Schema[] {
  return (headersByRoute[name] ?? []).map((header) => ({
    name: header,
    in: 'header',
    required: false,
    ...headers[header],
  }));
}

function answerOf(route: Route, schemas: OpenApiSchemas): Schema {
  const { output } = route;
  if (route.answer === 'none') return { '204': { description: 'Done; also when it was before' } };
  if (route.answer === 'sse') {
    return {
      '200': {
        description: 'A stream of events; frames of a journal have the id of their entry',
        headers: { 'x-run-id': { description: 'The run', schema: { type: 'string' } } },
        content: { 'text/event-stream': { schema: { type: 'string' } } },
      },
    };
  }
  if (route.answer === 'html' || route.answer === 'text') {
    const type = route.answer === 'html' ? 'text/html' : 'text/plain';
    return { '200': { description: route.summary, content: { [type]: {} } } };
  }
  const content =
    output === undefined
      ? {}
      : { content: { 'application/json': { schema: schemas.of(output, 'output') } } };
  return {
    [String(route.status ?? 200)]: { description: route.summary, ...content },
    ...(route.mayBeNothing === true ? { '204': { description: 'Nothing yet' } } : {}),
  };
}

/** One answer for each status, with the codes that can come with it. */
function failuresOf(codes: readonly ErrorCode[]): Schema {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codes) {
    const { status } = errorTable[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, all]) => [
      String(status),
      {
        description: all.map((code) => `\`${code}\`: ${errorTable[code].title}`).join('\n\n'),
        content: {
          'application/json': {
            schema: {
              allOf: [
                { $ref: '#/components/schemas/Error' },
                { properties: { code: { enum: all } } },
              ],
            },
          },
        },
      },
    ]),
  );
}

function errorSchema(): Schema {
  return {
    type: 'object',
    required: ['error', 'code'],
    properties: {
      error: { type: 'string', description: 'A sentence for people' },
      code: { type: 'string', enum: Object.keys(errorTable) },
      details: {
        type: 'array',
        items: {
          type: 'object',
          required: ['path', 'message'],
          properties: { path: { type: 'string' }, message: { type: 'string' } },
        },
      },
    },
  };
}
