/** The settings of MCP servers in `relay.config.ts`. */
import type { ParameterKind } from '@relay/core';
import { z } from 'zod';

/** All tools of the server, those listed, or those that the server annotates accordingly. */
export type ToolChoice = true | 'annotated' | readonly string[];

interface McpServer {
  /** The tools to use, by their names at the server. Default: all. */
  readonly tools?: readonly string[];
  /** Read-only tools: they run without an approval, and may run again after a crash. */
  readonly readOnly?: ToolChoice;
  /** Tools that may run again after a crash: the server gets the same idempotency key. */
  readonly idempotent?: ToolChoice;
  /** The kinds of parameters, by tool. Default: text. */
  readonly kinds?: Readonly<Record<string, Readonly<Record<string, ParameterKind>>>>;
  /** The maximum time without a message during a call, not counting questions. Default: a minute. */
  readonly timeoutMs?: number;
  /** The maximum time to connect. Default: a minute. */
  readonly connectTimeoutMs?: number;
  /** The names of the tenants that have its tools. Default: all. */
  readonly tenants?: readonly string[];
}

/** A program that Relay starts, and that uses stdio. */
export interface McpProgram extends McpServer {
  readonly command: string;
  readonly args?: readonly string[];
  /** Its environment, besides a few harmless variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the working directory of Relay. */
  readonly cwd?: string;
}

/** A server that uses Streamable HTTP. */
export interface McpEndpoint extends McpServer {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export type McpServerConfig = McpProgram | McpEndpoint;

export function isProgram(config: McpServerConfig): config is McpProgram {
  return 'command' in config;
}

/** No "_", which separates the server from the tool in tool names. */
const serverName = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,31}$/;
const list = z.array(z.string().min(1).max(256));
const choice = z.union([z.literal(true), z.literal('annotated'), list], {
  error: 'Must be true, "annotated" or a list of tools',
});
/** Timers are limited to 31 bits. */
const milliseconds = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);
const kind = z.enum(['command', 'path', 'url', 'text']);
const noNul = z.string().regex(/^[^\0]*$/, 'Must not contain NUL');
const headerValue = z
  .string()
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'Must be a valid header value')
  // `Bearer ${process.env['TOKEN']}` without the variable.
  .refine((value) => !/(?:^| )undefined$/.test(value), {
    message: 'Ends in "undefined": is the environment variable set?',
  });

/** A record whose keys must match; zod itself reports no useful message for keys. */
function recordWithNames<Value extends z.ZodType>(pattern: RegExp, value: Value) {
  return z.record(z.string(), value).superRefine((given, context) => {
    for (const name of Object.keys(given)) {
      if (pattern.test(name)) continue;
      context.addIssue({ code: 'custom', path: [name], message: 'Invalid name' });
    }
  });
}

const server = z
  .strictObject({
    command: noNul.min(1).optional(),
    args: z.array(noNul).optional(),
    env: recordWithNames(/^[A-Za-z_]\w*$/, noNul).optional(),
    cwd: noNul.min(1).optional(),
    url: z.url({ protocol: /^https?$/ }).optional(),
    headers: recordWithNames(/^[!#$%&'*+.^_`|~\w-]+$/, headerValue).optional(),
    tools: list.optional(),
    readOnly: choice.optional(),
    idempotent: choice.optional(),
    kinds: z.record(z.string(), z.record(z.string(), kind)).optional(),
    timeoutMs: milliseconds.optional(),
    connectTimeoutMs: milliseconds.optional(),
    tenants: list.min(1).optional(),
  })
  .superRefine((config, context) => {
    const addIssue = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: path === '' ? [] : [path], message });
    const { command, url } = config;
    if ((command === undefined) === (url === undefined)) {
      addIssue('', 'Must have a command or a url, and not both');
    }
    const misplaced =
      url === undefined ? (['headers'] as const) : (['args', 'env', 'cwd'] as const);
    for (const name of misplaced) {
      if (config[name] === undefined) continue;
      addIssue(name, url === undefined ? 'Requires a url' : 'Requires a command');
    }
  });

export const mcpServersSchema = z.record(z.string(), server).superRefine((servers, context) => {
  for (const name of Object.keys(servers)) {
    if (serverName.test(name)) continue;
    const message = 'The name of a server must have 1 to 32 letters, digits or "-"';
    context.addIssue({ code: 'custom', path: [name], message });
  }
});
