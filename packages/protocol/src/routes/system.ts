import { z } from 'zod';
import { keyErrors, listOf, type Route } from './route.ts';

const healthSchema = z.object({ status: z.literal('ok'), version: z.string() });

const welcomeSchema = z.object({
  name: z.literal('Relay'),
  version: z.string(),
  docs: z.string(),
  openapi: z.string(),
  health: z.string(),
});

const listedToolSchema = z.object({
  name: z.string(),
  description: z.string(),
  inputSchema: z.record(z.string(), z.unknown()),
  /** The parameters that rules do not match as mere text. */
  kinds: z.record(z.string(), z.enum(['command', 'path', 'url'])).optional(),
  /** Needs no approval unless a rule denies it. */
  allowedByDefault: z.boolean(),
  /** A person must approve each call, whatever allows it. */
  needsApproval: z.boolean(),
  /** Safe to run again after a crash. */
  idempotent: z.boolean(),
  /** Only turns of a session, or runs with a memory, have it. */
  needs: z.enum(['session', 'memory']).optional(),
});

const mcpServerSchema = z.object({
  name: z.string(),
  connected: z.boolean(),
  /** Why it is not connected. */
  problem: z.string().optional(),
  /** How many of its tools are known. */
  tools: z.number(),
  /** Names in the configuration that mean no tool of the server, and tools that cannot be used. */
  warnings: z.array(z.string()),
});

const agentSchema = z.object({
  name: z.string(),
  description: z.string().optional(),
  /** Used unless a run names another one. */
  model: z.string().optional(),
  /** The names of its tools. Not set: those that a run names, or all of the tenant in a chat. */
  tools: z.array(z.string()).optional(),
  /** The names of agents that it may hand off to. */
  handoffs: z.array(z.string()).optional(),
  /** The namespace of its memories. Not set: it has none, unless a run names one. */
  memory: z.string().optional(),
  /** Used if a run names no agent. */
  isDefault: z.boolean(),
});

export const systemRoutes = {
  welcome: {
    method: 'GET',
    path: '/',
    summary: 'Get the name and version of the server, with links',
    auth: 'public',
    scopes: [],
    output: welcomeSchema,
    errors: [],
  },
  health: {
    method: 'GET',
    path: '/health',
    summary: 'Check that the process is alive',
    auth: 'public',
    scopes: [],
    output: healthSchema,
    errors: [],
  },
  ready: {
    method: 'GET',
    path: '/ready',
    summary: 'Check that the store responds and the server accepts runs',
    auth: 'public',
    scopes: [],
    output: z.object({ status: z.literal('ready') }),
    errors: ['shutting_down', 'storage_failed'],
  },
  openApi: {
    method: 'GET',
    path: '/openapi.json',
    summary: 'Get the OpenAPI document',
    auth: 'public',
    scopes: [],
    output: z.looseObject({ openapi: z.string() }),
    errors: [],
  },
  docs: {
    method: 'GET',
    path: '/docs',
    summary: 'Show the API reference as a page',
    auth: 'public',
    scopes: [],
    responseType: 'html',
    errors: [],
  },
  metrics: {
    method: 'GET',
    path: '/metrics',
    summary: 'Get metrics in the Prometheus format',
    auth: 'internal-or-key',
    scopes: ['admin'],
    cookie: false,
    responseType: 'text',
    errors: [...keyErrors],
  },
  listModels: {
    method: 'GET',
    path: '/models',
    summary: 'List models',
    auth: 'local-or-key',
    scopes: ['read'],
    output: z.object({
      models: z.array(z.object({ id: z.string(), provider: z.string() })),
      defaultModel: z.string().optional(),
    }),
    errors: [...keyErrors],
  },
  listAgents: {
    method: 'GET',
    path: '/v1/agents',
    summary: 'List the agents that runs can name, the default agent first',
    scopes: ['read'],
    output: listOf('agents', agentSchema),
    errors: [...keyErrors],
  },
  listTools: {
    method: 'GET',
    path: '/v1/tools',
    summary: 'List built-in tools, the tools of MCP servers, and whether these are connected',
    scopes: ['read'],
    output: z.object({ tools: z.array(listedToolSchema), mcpServers: z.array(mcpServerSchema) }),
    errors: [...keyErrors],
  },
} as const satisfies Record<string, Route>;
