import type { Tool, ToolContext, ToolOutput, Validation } from '@relay/core';
import { type FieldIssue, fieldIssues, type ToolPermission } from '@relay/protocol';
import { z } from 'zod';
import { checkToolName } from './tool-name.ts';

export interface ToolDefinition<Schema extends z.ZodType> {
  readonly name: string;
  readonly description: string;
  /** What the tool takes: an object, since that is all that models can call with. */
  readonly schema: Schema;
  /** Runs without a relay unless a rule denies it. Default: false. */
  readonly allowedByDefault?: boolean;
  /** Safe to run again after a crash, with the same idempotency key. Default: false. */
  readonly idempotent?: boolean;
  /** What to do when a crash left the outcome unknown. Default: ask. */
  readonly onUnknown?: 'ask' | 'fail';
  execute(input: z.output<Schema>, context: ToolContext): Promise<ToolOutput> | ToolOutput;
  derivePermission?(input: Record<string, unknown>): ToolPermission;
}

/** A model learns nothing from the hundredth mistake in its arguments. */
const maxIssues = 20;

export function defineTool<Schema extends z.ZodType>(definition: ToolDefinition<Schema>): Tool {
  const { name, description, schema } = definition;
  const derivePermission = definition.derivePermission?.bind(definition);
  checkToolName(name);
  return {
    name,
    description,
    inputSchema: inputSchemaOf(name, schema),
    allowedByDefault: definition.allowedByDefault ?? false,
    idempotent: definition.idempotent ?? false,
    onUnknown: definition.onUnknown ?? 'ask',
    validate: (input) => validate(schema, input),
    execute: async (input, context) => definition.execute(input as z.output<Schema>, context),
    ...(derivePermission === undefined ? {} : { derivePermission }),
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
    const parsed = schema.safeParse(input);
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
