/**
 * Checks the JSON Schemas that callers supply. A malformed or unsupported schema is rejected up front,
 * and remote references are never fetched.
 */
import type { FieldIssue } from '../errors.ts';
import {
  childPath,
  isObject,
  resolveRef,
  type JsonSchema,
  subschemasOf,
  typeNames,
} from './schema.ts';

const maxChars = 64 * 1024;

/** The problems of a schema. Paths are relative to it. */
export function checkSchema(schema: unknown): FieldIssue[] {
  if (!isObject(schema)) return [{ path: '', message: 'Must be a JSON Schema' }];
  if (JSON.stringify(schema).length > maxChars) {
    return [{ path: '', message: `Must have at most ${maxChars} characters` }];
  }
  return [...issuesOf(schema, { root: schema, path: '' })];
}

/** As `checkSchema`, for the arguments of a tool. */
export function checkToolSchema(schema: unknown): FieldIssue[] {
  if (isObject(schema) && schema['type'] !== 'object') {
    return [{ path: 'type', message: 'Must be "object": a tool takes named parameters' }];
  }
  return checkSchema(schema);
}

/** The first problem of a schema, as one message. */
export function problemWith(schema: JsonSchema): string | undefined {
  const [issue] = checkSchema(schema);
  if (issue === undefined) return undefined;
  return issue.path === '' ? issue.message : `${issue.path}: ${issue.message}`;
}

interface Location {
  readonly root: JsonSchema;
  readonly path: string;
}

function* issuesOf(schema: unknown, location: Location): Generator<FieldIssue> {
  const { root, path } = location;
  if (typeof schema === 'boolean') return;
  if (!isObject(schema)) {
    yield { path, message: 'Must be a JSON Schema' };
    return;
  }
  yield* referenceIssues(schema, location);
  for (const [name, isWellFormed, message] of keywords) {
    const value = Object.hasOwn(schema, name) ? schema[name] : undefined;
    if (value !== undefined && !isWellFormed(value)) yield { path: childPath(path, name), message };
  }
  for (const [name, child] of subschemasOf(schema)) {
    yield* issuesOf(child, { root, path: childPath(path, name) });
  }
}

function* referenceIssues(schema: JsonSchema, { root, path }: Location): Generator<FieldIssue> {
  for (const name of ['$ref', '$dynamicRef', '$recursiveRef']) {
    const ref = schema[name];
    if (ref === undefined) continue;
    const refPath = childPath(path, name);
    if (name !== '$ref') yield { path: refPath, message: 'Not supported; use $ref' };
    else if (typeof ref !== 'string' || !ref.startsWith('#')) {
      yield {
        path: refPath,
        message: 'Must be a local reference (#/…); remote schemas are not fetched',
      };
    } else if (resolveRef(root, ref) === undefined) {
      yield { path: refPath, message: 'Refers to no schema' };
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
    'Must be an object of schemas',
  ]),
  [
    'required',
    (value) => Array.isArray(value) && value.every(isText),
    'Must be an array of property names',
  ],
  ...['enum', 'prefixItems', 'anyOf', 'oneOf', 'allOf'].map((name): Keyword => [
    name,
    isList,
    'Must be an array',
  ]),
  ...['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'].map(
    (name): Keyword => [name, isCount, 'Must be a non-negative integer'],
  ),
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].map((name): Keyword => [
    name,
    Number.isFinite,
    'Must be a number',
  ]),
  ['multipleOf', (value) => typeof value === 'number' && value > 0, 'Must be greater than 0'],
];
