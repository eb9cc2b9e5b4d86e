/**
 * Whether a JSON Schema is one that we can work by. It comes from a caller and is kept for as long as
 * its run: what it says wrongly is told when it is written, and nothing is ever fetched.
 */
import type { FieldIssue } from '../errors.ts';
import { isObject, resolveRef, type JsonSchema, subschemasOf, typeNames } from './schema.ts';

const maxChars = 64 * 1024;

/** What is wrong with it; empty if nothing is. Paths begin at the schema. */
export function checkSchema(schema: unknown): FieldIssue[] {
  if (!isObject(schema)) return [{ path: '', message: 'Must be a JSON Schema' }];
  if (JSON.stringify(schema).length > maxChars) {
    return [{ path: '', message: `Must have at most ${maxChars} characters` }];
  }
  return [...issuesOf(schema, { root: schema, path: '' })];
}

/** The same for the arguments of a tool, which are named. */
export function checkToolSchema(schema: unknown): FieldIssue[] {
  if (isObject(schema) && schema['type'] !== 'object') {
    return [{ path: 'type', message: 'Must be "object": a tool takes named parameters' }];
  }
  return checkSchema(schema);
}

interface Place {
  readonly root: JsonSchema;
  readonly path: string;
}

function* issuesOf(schema: unknown, place: Place): Generator<FieldIssue> {
  const { root, path } = place;
  if (typeof schema === 'boolean') return;
  if (!isObject(schema)) {
    yield { path, message: 'Must be a JSON Schema' };
    return;
  }
  yield* referenceIssues(schema, place);
  for (const [name, isWellFormed, message] of keywords) {
    const value = Object.hasOwn(schema, name) ? schema[name] : undefined;
    if (value !== undefined && !isWellFormed(value)) yield { path: below(path, name), message };
  }
  for (const [name, child] of subschemasOf(schema)) {
    yield* issuesOf(child, { root, path: below(path, name) });
  }
}

function* referenceIssues(schema: JsonSchema, { root, path }: Place): Generator<FieldIssue> {
  for (const name of ['$ref', '$dynamicRef', '$recursiveRef']) {
    const ref = schema[name];
    if (ref === undefined) continue;
    const at = below(path, name);
    if (name !== '$ref') yield { path: at, message: 'Only $ref is understood' };
    else if (typeof ref !== 'string' || !ref.startsWith('#')) {
      yield { path: at, message: 'Must point into this schema (#/…): nothing is fetched' };
    } else if (resolveRef(root, ref) === undefined) {
      yield { path: at, message: 'Points at nothing' };
    }
  }
}

type Keyword = readonly [name: string, isWellFormed: (value: unknown) => boolean, message: string];

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
const isList = (value: unknown) => Array.isArray(value);
const isText = (value: unknown) => typeof value === 'string';
const isNamed = (value: unknown) => isObject(value);
const isType = (value: unknown) => typeNames.some((name) => name === value);

const keywords: readonly Keyword[] = [
  [
    'type',
    (value) => (Array.isArray(value) ? value.length > 0 && value.every(isType) : isType(value)),
    `Must be one of ${typeNames.join(', ')}`,
  ],
  ...['properties', 'patternProperties', '$defs', 'definitions'].map((name): Keyword => [
    name,
    isNamed,
    'Must name schemas',
  ]),
  [
    'required',
    (value) => Array.isArray(value) && value.every(isText),
    'Must be a list of parameter names',
  ],
  ...['enum', 'prefixItems', 'anyOf', 'oneOf', 'allOf'].map((name): Keyword => [
    name,
    isList,
    'Must be a list',
  ]),
  ...['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'].map(
    (name): Keyword => [name, isCount, 'Must be a whole number'],
  ),
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].map((name): Keyword => [
    name,
    Number.isFinite,
    'Must be a number',
  ]),
  ['multipleOf', (value) => typeof value === 'number' && value > 0, 'Must be above 0'],
];

function below(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}
