/** A JSON Schema for an agent's last answer, as a caller brings it. It is checked before a run starts. */
import { z } from 'zod';
import type { FieldIssue } from '../errors.ts';
import { checkSchema } from '../json-schema/check.ts';
import type { JsonSchema } from '../json-schema/schema.ts';
import { issuesOfValue } from '../json-schema/validate.ts';

export const outputSchemaSchema = z.record(z.string(), z.json()).superRefine((schema, context) => {
  const message = problemWith(schema);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

/** Why a schema cannot be used, or undefined. */
export function problemWith(schema: JsonSchema): string | undefined {
  const [issue] = checkSchema(schema);
  if (issue === undefined) return undefined;
  return issue.path === '' ? issue.message : `${issue.path}: ${issue.message}`;
}

/** What is wrong with an answer; nothing if it is JSON that fits. */
export function issuesOfAnswer(schema: JsonSchema, answer: string): readonly FieldIssue[] {
  try {
    return issuesOfValue(schema, JSON.parse(answer));
  } catch (error) {
    if (error instanceof SyntaxError) return [{ path: '', message: 'It is not JSON' }];
    throw error;
  }
}
