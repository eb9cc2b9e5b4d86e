/** An MCP tool as a tool of Relay. What the server says about it is not trusted. */
import { createHash } from 'node:crypto';
import type { Tool as ListedTool } from '@modelcontextprotocol/client';
import {
  isNestedTooDeep,
  type Tool,
  type ToolContext,
  type ToolOutput,
  type Validation,
} from '@relay/core';
import { canonicalJson, checkToolSchema, defined, issuesOfValue } from '@relay/protocol';
import { CallNotExecuted, type McpConnection } from './connection.ts';
import { outputOf, truncate } from './output.ts';
import { SecretRedactor } from './secrets.ts';
import { isProgram, type McpServerConfig, type ToolChoice } from './settings.ts';
import { qualifiedName } from './tool-names.ts';

const maxDescriptionChars = 4_096;

export interface McpToolOptions {
  readonly name: string;
  readonly listed: ListedTool;
  readonly config: McpServerConfig;
  readonly ready: (signal: AbortSignal) => Promise<McpConnection>;
  readonly unavailable: () => string | undefined;
}

/** Why a tool cannot be used; undefined if it can. */
export function problemOf({ inputSchema, execution }: ListedTool): string | undefined {
  if (execution?.taskSupport === 'required') {
    return 'it can be called only as an MCP task, which Relay does not support';
  }
  const problem = schemaProblem(inputSchema);
  return problem === undefined ? undefined : `its schema cannot be used: ${problem}`;
}

function schemaProblem(schema: ListedTool['inputSchema']): string | undefined {
  if (isNestedTooDeep(JSON.stringify(schema))) return 'The schema is nested too deep';
  const [issue] = checkToolSchema(schema);
  return issue === undefined ? undefined : `${issue.path}: ${issue.message}`;
}

export function createMcpTool(options: McpToolOptions): Tool {
  const { name, listed, config, ready, unavailable } = options;
  const redactor = new SecretRedactor(config);
  const { $schema: _, ...inputSchema } = redactor.value(listed.inputSchema);
  const { readOnlyHint, idempotentHint } = listed.annotations ?? {};
  const isListed = (tools: readonly string[]) => tools.includes(listed.name);
  const isReadOnly = isSelected(config.readOnly, isListed, readOnlyHint);
  const description = redactor.text(listed.description ?? listed.title ?? '');
  return {
    name,
    description: truncate(description, maxDescriptionChars),
    inputSchema,
    allowedByDefault: isReadOnly,
    idempotent: isReadOnly || isSelected(config.idempotent, isListed, idempotentHint),
    onUnknown: 'ask',
    definitionDigest: digestOfDefinition(name, listed, config),
    unavailable,
    ...kindsIn(config, (tool) => tool === listed.name),
    validate(input) {
      const issues = issuesOfValue(inputSchema, input);
      return issues.length === 0 ? { ok: true, value: input } : { ok: false, issues };
    },
    async execute(input, context) {
      try {
        return redactor.output(await execute({ ready, listed }, input, redactor.context(context)));
      } catch (error) {
        throw redactor.error(error);
      }
    },
  };
}

/**
 * Stands in for a tool whose server has not listed its tools yet, so that runs with calls of the tool
 * can continue instead of failing because of an unknown tool. A call that the operator's settings allow
 * waits for the server. One that needs an approval fails: what would be approved is not known.
 */
export function createPendingTool({
  name,
  server,
  config,
  unavailable,
  find,
}: {
  readonly name: string;
  readonly server: string;
  readonly config: McpServerConfig;
  readonly unavailable: () => string | undefined;
  /** Waits for the server, and throws if it does not connect or has no such tool. */
  readonly find: (signal: AbortSignal) => Promise<Tool>;
}): Tool {
  const isThis = (tool: string) => qualifiedName(server, tool) === name;
  const isListed = (tools: readonly string[]) => tools.some(isThis);
  const isReadOnly = isSelected(config.readOnly, isListed);
  return {
    name,
    description: `Not available: the MCP server ${server} is not connected.`,
    inputSchema: { type: 'object' },
    allowedByDefault: isReadOnly,
    idempotent: isReadOnly || isSelected(config.idempotent, isListed),
    onUnknown: 'ask',
    definitionDigest: '',
    unavailable,
    // Rules must not be more lenient before the server is connected.
    ...kindsIn(config, isThis),
    validate: (input): Validation => ({ ok: true, value: input }),
    async execute(input, context) {
      const tool = await find(context.signal);
      // Several names of a server can mean the same qualified name.
      if (isReadOnly && !tool.allowedByDefault) {
        throw new TypeError(`${name} is not the tool that readOnly of mcpServers.${server} names`);
      }
      const checked = tool.validate(input);
      if (checked.ok) return tool.execute(checked.value, context);
      const [issue] = checked.issues;
      throw new TypeError(`Invalid arguments: ${issue?.path ?? ''}: ${issue?.message ?? ''}`);
    },
  };
}

/**
 * Covers what a person and the model are told about the tool, in full, and which server says it. The
 * operator's settings are not part of it, except for the address or the program.
 */
function digestOfDefinition(name: string, listed: ListedTool, config: McpServerConfig): string {
  const { title, description, inputSchema, outputSchema, annotations } = listed;
  const server = isProgram(config) ? config.command : withoutQuery(config.url);
  const told = { title, description, inputSchema, outputSchema, annotations };
  const definition = canonicalJson({ name, tool: listed.name, server, ...defined(told) });
  return createHash('sha256').update(definition).digest('hex');
}

/** Where the server is, without what may be a secret. */
function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

function kindsIn(
  { kinds = {} }: McpServerConfig,
  matches: (tool: string) => boolean,
): Pick<Tool, 'kinds'> {
  const found = Object.entries(kinds).find(([tool]) => matches(tool))?.[1];
  return found === undefined ? {} : { kinds: found };
}

/** Whether the operator's choice includes a tool. Default: no. */
function isSelected(
  choice: ToolChoice | undefined,
  isListed: (tools: readonly string[]) => boolean,
  hint?: boolean,
): boolean {
  if (choice === undefined) return false;
  if (choice === 'annotated') return hint === true;
  return choice === true || isListed(choice);
}

async function execute(
  { ready, listed }: Pick<McpToolOptions, 'ready' | 'listed'>,
  input: unknown,
  context: ToolContext,
): Promise<ToolOutput> {
  const request = { tool: listed, input: input as Record<string, unknown> };
  const connection = await ready(context.signal);
  try {
    return outputOf(await connection.call(request, context));
  } catch (error) {
    if (!(error instanceof CallNotExecuted)) throw error;
    const next = await ready(context.signal);
    return outputOf(await next.call(request, context));
  }
}
