/**
 * The tools of `/mcp`. Behind a tool is a route of the HTTP API: the same rights, the same validation, the
 * same handler. Only its description and its result are for a model, and as short as they can be.
 */
import {
  type CallToolRequest,
  type CallToolResult,
  type InputRequiredResult,
  isInputRequiredResult,
  type ListToolsResult,
  type ServerContext,
  type Tool,
} from '@modelcontextprotocol/server';
import { noteSeen } from '@relay/core';
import {
  agentStatuses,
  defined,
  deliveryModes,
  escapeMisleading,
  messageModes,
  RelayError,
  type Route,
  routes,
} from '@relay/protocol';
import { z } from 'zod';
import { type Caller, mayUse, noteRefusal, requireAccess } from '../http/auth.ts';
import { toRelayError } from '../http/errors.ts';
import { type ApiRequest, type CallerRoute, storeOf } from '../http/handlers/handler.ts';
import { check } from '../http/validate.ts';
import { readListed } from '../http/views/pagination.ts';
import { actionOf, callAction, invocationAnswer, mayInvoke, toolOf } from './actions.ts';
import { failureOf, lineOf, listOf, messageLine, resultOf, shortMessage } from './answer.ts';
import { type Arguments, callRoute, inputOf, textsOf, type ToolCall } from './call-route.ts';
import { checkMessages } from './check-messages.ts';
import { approvalsList, runCancel, runGet, runMessage, runStart } from './runs.ts';

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
  readonly call: ToolCall;
}

const cursor = { type: 'string' };
const id = { type: 'string' };
const waitMs = { type: 'integer', description: 'Up to 60000. Default: 25000' };

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
    async call(call, args, { idempotencyKey }) {
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
  run_start: {
    route: 'startRun',
    description: 'Start a run of an agent and wait for its answer.',
    inputSchema: {
      type: 'object',
      properties: {
        input: { type: 'string' },
        agent: { type: 'string' },
        model: { type: 'string' },
        conversationId: { type: 'string', description: 'Continues it' },
        waitMs,
      },
      required: ['input'],
    },
    call: runStart,
  },
  run_get: {
    route: 'getRun',
    description: 'Get the status and answer of a run, or what it waits for.',
    inputSchema: {
      type: 'object',
      properties: { id, waitMs: { ...waitMs, description: 'Default: 0' } },
      required: ['id'],
    },
    annotations: { destructiveHint: false },
    call: runGet,
  },
  run_message: {
    route: 'messageRun',
    description: 'Send a message to a run, or continue the conversation of one that has ended.',
    inputSchema: {
      type: 'object',
      properties: { id, text: { type: 'string' }, mode: { enum: [...messageModes] }, waitMs },
      required: ['id', 'text'],
    },
    call: runMessage,
  },
  run_cancel: {
    route: 'cancelRun',
    description: 'Cancel a run.',
    inputSchema: { type: 'object', properties: { id }, required: ['id'] },
    call: runCancel,
  },
  approvals_list: {
    route: 'listApprovals',
    description: 'List what waits for the decision of a person.',
    inputSchema: {
      type: 'object',
      properties: { runId: id, limit: { type: 'integer', description: 'Default: 20' }, cursor },
    },
    annotations: { readOnlyHint: true },
    call: approvalsList,
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
  client: ServerContext['mcpReq'],
): Promise<CallToolResult | InputRequiredResult | undefined> {
  const { caller, context, request } = call;
  const action = actionOf(name);
  const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
  if (action === undefined && tool === undefined) return undefined;
  const route: Route = routes[tool?.route ?? 'invokeAction'];
  try {
    requireAccess(caller, route, { id: caller.session?.id });
    if (caller.session !== undefined && tool?.needs !== 'inbox') {
      const ref = { tenantId: caller.tenantId, sessionId: caller.session.id };
      await noteSeen(context.control.engine, ref);
    }
    const { [idempotencyKeyName]: key } = check(metaSchema, meta);
    if (tool !== undefined) {
      checkNames(name, tool, args);
      const answer = await tool.call(call, args, { idempotencyKey: key, client });
      return isInputRequiredResult(answer) ? answer : resultOf(answer);
    }
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

/** A model corrects a misspelled name at once if it sees the right ones. */
function checkNames(name: string, { inputSchema }: McpTool, args: Arguments): void {
  const accepted = Object.keys(inputSchema.properties ?? {});
  const unknown = Object.keys(args).filter((each) => !accepted.includes(each));
  if (unknown.length === 0) return;
  const missing = (inputSchema.required ?? []).filter((each) => !Object.hasOwn(args, each));
  const details = [
    ...unknown.map((path) => ({ path, message: 'Unknown field' })),
    ...missing.map((path) => ({ path, message: 'Required' })),
  ];
  const problems = details.map(({ path, message }) => `${path}: ${message}`).join('; ');
  const takes = `${name} takes ${accepted.join(', ')}`;
  throw new RelayError('invalid_request', `${problems}. ${takes}`, { details });
}
