/** One tool for each action that the caller may invoke. Names of actions are names of tools already. */
import type { Tool } from '@modelcontextprotocol/server';
import { missingCapability } from '@relay/core';
import { defined, escapeMisleading, type ResponseOf, routes } from '@relay/protocol';
import { mayUse } from '../http/auth.ts';
import { invoke } from '../http/handlers/sessions/actions.ts';
import { type ApiRequest, storeOf } from '../http/handlers/handler.ts';
import { presentInvocation } from '../http/views/action.ts';
import type { ToolAnswer } from './answer.ts';

interface Action {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly idempotent: boolean;
}
type Invocation = Pick<ResponseOf<'getInvocation'>, 'id' | 'action' | 'status' | 'error'> & {
  readonly output?: unknown;
  readonly approvalId?: string | undefined;
};

/** So that no action can take the place of another tool. */
const prefix = 'action_';

/** The action that a tool invokes. */
export function actionOf(tool: string): string | undefined {
  return tool.startsWith(prefix) ? tool.slice(prefix.length) : undefined;
}

export function toolOf({ name, description, inputSchema, idempotent }: Action): Tool {
  return {
    name: `${prefix}${name}`,
    description: escapeMisleading(description),
    inputSchema: toolSchemaOf(inputSchema),
    ...defined({ annotations: idempotent ? { idempotentHint: true } : undefined }),
  };
}

/** A schema could demand that clients repeat arguments as HTTP headers, which nothing here reads. */
function toolSchemaOf(schema: Action['inputSchema']): Tool['inputSchema'] {
  const isMark = (key: string, value: unknown) =>
    key === 'x-mcp-header' && typeof value === 'string';
  return JSON.parse(JSON.stringify(schema), (key, value: unknown) =>
    isMark(key, value) ? undefined : value,
  ) as Tool['inputSchema'];
}

/** A session must declare that it invokes actions. */
export async function mayInvoke(call: ApiRequest): Promise<boolean> {
  const { caller } = call;
  if (!mayUse(caller, routes.invokeAction)) return false;
  if (caller.session === undefined) return true;
  const session = await storeOf(call).sessions.read(caller.session.id);
  const operation = { type: 'invoke-action' } as const;
  return session !== undefined && missingCapability(session.capabilities, operation) === undefined;
}

const waitMs = 30_000;

export async function callAction(
  call: ApiRequest,
  action: string,
  { input, idempotencyKey }: { readonly input: unknown; readonly idempotencyKey?: string },
): Promise<ToolAnswer> {
  const request = { action, input, ...defined({ idempotencyKey }) };
  return invocationAnswer(presentInvocation(await invoke(call, request, waitMs)));
}

export function invocationAnswer(invocation: Invocation): ToolAnswer {
  const { id, action, status, output, error, approvalId } = invocation;
  const data = { id, status, ...defined({ output, error, approvalId }) };
  switch (status) {
    case 'completed':
      return { text: typeof output === 'string' ? output : JSON.stringify(output), data };
    case 'failed':
    case 'denied':
      return { isError: true, text: `${error?.code ?? status}: ${error?.message ?? action}`, data };
    case 'waiting':
    case 'running': {
      const why = status === 'waiting' ? 'waits for an approval' : 'is still running';
      return { text: `${action} ${why}: ask get_invocation for ${id}`, data };
    }
  }
}
