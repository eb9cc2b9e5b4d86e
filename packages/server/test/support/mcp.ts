/** Clients of `/mcp`: the current one, one of 2025, and single messages without a client. */
import {
  Client as CurrentClient,
  StreamableHTTPClientTransport as CurrentTransport,
} from '@modelcontextprotocol/client';
import { Client as Client2025 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Transport2025 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { expect } from 'vitest';
import type { RequestOptions, TestServer } from './server.ts';

export interface ToolResult {
  readonly isError?: boolean;
  readonly content: readonly { type: string; text?: string; data?: string }[];
  readonly structuredContent?: Record<string, unknown>;
}

export interface Progress {
  readonly progress: number;
  readonly message?: string | undefined;
}

export interface McpClient {
  tools(): Promise<string[]>;
  call(name: string, args?: object, options?: CallOptions): Promise<ToolResult>;
  close(): Promise<void>;
}

export interface CallOptions {
  readonly meta?: object;
  readonly onprogress?: (progress: Progress) => void;
}

/** What the user of a client answers to a form. */
export type AnswerForm = (form: { readonly message: string; readonly requestedSchema: object }) => {
  action: 'accept' | 'decline' | 'cancel';
  content?: Record<string, string>;
};

export type Connect = (server: TestServer, key: string, user?: AnswerForm) => Promise<McpClient>;

type Call = { name: string; arguments: Record<string, unknown>; _meta?: Record<string, unknown> };

const endpointOf = ({ url }: TestServer) => new URL('/mcp', url);
const headersOf = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });
const callOf = (name: string, args: object, { meta = {} }: CallOptions): Call => ({
  name,
  arguments: { ...args },
  _meta: { ...meta },
});

const current: Connect = async (server, key, user) => {
  const client = new CurrentClient(
    { name: 'current', version: '1' },
    {
      versionNegotiation: { mode: 'auto' },
      capabilities: user === undefined ? {} : { elicitation: { form: {} } },
    },
  );
  if (user !== undefined) {
    client.setRequestHandler('elicitation/create', async ({ params }) => user(params as never));
  }
  await client.connect(new CurrentTransport(endpointOf(server), { requestInit: headersOf(key) }));
  expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28');
  return {
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, args = {}, options = {}) => {
      const { onprogress } = options;
      const more = onprogress === undefined ? {} : { onprogress };
      return (await client.callTool(callOf(name, args, options), more)) as never;
    },
    close: () => client.close(),
  };
};

/** It declares that it can ask its user, too: the server cannot ask it. */
const of2025: Connect = async (server, key, user) => {
  const client = new Client2025(
    { name: '2025', version: '1' },
    { capabilities: user === undefined ? {} : { elicitation: {} } },
  );
  const transport = new Transport2025(endpointOf(server), { requestInit: headersOf(key) });
  // Its types do not know `exactOptionalPropertyTypes`.
  const untyped: unknown = transport;
  await client.connect(untyped as Parameters<typeof client.connect>[0]);
  expect(transport.sessionId).toBeUndefined();
  return {
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, args = {}, options = {}) => {
      const { onprogress } = options;
      const more = onprogress === undefined ? {} : { onprogress };
      return (await client.callTool(callOf(name, args, options), undefined, more)) as never;
    },
    close: () => client.close(),
  };
};

export const mcpClients = { 'the current client': current, 'a client of 2025': of2025 };

export function textOf({ content }: ToolResult): string {
  return content.map(({ text = '' }) => text).join('\n');
}

/** One message, without a client. */
export async function postMcp(server: TestServer, body: unknown, options: RequestOptions = {}) {
  const headers = { accept: 'application/json, text/event-stream', ...options.headers };
  const response = await server.request('/mcp', { method: 'POST', ...options, body, headers });
  const text = await response.text();
  const json = text.startsWith('event:') ? /^data: (.*)$/m.exec(text)?.[1] : text;
  return {
    status: response.status,
    headers: response.headers,
    body: JSON.parse(json ?? '') as unknown,
  };
}

const revision = '2026-07-28';

/** The headers and the parameters that the revision demands of a call. */
export function currentCall(name: string, args: object, { capabilities = {}, ...more } = {}) {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': revision,
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': capabilities,
  };
  return {
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: args, _meta: meta, ...more },
    },
    headers: {
      'mcp-protocol-version': revision,
      'mcp-method': 'tools/call',
      'mcp-name': name,
    },
  };
}
