/** A JSON Schema for an agent's last answer, as a caller brings it. It is checked before a run starts. */
import { z } from 'zod';
import type { FieldIssue } from './errors.ts';
import { issuesOfValue, type JsonSchema, resolveRef } from './json-schema.ts';

const maxChars = 64 * 1024;
const typeNames = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']);
/** Below these, keys are names of the author's and no words of JSON Schema. */
const named = new Set(['properties', '$defs', 'definitions']);
/** What is below these is a value, not a schema. */
const values = new Set(['const', 'enum', 'default', 'examples']);

export const outputSchemaSchema = z.record(z.string(), z.json()).superRefine((schema, context) => {
  const message = problemWith(schema);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

/** Why a schema cannot be used, or undefined. */
export function problemWith(schema: JsonSchema): string | undefined {
  if (JSON.stringify(schema).length > maxChars) return `Must have at most ${maxChars} characters`;
  return problemIn(schema, schema);
}

function problemIn(root: JsonSchema, value: unknown): string | undefined {
  if (Array.isArray(value)) return firstOf(value, (item) => problemIn(root, item));
  if (typeof value !== 'object' || value === null) return undefined;
  const { $ref, type } = value as JsonSchema;
  if (typeof $ref === 'string' && resolveRef(root, $ref) === undefined) {
    return $ref.startsWith('#')
      ? `There is nothing at ${$ref}`
      : `The reference ${$ref} leads out of the schema`;
  }
  const types = Array.isArray(type) ? type : [type];
  const unknown = types.find((name) => name !== undefined && !typeNames.has(name as string));
  if (unknown !== undefined) return `There is no type ${JSON.stringify(unknown)}`;
  return firstOf(Object.entries(value), ([key, inner]) => {
    if (values.has(key)) return undefined;
    const schemas =
      named.has(key) && typeof inner === 'object' ? Object.values(inner ?? {}) : inner;
    return problemIn(root, schemas);
  });
}

function firstOf<Item>(
  items: readonly Item[],
  look: (item: Item) => string | undefined,
): string | undefined {
  for (const item of items) {
    const found = look(item);
    if (found !== undefined) return found;
  }
  return undefined;
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
