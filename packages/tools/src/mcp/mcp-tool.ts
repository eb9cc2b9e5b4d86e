/** A tool of an MCP server as one of ours. What the server says about it is text, never trust. */
import type { Tool as ListedTool } from '@modelcontextprotocol/client';
import {
  isNestedTooDeep,
  type Tool,
  type ToolContext,
  type ToolOutput,
  type Validation,
} from '@relay/core';
import { checkToolSchema, issuesOfValue } from '@relay/protocol';
import { type McpConnection, SessionLost } from './connection.ts';
import { cut, outputOf } from './output.ts';
import { Concealer } from './secrets.ts';
import type { McpServerConfig, ToolChoice } from './settings.ts';
import { qualifiedName } from './tool-names.ts';

const maxDescriptionChars = 4_096;

export interface Offer {
  readonly name: string;
  readonly listed: ListedTool;
  readonly config: McpServerConfig;
  readonly ready: (signal: AbortSignal) => Promise<McpConnection>;
}

/** Why its schema is of no use here; undefined if it is. */
export function problemOf({ inputSchema }: ListedTool): string | undefined {
  if (isNestedTooDeep(JSON.stringify(inputSchema))) return 'It is nested too deep';
  const [issue] = checkToolSchema(inputSchema);
  return issue === undefined ? undefined : `${issue.path}: ${issue.message}`;
}

export function createMcpTool({ name, listed, config, ready }: Offer): Tool {
  const concealer = new Concealer(config);
  const { $schema: _, ...inputSchema } = concealer.value(listed.inputSchema);
  const { readOnlyHint, idempotentHint } = listed.annotations ?? {};
  const isListed = (tools: readonly string[]) => tools.includes(listed.name);
  const isReadOnly = isMeant(config.readOnly, { isListed, hint: readOnlyHint });
  const description = concealer.text(listed.description ?? listed.title ?? '');
  return {
    name,
    description: cut(description, maxDescriptionChars),
    inputSchema,
    allowedByDefault: isReadOnly,
    idempotent: isReadOnly || isMeant(config.idempotent, { isListed, hint: idempotentHint }),
    onUnknown: 'ask',
    ...kindsIn(config, (tool) => tool === listed.name),
    validate(input) {
      const issues = issuesOfValue(inputSchema, input);
      return issues.length === 0 ? { ok: true, value: input } : { ok: false, issues };
    },
    async execute(input, context) {
      try {
        return concealer.output(
          await execute({ ready, listed }, input, concealer.context(context)),
        );
      } catch (error) {
        throw concealer.error(error);
      }
    },
  };
}

/**
 * In the place of a tool whose server has not yet said what it offers. Runs that wait for it are not
 * told that it does not exist, and nothing about a call that was under way is forgotten.
 */
export function createAwaitedTool(offer: {
  readonly name: string;
  readonly server: string;
  readonly config: McpServerConfig;
  /** The tool itself, as soon as its server is there; throws if it never comes. */
  readonly find: (signal: AbortSignal) => Promise<Tool>;
}): Tool {
  const { server, config } = offer;
  const isListed = (tools: readonly string[]) =>
    tools.some((tool) => qualifiedName(server, tool) === offer.name);
  return {
    name: offer.name,
    description: `Not available now: the MCP server ${server} is not connected.`,
    inputSchema: { type: 'object' },
    allowedByDefault: false,
    idempotent: isMeant(config.readOnly, { isListed }) || isMeant(config.idempotent, { isListed }),
    onUnknown: 'ask',
    // Rules may be asked before the server is there, and must not be more lenient for it.
    ...kindsIn(config, (tool) => qualifiedName(server, tool) === offer.name),
    validate: (input): Validation => ({ ok: true, value: input }),
    async execute(input, context) {
      const tool = await offer.find(context.signal);
      const checked = tool.validate(input);
      if (checked.ok) return tool.execute(checked.value, context);
      const [issue] = checked.issues;
      throw new TypeError(`Invalid arguments: ${issue?.path ?? ''}: ${issue?.message ?? ''}`);
    },
  };
}

function kindsIn(
  { kinds = {} }: McpServerConfig,
  isMeant: (tool: string) => boolean,
): Pick<Tool, 'kinds'> {
  const found = Object.entries(kinds).find(([tool]) => isMeant(tool))?.[1];
  return found === undefined ? {} : { kinds: found };
}

/** Without the operator's word a tool is asked about, and never run twice. */
function isMeant(
  choice: ToolChoice | undefined,
  of: { isListed: (tools: readonly string[]) => boolean; hint?: boolean | undefined },
): boolean {
  if (choice === undefined) return false;
  if (choice === 'annotated') return of.hint === true;
  return choice === true || of.isListed(choice);
}

async function execute(
  { ready, listed }: Pick<Offer, 'ready' | 'listed'>,
  input: unknown,
  context: ToolContext,
): Promise<ToolOutput> {
  const asked = { tool: listed, input: input as Record<string, unknown> };
  const connection = await ready(context.signal);
  try {
    return outputOf(await connection.call(asked, context));
  } catch (error) {
    if (!(error instanceof SessionLost)) throw error;
    // The server knew nothing of the session, so it has done nothing for it.
    const next = await ready(context.signal);
    return outputOf(await next.call(asked, context));
  }
}
