import type { PathResolution, ParameterKind, Task, Tool, ToolContext } from '@relay/core';
import {
  checkToolFields,
  defined,
  type FieldIssue,
  fieldIssues,
  issueMessage,
  issuesOfValue,
  type JsonSchema,
  type ParsedInput,
  type Preview,
  type ReadSchema,
  readToolSchema,
  serverToolFields,
  toolOutputOf,
  type ToolPermission,
  type ToolSchema,
  type Validation,
} from '@relay/protocol';
import { z } from 'zod';
import { checkToolName } from './registry.ts';

interface BaseDefinition<Schema extends ToolSchema> {
  readonly name: string;
  readonly description: string;
  /**
   * A Standard Schema (zod, valibot, arktype, …) or a JSON Schema of an object: models call tools with
   * objects.
   */
  readonly schema: Schema;
  /** The JSON Schema for the model, if `schema` cannot be converted. */
  readonly inputSchema?: JsonSchema;
  /** Runs without an approval unless a rule denies it. Default: false. */
  readonly allowedByDefault?: boolean;
  /** A person must approve each call, whatever allows it. Default: false. */
  readonly needsApproval?: boolean;
  /** The kinds of parameters, which decide how rules match them. Default: text. */
  readonly kinds?: Readonly<Record<string, ParameterKind>>;
  /** Parameters that a rule with any parameters must name if the call has them. */
  readonly sensitive?: readonly string[];
  /** The rule to suggest to an approver. */
  derivePermission?(input: ParsedInput<Schema>): ToolPermission | undefined;
  /** Resolves path parameters; an approval is valid only while the result stays the same. */
  resolvePaths?(input: ParsedInput<Schema>): Promise<PathResolution>;
  /** What a call would do, for the approver. Called when an approval is requested; has no effects. */
  preview?(
    input: ParsedInput<Schema>,
    resolvedPaths: Readonly<Record<string, string>>,
  ): Promise<Preview>;
}

export interface ToolDefinition<
  Schema extends ToolSchema = ToolSchema,
> extends BaseDefinition<Schema> {
  /** Safe to run again after a crash, with the same idempotency key. Default: false. */
  readonly idempotent?: boolean;
  /** Available only in runs with memory. Default: false. */
  readonly needsMemory?: boolean;
  /** Available only in turns of sessions. Default: false. */
  readonly needsSession?: boolean;
  /** What to do when a crash left the outcome unknown. Default: ask. */
  readonly onUnknown?: 'ask' | 'fail';
  /**
   * Returns `{ context?, result?, attachments? }`, or any other value, which is the result. `context` is
   * the text for the model.
   */
  execute(input: ParsedInput<Schema>, context: ToolContext): unknown;
}

/** A tool that delegates its work to a sub-agent. */
export interface DelegatingToolDefinition<
  Schema extends ToolSchema = ToolSchema,
> extends BaseDefinition<Schema> {
  delegates(input: ParsedInput<Schema>): Task;
}

/** More would not help the model. */
const maxIssues = 20;

/** The same object works in `relay.config.ts`, in the library and, for a client, in the SDK. */
export function defineTool<const Schema extends ToolSchema>(
  definition: ToolDefinition<Schema>,
): Tool {
  return {
    ...baseTool(definition),
    idempotent: definition.idempotent ?? false,
    onUnknown: definition.onUnknown ?? 'ask',
    ...(definition.needsMemory === true ? { needsMemory: true } : {}),
    ...(definition.needsSession === true ? { needsSession: true } : {}),
    execute: async (input, context) =>
      toolOutputOf(await definition.execute(input as ParsedInput<Schema>, context)),
  };
}

export function defineDelegatingTool<Schema extends ToolSchema>(
  definition: DelegatingToolDefinition<Schema>,
): Tool {
  return {
    ...baseTool(definition),
    // The sub-agent is in the journal, so its outcome is never unknown after a crash.
    idempotent: true,
    onUnknown: 'fail',
    delegates: (input) => definition.delegates(input as ParsedInput<Schema>),
    execute: () => Promise.reject(new TypeError(`${definition.name} is executed by a sub-agent`)),
  };
}

function baseTool<Schema extends ToolSchema>(definition: BaseDefinition<Schema>) {
  const { name, description, needsApproval, kinds, sensitive } = definition;
  const derive = definition.derivePermission?.bind(definition);
  const resolvePaths = definition.resolvePaths?.bind(definition);
  const preview = definition.preview?.bind(definition);
  checkToolName(name);
  checkToolFields(definition, serverToolFields);
  if (needsApproval === true && definition.allowedByDefault === true) {
    throw new TypeError(`The tool ${name} has needsApproval and allowedByDefault: use one of them`);
  }
  return {
    name,
    description,
    allowedByDefault: definition.allowedByDefault ?? false,
    ...readSchema(definition),
    ...defined({
      needsApproval,
      kinds,
      sensitive,
      resolvePaths:
        resolvePaths &&
        ((input: Readonly<Record<string, unknown>>) => resolvePaths(input as ParsedInput<Schema>)),
      preview:
        preview &&
        ((
          input: Readonly<Record<string, unknown>>,
          resolvedPaths: Readonly<Record<string, string>>,
        ) => preview(input as ParsedInput<Schema>, resolvedPaths)),
      derivePermission:
        derive && ((input: Record<string, unknown>) => derive(input as ParsedInput<Schema>)),
    }),
  };
}

/** Zod's own interface has better messages than its Standard Schema. */
function readSchema(definition: BaseDefinition<ToolSchema>): ReadSchema {
  const { schema } = definition;
  if (!(schema instanceof z.ZodType)) return readToolSchema(definition, issuesOfValue);
  const inputSchema = definition.inputSchema ?? z.toJSONSchema(schema, { io: 'input' });
  const read = readToolSchema({ ...definition, inputSchema }, issuesOfValue);
  return { ...read, validate: (input) => validate(schema, input) };
}

/** Never throws: an error in the schema refuses the arguments. */
function validate(schema: z.ZodType, input: unknown): Validation {
  try {
    const parsed = schema.safeParse(input, { error: issueMessage });
    if (parsed.success) return { ok: true, value: parsed.data };
    return { ok: false, issues: issuesOf(parsed.error.issues) };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    return {
      ok: false,
      issues: [{ path: '', message: `The arguments could not be validated: ${reason}` }],
    };
  }
}

function issuesOf(found: readonly z.core.$ZodIssue[]): readonly FieldIssue[] {
  const issues = fieldIssues(found.flatMap(eachField));
  if (issues.length <= maxIssues) return issues;
  const rest = { path: '', message: `and ${issues.length - maxIssues} more` };
  return [...issues.slice(0, maxIssues), rest];
}

/** Reports each unknown parameter at its own path. */
function eachField(issue: z.core.$ZodIssue) {
  if (issue.code !== 'unrecognized_keys') return [issue];
  return issue.keys.map((key) => ({
    path: [...issue.path, key],
    message: 'There is no such parameter',
  }));
}
