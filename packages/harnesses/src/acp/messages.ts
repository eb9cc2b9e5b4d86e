/**
 * What an agent sends, checked. The SDK checks the parameters of requests, but no results, and it reports an
 * update that is invalid or of an unknown kind only on the console.
 */
import { type AnyMessage, RequestError, type SessionNotification } from '@agentclientprotocol/sdk';
import { z } from 'zod';

export type SessionUpdate = SessionNotification['update'];

const idSchema = z.union([z.string(), z.number()]);
const callSchema = z.looseObject({
  jsonrpc: z.literal('2.0'),
  method: z.string(),
  id: idSchema.optional(),
});
const resultSchema = z.looseObject({ jsonrpc: z.literal('2.0'), id: idSchema });

export type ReceivedMessage =
  | { readonly kind: 'request'; readonly id: string | number; readonly message: AnyMessage }
  | { readonly kind: 'notification'; readonly method: string; readonly message: AnyMessage }
  | { readonly kind: 'response'; readonly id: string | number; readonly message: AnyMessage };

/** Undefined: the line is no message of JSON-RPC. */
export function parseMessage(line: string): ReceivedMessage | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  const message = value as AnyMessage;
  const call = callSchema.safeParse(value).data;
  if (call !== undefined) {
    return call.id === undefined
      ? { kind: 'notification', method: call.method, message }
      : { kind: 'request', id: call.id, message };
  }
  const result = resultSchema.safeParse(value).data;
  if (result === undefined || 'method' in result) return undefined;
  return { kind: 'response', id: result.id, message };
}

/** A list without its invalid items. */
function valid<Item extends z.ZodType>(item: Item) {
  return z
    .array(z.unknown())
    .transform((items) => items.flatMap((each) => item.safeParse(each).data ?? []));
}

const block = z
  .looseObject({ type: z.string(), text: z.string().optional() })
  .refine(({ type, text }) => type !== 'text' || text !== undefined);
const chunk = z.looseObject({ content: block, messageId: z.string().nullish().catch(undefined) });
const toolContent = z.union([
  z.looseObject({ type: z.literal('content'), content: block }),
  z.looseObject({
    type: z.literal('diff'),
    path: z.string(),
    newText: z.string(),
    oldText: z.string().nullish(),
  }),
  z.looseObject({ type: z.literal('terminal'), terminalId: z.string() }),
]);
const toolCall = z.looseObject({
  toolCallId: z.string(),
  title: z.string().nullish(),
  name: z.string().nullish().catch(undefined),
  kind: z.string().nullish().catch(undefined),
  status: z.enum(['pending', 'in_progress', 'completed', 'failed']).nullish().catch(undefined),
  content: valid(toolContent).nullish().catch(undefined),
  locations: valid(z.looseObject({ path: z.string() }))
    .nullish()
    .catch(undefined),
});
const planEntry = z.looseObject({ content: z.string(), priority: z.string(), status: z.string() });

/** The updates that Relay knows; others are ignored. */
const updates: Readonly<Partial<Record<SessionUpdate['sessionUpdate'], z.ZodType>>> = {
  user_message_chunk: chunk,
  agent_message_chunk: chunk,
  agent_thought_chunk: chunk,
  tool_call: toolCall.extend({ title: z.string() }),
  tool_call_update: toolCall,
  plan: z.looseObject({ entries: valid(planEntry) }),
  usage_update: z.looseObject({
    used: z.number().catch(0),
    size: z.number().catch(0),
    cost: z.looseObject({ amount: z.number(), currency: z.string() }).nullish().catch(undefined),
  }),
  current_mode_update: z.looseObject({ currentModeId: z.string() }),
};
const updateParams = z.looseObject({
  sessionId: z.string(),
  update: z.looseObject({ sessionUpdate: z.string() }),
});

/** The parameters of `session/update`. */
export function parseUpdate(
  params: unknown,
): { readonly sessionId: string; readonly update: SessionUpdate } | 'unknown' | 'invalid' {
  const notification = updateParams.safeParse(params).data;
  if (notification === undefined) return 'invalid';
  const { sessionId, update } = notification;
  const kind = update.sessionUpdate;
  if (!Object.hasOwn(updates, kind)) return 'unknown';
  const parsed = updates[kind as SessionUpdate['sessionUpdate']]?.safeParse(update);
  if (parsed?.success !== true) return 'invalid';
  return { sessionId, update: parsed.data as SessionUpdate };
}

const newSession = z.looseObject({ sessionId: z.string() });
const results: Readonly<Record<string, z.ZodType>> = {
  initialize: z.looseObject({
    protocolVersion: z.number(),
    agentCapabilities: z.looseObject({}).nullish(),
    agentInfo: z.looseObject({ name: z.string() }).nullish(),
    _meta: z.looseObject({}).nullish(),
  }),
  'session/new': newSession,
  'session/fork': newSession,
  'session/prompt': z.looseObject({ stopReason: z.string() }),
};

/** What is wrong with the result of a request; undefined if it is valid, or an error. */
export function resultProblem(method: string, message: AnyMessage): string | undefined {
  if ('error' in message || !Object.hasOwn(results, method)) return undefined;
  const issue = results[method]?.safeParse('result' in message ? message.result : undefined).error
    ?.issues[0];
  if (issue === undefined) return undefined;
  return `The agent answered ${method} with an invalid result: ${[...issue.path, issue.message].join(': ')}`;
}

/** The protocol's code. */
const authenticationRequired = -32_000;

/** Agents put the cause into the data of an error, and "Internal error" into its message. */
export function problemOf(error: unknown): string {
  if (!(error instanceof RequestError)) {
    return error instanceof Error ? error.message : String(error);
  }
  const { code, message, data } = error;
  if (code === authenticationRequired) {
    return `${message} (store the key of its model provider with "relay credentials set PROVIDER")`;
  }
  const details =
    typeof data === 'object' && data !== null && 'details' in data ? data.details : '';
  return typeof details === 'string' && details !== '' ? `${message}: ${details}` : message;
}
