import { z } from 'zod';
import { needsKey, type Route } from './route.ts';

const healthSchema = z.object({ status: z.literal('ok'), version: z.string() });

const welcomeSchema = z.object({
  name: z.literal('Relay'),
  version: z.string(),
  /** Where to go from here. */
  docs: z.string(),
  openapi: z.string(),
  health: z.string(),
});

const listedToolSchema = z.object({
  name: z.string(),
  description: z.string(),
  inputSchema: z.record(z.string(), z.unknown()),
  /** Runs without an approval unless a rule denies it. */
  allowedByDefault: z.boolean(),
  /** Safe to run again after a crash. */
  idempotent: z.boolean(),
});

export const systemRoutes = {
  welcome: {
    method: 'GET',
    path: '/',
    summary: 'Server name, version and links',
    auth: 'public',
    scopes: [],
    answer: 'json',
    output: welcomeSchema,
    errors: [],
  },
  health: {
    method: 'GET',
    path: '/health',
    summary: 'Liveness of the process',
    auth: 'public',
    scopes: [],
    answer: 'json',
    output: healthSchema,
    errors: [],
  },
  ready: {
    method: 'GET',
    path: '/ready',
    summary: 'Readiness: the store responds and runs are accepted',
    auth: 'public',
    scopes: [],
    answer: 'json',
    output: z.object({ status: z.literal('ready') }),
    errors: ['shutting_down', 'storage_failed'],
  },
  openApi: {
    method: 'GET',
    path: '/openapi.json',
    summary: 'OpenAPI document of this API',
    auth: 'public',
    scopes: [],
    answer: 'json',
    output: z.looseObject({ openapi: z.string() }),
    errors: [],
  },
  docs: {
    method: 'GET',
    path: '/docs',
    summary: 'API documentation as a web page',
    auth: 'public',
    scopes: [],
    answer: 'html',
    errors: [],
  },
  metrics: {
    method: 'GET',
    path: '/metrics',
    summary: 'Metrics in Prometheus format',
    auth: 'internal-or-key',
    scopes: ['admin'],
    answer: 'text',
    errors: [...needsKey],
  },
  listModels: {
    method: 'GET',
    path: '/models',
    summary: 'List available models',
    auth: 'local-or-key',
    scopes: ['runs'],
    answer: 'json',
    output: z.object({
      models: z.array(z.object({ id: z.string(), provider: z.string() })),
      defaultModel: z.string().optional(),
    }),
    errors: [...needsKey],
  },
  listTools: {
    method: 'GET',
    path: '/v1/tools',
    summary: 'List built-in tools and the tools of connected MCP servers',
    auth: 'key',
    scopes: ['runs'],
    answer: 'json',
    output: z.object({ tools: z.array(listedToolSchema) }),
    errors: [...needsKey],
  },
} as const satisfies Record<string, Route>;
