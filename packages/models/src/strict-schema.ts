import type { JsonSchema } from '@relay/protocol';

/** What providers that promise to keep to a schema can promise it for. */
const words = new Set([
  '$defs',
  '$ref',
  'additionalProperties',
  'anyOf',
  'const',
  'description',
  'enum',
  'items',
  'properties',
  'required',
  'title',
  'type',
]);

/**
 * Whether a provider may be asked to keep to it to the letter: every object lists all its properties,
 * all are required, and there are no others. A schema beyond that is only told, and checked by us.
 */
export function isStrictSchema(schema: JsonSchema): boolean {
  return schema['type'] === 'object' && isStrict(schema);
}

function isStrict(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return false;
  const { type, properties, required, additionalProperties, items, anyOf, $defs } =
    schema as JsonSchema;
  if (!Object.keys(schema).every((word) => words.has(word))) return false;
  if (type === 'object' || properties !== undefined) {
    const names = Object.keys(properties ?? {});
    const listed = Array.isArray(required) ? required : [];
    if (additionalProperties !== false || names.some((name) => !listed.includes(name)))
      return false;
  }
  return [
    ...Object.values(properties ?? {}),
    ...Object.values($defs ?? {}),
    ...(Array.isArray(anyOf) ? anyOf : []),
    ...(items === undefined ? [] : [items]),
  ].every(isStrict);
}
