import type {
  Locating,
  ParameterKind,
  Task,
  Tool,
  ToolContext,
  ToolOutput,
  Validation,
} from '@relay/core';
import { type FieldIssue, fieldIssues, issueMessage, type ToolPermission } from '@relay/protocol';
import { z } from 'zod';
import { checkToolName } from './tool-name.ts';

/** What the schema has checked. Of a definition that does not say which schema, nothing is known. */
type Checked<Schema extends z.ZodType> = z.ZodType extends Schema
  ? ReturnType<typeof JSON.parse>
  : z.output<Schema>;

interface Described<Schema extends z.ZodType> {
  readonly name: string;
  readonly description: string;
  /** What the tool takes: an object, since that is all that models can call with. */
  readonly schema: Schema;
  /** Runs without an approval unless a rule denies it. Default: false. */
  readonly allowedByDefault?: boolean;
  /** What a parameter is, where it is more than text: rules about it are read accordingly. */
  readonly kinds?: Readonly<Record<string, ParameterKind>>;
  /** Parameters that a rule must name, if it names any and the call has them. */
  readonly sensitive?: readonly string[];
  /** Works in the tenant's own folder. */
  readonly inWorkspace?: boolean;
  /** The rule to suggest to a person who is asked about a call. */
  derivePermission?(input: Checked<Schema>): ToolPermission | undefined;
  /** Looks where path parameters lead now; an approval holds only while it stays so. */
  locate?(input: Checked<Schema>): Promise<Locating>;
}

export interface ToolDefinition<Schema extends z.ZodType = z.ZodType> extends Described<Schema> {
  /** Safe to run again after a crash, with the same idempotency key. Default: false. */
  readonly idempotent?: boolean;
  /** There only in runs with memory. Default: false. */
  readonly needsMemory?: boolean;
  /** What to do when a crash left the outcome unknown. Default: ask. */
  readonly onUnknown?: 'ask' | 'fail';
  execute(input: Checked<Schema>, context: ToolContext): Promise<ToolOutput> | ToolOutput;
}

/** A tool whose work a sub-agent does. */
export interface DelegatingToolDefinition<
  Schema extends z.ZodType = z.ZodType,
> extends Described<Schema> {
  delegates(input: Checked<Schema>): Task;
}

/** A model learns nothing from the hundredth mistake in its arguments. */
const maxIssues = 20;

export function defineTool<Schema extends z.ZodType>(definition: ToolDefinition<Schema>): Tool {
  return {
    ...described(definition),
    idempotent: definition.idempotent ?? false,
    onUnknown: definition.onUnknown ?? 'ask',
    ...(definition.needsMemory === true ? { needsMemory: true } : {}),
    execute: async (input, context) => definition.execute(input as Checked<Schema>, context),
  };
}

export function defineDelegatingTool<Schema extends z.ZodType>(
  definition: DelegatingToolDefinition<Schema>,
): Tool {
  return {
    ...described(definition),
    // Its sub-agent is in the journal: after a crash nothing about it is unknown.
    idempotent: true,
    onUnknown: 'fail',
    delegates: (input) => definition.delegates(input as Checked<Schema>),
    execute: () => Promise.reject(new TypeError(`${definition.name} is done by a sub-agent`)),
  };
}

function described<Schema extends z.ZodType>(definition: Described<Schema>) {
  const { name, description, schema, kinds, sensitive, inWorkspace } = definition;
  const derive = definition.derivePermission?.bind(definition);
  const locate = definition.locate?.bind(definition);
  checkToolName(name);
  return {
    name,
    description,
    inputSchema: inputSchemaOf(name, schema),
    allowedByDefault: definition.allowedByDefault ?? false,
    validate: (input: unknown) => validate(schema, input),
    ...(kinds === undefined ? {} : { kinds }),
    ...(sensitive === undefined ? {} : { sensitive }),
    ...(inWorkspace === undefined ? {} : { inWorkspace }),
    ...(locate === undefined
      ? {}
      : {
          locate: (input: Readonly<Record<string, unknown>>) => locate(input as Checked<Schema>),
        }),
    ...(derive === undefined
      ? {}
      : {
          derivePermission: (input: Record<string, unknown>) => derive(input as Checked<Schema>),
        }),
  };
}

function inputSchemaOf(name: string, schema: z.ZodType): Readonly<Record<string, unknown>> {
  const { $schema: _, ...inputSchema } = z.toJSONSchema(schema, { io: 'input' });
  if (inputSchema.type !== 'object') {
    throw new TypeError(`The tool ${name} must take an object`);
  }
  return inputSchema;
}

/** Never throws: a schema's own fault is one more reason to refuse the arguments. */
function validate(schema: z.ZodType, input: unknown): Validation {
  try {
    const parsed = schema.safeParse(input, { error: issueMessage });
    if (parsed.success) return { ok: true, value: parsed.data };
    return { ok: false, issues: issuesOf(parsed.error.issues) };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    return { ok: false, issues: [{ path: '', message: `They could not be checked: ${why}` }] };
  }
}

function issuesOf(found: readonly z.core.$ZodIssue[]): readonly FieldIssue[] {
  const issues = fieldIssues(found.flatMap(eachField));
  if (issues.length <= maxIssues) return issues;
  const rest = { path: '', message: `and ${issues.length - maxIssues} more` };
  return [...issues.slice(0, maxIssues), rest];
}

/** What is too much is told where it is, as what is missing or wrong. */
function eachField(issue: z.core.$ZodIssue) {
  if (issue.code !== 'unrecognized_keys') return [issue];
  return issue.keys.map((key) => ({
    path: [...issue.path, key],
    message: 'There is no such parameter',
  }));
}
