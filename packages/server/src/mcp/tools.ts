/**
 * The tools of `/mcp`. Behind a tool is a route of the HTTP API: the same rights, the same validation, the
 * same handler. Only its description and its result are for a model, and as short as they can be.
 */
import type { CallToolRequest, CallToolResult, Tool } from '@modelcontextprotocol/server';
import { agentStatuses, defined, deliveryModes, type Route, routes } from '@relay/protocol';
import { type Caller, noteRefusal, requireAccess } from '../http/auth.ts';
import { toRelayError } from '../http/errors.ts';
import {
  type ApiRequest,
  type CallerRoute,
  type Handler,
  type Input,
  type ResultOf,
  storeOf,
} from '../http/handlers/handler.ts';
import { handlers } from '../http/handlers/index.ts';
import { validate } from '../http/validate.ts';
import { readListed } from '../http/views/pagination.ts';
import {
  failureOf,
  listOf,
  messageLine,
  resultOf,
  shortMessage,
  type ToolAnswer,
} from './answer.ts';
import { checkMessages } from './check-messages.ts';

type Arguments = Readonly<Record<string, unknown>>;

interface McpTool extends Omit<Tool, 'name'> {
  /** Who may use this route may call the tool. */
  readonly route: CallerRoute;
  /** An API key has no inbox. */
  readonly sessionOnly?: true;
  /** `key` makes a repeated call harmless. */
  readonly call: (call: ApiRequest, args: Arguments, key?: string) => Promise<ToolAnswer>;
}

const cursor = { type: 'string' };

const tools: Readonly<Record<string, McpTool>> = {
  send_message: {
    route: 'sendMessage',
    description: 'Send a message to sessions (@handle) and channels (#name).',
    inputSchema: {
      type: 'object',
      properties: {
        to: {
          anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }],
          description: '@handle, #channel, or several. Default with replyTo: its thread',
        },
        text: { type: 'string' },
        mode: { enum: [...deliveryModes], description: 'When a busy recipient gets it' },
        replyTo: { type: 'string', description: 'Id of the message that this answers' },
      },
      required: ['text'],
    },
    annotations: { destructiveHint: false },
    async call(call, args, idempotencyKey) {
      const body = { ...args, ...defined({ idempotencyKey }) };
      const { id, deliveries } = await callRoute(call, 'sendMessage', { body });
      const shown = deliveries.map(({ handle, status, error }) => ({
        handle,
        status,
        ...defined({ error: error?.message }),
      }));
      const lines = shown.map(({ handle, status, error = '' }) =>
        `@${handle} ${status} ${error}`.trimEnd(),
      );
      return { text: `Sent ${id}: ${lines.join(', ')}`, data: { id, deliveries: shown } };
    },
  },
  check_messages: {
    route: 'followDeliveries',
    sessionOnly: true,
    description: 'Get the new messages for you. Each comes once, or again as redelivered.',
    inputSchema: {
      type: 'object',
      properties: {
        waitMs: { type: 'integer', description: 'How long to wait for one, up to 30000' },
      },
    },
    annotations: { destructiveHint: false },
    call: checkMessages,
  },
  list_messages: {
    route: 'listMessages',
    description: 'List or search earlier messages, newest first.',
    inputSchema: {
      type: 'object',
      properties: {
        with: { type: 'string', description: '@handle' },
        channel: { type: 'string', description: '#name' },
        thread: { type: 'string', description: 'Id of its first message' },
        q: { type: 'string', description: 'Words' },
        limit: { type: 'integer', description: 'Default: 20' },
        cursor,
      },
    },
    annotations: { readOnlyHint: true },
    async call(call, args) {
      const query = { limit: '20', ...textsOf(args) };
      const { messages, nextCursor } = await callRoute(call, 'listMessages', { query });
      return listOf('messages', messages.map(shortMessage), nextCursor, messageLine);
    },
  },
  list_sessions: {
    route: 'listSessions',
    description: 'List the sessions that you can write to.',
    inputSchema: {
      type: 'object',
      properties: { limit: { type: 'integer', description: 'Default: 50' }, cursor },
    },
    annotations: { readOnlyHint: true },
    async call(call, args) {
      const { query } = inputOf('listSessions', { query: textsOf(args) });
      const status = agentStatuses.filter((each) => each !== 'released');
      const list = storeOf(call).sessions;
      const { items, nextCursor } = await readListed(query, (page) => list.list({ status }, page));
      const sessions = items.map(({ handle, name, kind, status: now }) => ({
        handle,
        name,
        kind,
        status: now,
      }));
      return listOf(
        'sessions',
        sessions,
        nextCursor,
        (session) => `@${session.handle} ${session.status} (${session.kind}) ${session.name}`,
      );
    },
  },
};

/** Those that the caller may use, always in the same order. */
export async function listTools({ caller }: ApiRequest): Promise<Tool[]> {
  return Object.entries(tools).flatMap(([name, tool]) => {
    const { route: _route, sessionOnly: _only, call: _call, ...definition } = tool;
    return isOpenTo(caller, tool) ? [{ name, ...definition }] : [];
  });
}

function isOpenTo(caller: Caller, { route, sessionOnly }: McpTool): boolean {
  if (sessionOnly === true && caller.session === undefined) return false;
  try {
    requireAccess(caller, routes[route], { id: caller.session?.id });
    return true;
  } catch {
    return false;
  }
}

/** Undefined if there is no such tool. A failure is a result, too. */
export async function callTool(
  call: ApiRequest,
  { name, arguments: args = {}, _meta: meta }: CallToolRequest['params'],
): Promise<CallToolResult | undefined> {
  const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
  if (tool === undefined) return undefined;
  const { caller, context, request } = call;
  const route: Route = routes[tool.route];
  const key = meta?.['relay/idempotencyKey'];
  try {
    requireAccess(caller, route, { id: caller.session?.id });
    return resultOf(await tool.call(call, args, typeof key === 'string' ? key : undefined));
  } catch (thrown) {
    const error = toRelayError(thrown);
    noteRefusal(context, route, { caller, request, error });
    if (error.status >= 500) {
      const { code } = error;
      context.log.error('A tool of /mcp failed', {
        requestId: request.id,
        tool: name,
        code,
        error: thrown,
      });
    }
    return failureOf(error);
  }
}

/** What the HTTP API does with the same request. */
async function callRoute<Name extends CallerRoute>(
  call: ApiRequest,
  name: Name,
  given: Partial<Record<'params' | 'query' | 'body', unknown>>,
): Promise<ResultOf<Name>> {
  const table: { readonly [Key in Name]: Handler<Key> } = handlers;
  return table[name]({ ...call, ...inputOf(name, given) });
}

function inputOf<Name extends CallerRoute>(
  name: Name,
  { params, query = {}, body }: Partial<Record<'params' | 'query' | 'body', unknown>>,
): Input<Name> {
  // The types of `Input` are derived from the schemas that validate here.
  return validate(routes[name], { params, query, body }) as Input<Name>;
}

/** A query has only texts. */
function textsOf(args: Arguments): Arguments {
  const texts = Object.entries(args).map(([name, value]) => [
    name,
    typeof value === 'number' ? String(value) : value,
  ]);
  return Object.fromEntries(texts) as Arguments;
}
