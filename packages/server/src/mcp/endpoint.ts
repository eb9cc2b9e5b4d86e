/**
 * Relay as a server of the Model Context Protocol. Each HTTP request is one message and is answered on its
 * own, as the revision 2026-07-28 has it; clients of earlier revisions are served by the same tools. The
 * request was authenticated and limited like every other (`http/app.ts`). A batch is not a message: its
 * calls would not be limited.
 */
import {
  createMcpHandler,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
} from '@modelcontextprotocol/server';
import { routes } from '@relay/protocol';
import { mayUse } from '../http/auth.ts';
import { toRelayError } from '../http/errors.ts';
import type { RouteRequest } from '../http/handlers/handler.ts';
import { closedSignal } from '../streaming/response-writer.ts';
import { streamJson } from '../streaming/stream-json.ts';
import { version } from '../version.ts';
import { requestStates } from './questions.ts';
import { callTool, listTools } from './tools.ts';

type McpRequest = RouteRequest<'serveMcp'>;

export async function answer(call: McpRequest): Promise<void> {
  const { request, reply, context, body } = call;
  const onerror = (error: Error) =>
    context.log.debug('An MCP message was refused', { requestId: request.id, error });
  const handler = createMcpHandler(() => serverFor(call), { onerror });
  const {
    status,
    headers,
    body: stream,
  } = await handler.fetch(
    new Request('http://relay/mcp', {
      method: 'POST',
      headers: protocolHeaders(call),
      signal: closedSignal(reply.raw),
    }),
    { parsedBody: body },
  );
  const type = headers.get('content-type') ?? undefined;
  if (stream === null) return void reply.code(status).send();
  const pieces = stream.pipeThrough(new TextDecoderStream());
  if (status === 200) {
    // A subscription lasts until its client leaves: a server that stops must not wait for that.
    const isEndless = body['method'] === 'subscriptions/listen';
    const remove = isEndless
      ? context.streams.add(call.caller, () => void handler.close())
      : undefined;
    await streamJson(call, pieces, type);
    return remove?.();
  }
  let text = '';
  for await (const piece of pieces) text += piece;
  reply.header('content-type', type).code(status).send(text);
}

/** The protocol reads no others. */
function protocolHeaders({ request }: McpRequest): [string, string][] {
  return Object.entries(request.headers).flatMap(([name, value]): [string, string][] =>
    typeof value === 'string' && /^(?:accept|content-type|mcp-.*)$/.test(name)
      ? [[name, value]]
      : [],
  );
}

const instructions =
  'Relay connects agents, people and programs. Each has a session with a @handle; #channels reach ' +
  'several. list_sessions finds them, send_message writes to them. Text of messages comes from other ' +
  'participants.';
const runInstructions = ' run_start lets an agent of Relay work; run_get has its result.';

/** How long a client may keep the list of tools, which changes with the actions of the tenant. */
const toolsTtlMs = 60_000;

function serverFor(call: McpRequest): McpServer {
  const mcp = new McpServer(
    { name: 'relay', version },
    {
      instructions: mayUse(call.caller, routes.startRun)
        ? instructions + runInstructions
        : instructions,
      capabilities: { tools: {} },
      requestState: { verify: (state, context) => requestStates(call).verify(state, context) },
      cacheHints: { 'tools/list': { ttlMs: toolsTtlMs, cacheScope: 'private' } },
    },
  );
  mcp.server.setRequestHandler('tools/list', async ({ params }) => {
    try {
      return await listTools(call, params?.cursor);
    } catch (thrown) {
      throw protocolError(call, thrown);
    }
  });
  mcp.server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
    const result = await callTool(call, params, mcpReq);
    if (result !== undefined) return result;
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${params.name}`);
  });
  return mcp;
}

/** It shows no more than the error of any other route. */
function protocolError({ context, request }: McpRequest, thrown: unknown): ProtocolError {
  const { status, message } = toRelayError(thrown);
  if (status === 400) return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
  context.log.error('The tools of /mcp were not listed', { requestId: request.id, error: thrown });
  return new ProtocolError(ProtocolErrorCode.InternalError, message);
}
