/**
 * The tools of `/mcp`. Behind a tool is a route of the HTTP API: the same rights, the same validation, the
 * same handler. Only its description and its result are for a model, and as short as they can be.
 */
import type {
  CallToolRequest,
  CallToolResult,
  ListToolsResult,
  Tool,
} from '@modelcontextprotocol/server';
import {
  agentStatuses,
  defined,
  deliveryModes,
  escapeMisleading,
  type Route,
  routes,
} from '@relay/protocol';
import { z } from 'zod';
import { type Caller, mayUse, noteRefusal, requireAccess } from '../http/auth.ts';
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
import { check, validate } from '../http/validate.ts';
import { readListed } from '../http/views/pagination.ts';
import { noteSeen } from '../streaming/deliveries.ts';
import { actionOf, callAction, invocationAnswer, mayInvoke, toolOf } from './actions.ts';
import {
  failureOf,
  lineOf,
  listOf,
  messageLine,
  resultOf,
  shortMessage,
  type ToolAnswer,
} from './answer.ts';
import { checkMessages } from './check-messages.ts';

type Arguments = Readonly<Record<string, unknown>>;

/** What a client sends with a call that it may repeat. */
const idempotencyKeyName = 'relay/idempotencyKey';
const metaSchema = z.looseObject({
  [idempotencyKeyName]: z.string().min(1).max(255).optional(),
});

interface McpTool extends Omit<Tool, 'name'> {
  /** Who may use this route may call the tool. */
  readonly route: CallerRoute;
  /** An API key has no inbox; a session must declare that it invokes actions. */
  readonly needs?: 'inbox' | 'invoke';
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
    needs: 'inbox',
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
        name: escapeMisleading(name),
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
  list_actions: {
    route: 'listActions',
    needs: 'invoke',
    description: 'List the actions of others; each is the tool action_<name>.',
    inputSchema: { type: 'object', properties: { cursor } },
    annotations: { readOnlyHint: true },
    async call(call, args) {
      const { actions, nextCursor } = await callRoute(call, 'listActions', { query: args });
      const shown = actions.map(({ name, description }) => ({
        name,
        description: escapeMisleading(description),
      }));
      return listOf(
        'actions',
        shown,
        nextCursor,
        (each) => `${each.name}: ${lineOf(each.description)}`,
      );
    },
  },
  get_invocation: {
    route: 'getInvocation',
    needs: 'invoke',
    description: 'Get the result of an action that was not finished.',
    inputSchema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
    annotations: { readOnlyHint: true },
    call: async (call, args) =>
      invocationAnswer(await callRoute(call, 'getInvocation', { params: args })),
  },
};

const actionsAtOnce = 100;

/** Those that the caller may use, always in the same order: actions come last, page by page. */
export async function listTools(call: ApiRequest, cursor?: string): Promise<ListToolsResult> {
  const invokes = await mayInvoke(call);
  const own = cursor === undefined ? toolsFor(call.caller, invokes) : [];
  if (!invokes) return { tools: own };
  const query = { limit: String(actionsAtOnce), ...defined({ cursor }) };
  const { actions, nextCursor } = await callRoute(call, 'listActions', { query });
  // A key sees all of them, but has only those that everyone has.
  const { session } = call.caller;
  const usable = actions.filter(
    ({ availableTo }) => session !== undefined || availableTo === undefined,
  );
  return {
    tools: [...own, ...usable.map(toolOf)],
    ...defined({ nextCursor: nextCursor ?? undefined }),
  };
}

function toolsFor(caller: Caller, invokes: boolean): Tool[] {
  const has = { inbox: caller.session !== undefined, invoke: invokes };
  return Object.entries(tools).flatMap(([name, tool]) => {
    const { route, needs, call: _, ...definition } = tool;
    const isShown = mayUse(caller, routes[route]) && (needs === undefined || has[needs]);
    return isShown ? [{ name, ...definition }] : [];
  });
}

/** Undefined if there is no such tool. A failure is a result, too. */
export async function callTool(
  call: ApiRequest,
  { name, arguments: args = {}, _meta: meta = {} }: CallToolRequest['params'],
): Promise<CallToolResult | undefined> {
  const { caller, context, request } = call;
  const action = actionOf(name);
  const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
  if (action === undefined && tool === undefined) return undefined;
  const route: Route = routes[tool?.route ?? 'invokeAction'];
  try {
    requireAccess(caller, route, { id: caller.session?.id });
    if (caller.session !== undefined && tool?.needs !== 'inbox') {
      await noteSeen(call, { tenantId: caller.tenantId, sessionId: caller.session.id });
    }
    const { [idempotencyKeyName]: key } = check(metaSchema, meta);
    if (tool !== undefined) return resultOf(await tool.call(call, args, key));
    const { params } = inputOf('invokeAction', { params: { name: action }, body: {} });
    const input = { input: args, ...defined({ idempotencyKey: key }) };
    return resultOf(await callAction(call, params.name, input));
  } catch (thrown) {
    const error = toRelayError(thrown);
    noteRefusal(context, route, { caller, request, error });
    if (error.status >= 500) {
      const { code } = error;
      const fields = { requestId: request.id, tool: name, code, error: thrown };
      context.log.error('A tool of /mcp failed', fields);
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
