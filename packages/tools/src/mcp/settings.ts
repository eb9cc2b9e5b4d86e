/** How an operator names an MCP server in `relay.config.ts`, and what may stand there. */
import type { ParameterKind } from '@relay/core';
import { z } from 'zod';

/** Of all tools of the server, of those named, or of those of which the server says so itself. */
export type ToolChoice = true | 'annotated' | readonly string[];

interface McpServer {
  /** Tools to take, by the names that the server gives them. Left out: all. */
  readonly tools?: readonly string[];
  /** Tools that change nothing: they run without an approval, and may run again after a crash. */
  readonly readOnly?: ToolChoice;
  /** Tools that may run again after a crash: the server gets the same idempotency key. */
  readonly idempotent?: ToolChoice;
  /** What the parameters of a tool are, where they are more than text. */
  readonly kinds?: Readonly<Record<string, Readonly<Record<string, ParameterKind>>>>;
  /** How long a call may be silent. Waiting for a person does not count. Default: a minute. */
  readonly timeoutMs?: number;
  /** How long the server may take to answer at first. Default: a minute. */
  readonly connectTimeoutMs?: number;
  /** Names of the tenants that have its tools. Left out: all. */
  readonly tenants?: readonly string[];
}

/** A program that is started here and spoken to by its input and output. */
export interface McpProgram extends McpServer {
  readonly command: string;
  readonly args?: readonly string[];
  /** All that it gets besides a few harmless variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Left out: where Relay was started. */
  readonly cwd?: string;
}

/** A server that is reached by Streamable HTTP. */
export interface McpEndpoint extends McpServer {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export type McpServerConfig = McpProgram | McpEndpoint;

export function isProgram(config: McpServerConfig): config is McpProgram {
  return 'command' in config;
}

/** No "_": it ends the server's name in the names of its tools. */
const serverName = /^[a-zA-Z0-9][a-zA-Z0-9-]{0,31}$/;
const list = z.array(z.string().min(1).max(256));
const choice = z.union([z.literal(true), z.literal('annotated'), list], {
  error: 'Must be true, "annotated" or a list of tools',
});
/** Timers count in 31 bits. */
const time = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);
const kind = z.enum(['command', 'path', 'url', 'text']);
const noNul = z.string().regex(/^[^\0]*$/, 'May not hold NUL');
const headerValue = z.string().regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'Must be the value of a header');

/** The library says nothing of a name but that it is wrong. */
function named<Value extends z.ZodType>(form: RegExp, value: Value) {
  return z.record(z.string(), value).superRefine((given, context) => {
    for (const name of Object.keys(given)) {
      if (form.test(name)) continue;
      context.addIssue({ code: 'custom', path: [name], message: 'It cannot be named so' });
    }
  });
}

const server = z
  .strictObject({
    command: noNul.min(1).optional(),
    args: z.array(noNul).optional(),
    env: named(/^[A-Za-z_]\w*$/, noNul).optional(),
    cwd: noNul.min(1).optional(),
    url: z.url({ protocol: /^https?$/ }).optional(),
    headers: named(/^[!#$%&'*+.^_`|~\w-]+$/, headerValue).optional(),
    tools: list.optional(),
    readOnly: choice.optional(),
    idempotent: choice.optional(),
    kinds: z.record(z.string(), z.record(z.string(), kind)).optional(),
    timeoutMs: time.optional(),
    connectTimeoutMs: time.optional(),
    tenants: list.min(1).optional(),
  })
  .superRefine((config, context) => {
    const say = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: path === '' ? [] : [path], message });
    const { command, url } = config;
    if ((command === undefined) === (url === undefined)) {
      say('', 'Must have a command or a url, and not both');
    }
    const strays = url === undefined ? (['headers'] as const) : (['args', 'env', 'cwd'] as const);
    for (const name of strays) {
      if (config[name] === undefined) continue;
      say(name, url === undefined ? 'Goes with a url alone' : 'Goes with a command alone');
    }
  });

export const mcpServersSchema = z.record(z.string(), server).superRefine((servers, context) => {
  for (const name of Object.keys(servers)) {
    if (serverName.test(name)) continue;
    const message = 'A server is named by 1 to 32 letters, digits or "-"';
    context.addIssue({ code: 'custom', path: [name], message });
  }
});
