/** How the tools of `/mcp` use the routes of the HTTP API, and what a call of a tool has of its client. */
import type { InputRequiredResult, ServerContext } from '@modelcontextprotocol/server';
import { routes } from '@relay/protocol';
import type {
  ApiRequest,
  CallerRoute,
  Handler,
  Input,
  ResultOf,
} from '../http/handlers/handler.ts';
import { handlers } from '../http/handlers/index.ts';
import { validate } from '../http/validate.ts';
import type { ToolAnswer } from './answer.ts';

export type Arguments = Readonly<Record<string, unknown>>;

/** One call of a tool. */
export interface Exchange {
  /** Makes a repeated call harmless. */
  readonly idempotencyKey: string | undefined;
  readonly client: ServerContext['mcpReq'];
}

export type ToolCall = (
  call: ApiRequest,
  args: Arguments,
  exchange: Exchange,
) => Promise<ToolAnswer | InputRequiredResult>;

/** What the HTTP API does with the same request. */
export async function callRoute<Name extends CallerRoute>(
  call: ApiRequest,
  name: Name,
  given: Partial<Record<'params' | 'query' | 'body', unknown>>,
): Promise<ResultOf<Name>> {
  const table: { readonly [Key in Name]: Handler<Key> } = handlers;
  return table[name]({ ...call, ...inputOf(name, given) });
}

export function inputOf<Name extends CallerRoute>(
  name: Name,
  { params, query = {}, body }: Partial<Record<'params' | 'query' | 'body', unknown>>,
): Input<Name> {
  // The types of `Input` are derived from the schemas that validate here.
  return validate(routes[name], { params, query, body }) as Input<Name>;
}

/** A query has only texts. */
export function textsOf(args: Arguments): Arguments {
  const texts = Object.entries(args).map(([name, value]) => [
    name,
    typeof value === 'number' ? String(value) : value,
  ]);
  return Object.fromEntries(texts) as Arguments;
}
