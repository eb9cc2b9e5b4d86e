export type JsonSchema = Readonly<Record<string, unknown>>;

export const typeNames = [
  'object',
  'array',
  'string',
  'number',
  'integer',
  'boolean',
  'null',
] as const;

export function isObject(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const single = [
  'items',
  'additionalProperties',
  'not',
  'if',
  'then',
  'else',
  'propertyNames',
  'contains',
];
const listed = ['prefixItems', 'anyOf', 'oneOf', 'allOf'];
const named = ['properties', 'patternProperties', '$defs', 'definitions'];

/** The direct subschemas of a schema, each with its path. */
export function* subschemasOf(schema: JsonSchema): Generator<[string, unknown]> {
  for (const name of single) if (schema[name] !== undefined) yield [name, schema[name]];
  for (const name of listed) {
    const list = schema[name];
    if (!Array.isArray(list)) continue;
    for (const [index, child] of list.entries()) yield [`${name}[${index}]`, child];
  }
  for (const name of named) {
    const children = schema[name];
    if (!isObject(children)) continue;
    for (const [key, child] of Object.entries(children)) yield [`${name}.${key}`, child];
  }
}

/** The schema at a local reference. Inherited properties are never followed. */
export function resolveRef(root: JsonSchema, ref: string): unknown {
  if (ref === '#') return root;
  if (!ref.startsWith('#/')) return undefined;
  let found: unknown = root;
  for (const part of ref.slice(2).split('/')) {
    const key = decode(part);
    if (typeof found !== 'object' || found === null || key === undefined) return undefined;
    if (!Object.hasOwn(found, key)) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return isObject(found) || typeof found === 'boolean' ? found : undefined;
}

function decode(part: string): string | undefined {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return undefined;
  }
}

export function childPath(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}
