/** Values that are described by a JSON schema which somebody else wrote. Nothing is ever fetched. */
import { z } from 'zod';
import type { FieldIssue } from './errors.ts';
import { fieldIssues } from './fields.ts';

type JsonSchema = Readonly<Record<string, unknown>>;

/** Why values cannot be checked by this schema; undefined if they can. */
export function schemaProblem(schema: JsonSchema): string | undefined {
  try {
    read(schema);
    return undefined;
  } catch (cause) {
    return cause instanceof Error ? cause.message : 'It cannot be read';
  }
}

/** What is wrong with a value. The schema must be one that can be read. */
export function schemaIssues(schema: JsonSchema, value: unknown): FieldIssue[] {
  const result = read(schema).safeParse(value);
  return result.success ? [] : fieldIssues(result.error.issues);
}

function read(schema: JsonSchema): z.ZodType {
  return z.fromJSONSchema(schema);
}
