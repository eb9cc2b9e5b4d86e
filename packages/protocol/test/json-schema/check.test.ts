import { expect, test } from 'vitest';
import { checkSchema, checkToolSchema } from '../../src/json-schema/check.ts';

function issuesOf(schema: unknown): string[] {
  return checkToolSchema(schema).map(({ path, message }) => `${path}: ${message}`);
}

test.each<[string, unknown]>([
  ['without parameters', { type: 'object' }],
  [
    'with references into itself',
    { type: 'object', properties: { a: { $ref: '#/$defs/a~1b' } }, $defs: { 'a/b': true } },
  ],
  ['with a dialect', { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object' }],
])('accepts a schema %s', (_, schema) => {
  expect(issuesOf(schema)).toEqual([]);
});

test.each<[string, unknown, string]>([
  ['no object', 'string', ': Must be a JSON Schema'],
  ['a list', [], ': Must be a JSON Schema'],
  [
    'of something else',
    { type: 'string' },
    'type: Must be "object": a tool takes named parameters',
  ],
  ['without a type', {}, 'type: Must be "object": a tool takes named parameters'],
  [
    'a remote reference',
    { type: 'object', properties: { a: { $ref: 'https://example.com/s.json' } } },
    'properties.a.$ref: Must be a local reference (#/…); remote schemas are not fetched',
  ],
  [
    'a reference to a file',
    { type: 'object', properties: { a: { $ref: 'other.json#/a' } } },
    'properties.a.$ref: Must be a local reference (#/…); remote schemas are not fetched',
  ],
  [
    'a dangling reference',
    { type: 'object', anyOf: [{ $ref: '#/$defs/none' }] },
    'anyOf[0].$ref: Refers to no schema',
  ],
  [
    'a reference to what every object has',
    { type: 'object', anyOf: [{ $ref: '#/constructor' }] },
    'anyOf[0].$ref: Refers to no schema',
  ],
  [
    'a dynamic reference',
    { type: 'object', items: { $dynamicRef: '#x' } },
    'items.$dynamicRef: Not supported; use $ref',
  ],
  [
    'an unknown type',
    { type: 'object', properties: { a: { type: 'text' } } },
    'properties.a.type: Must be one of object, array, string, number, integer, boolean, null',
  ],
  [
    'required as text',
    { type: 'object', required: 'a' },
    'required: Must be an array of property names',
  ],
  [
    'properties as a list',
    { type: 'object', properties: [] },
    'properties: Must be an object of schemas',
  ],
  [
    'a property that is none',
    { type: 'object', properties: { a: 1 } },
    'properties.a: Must be a JSON Schema',
  ],
  [
    'a negative length',
    { type: 'object', minProperties: -1 },
    'minProperties: Must be a non-negative integer',
  ],
  [
    'a zero step',
    { type: 'object', items: { multipleOf: 0 } },
    'items.multipleOf: Must be greater than 0',
  ],
  [
    'too long',
    { type: 'object', description: 'x'.repeat(70_000) },
    ': Must have at most 65536 characters',
  ],
])('rejects a schema: %s', (_, schema, issue) => {
  expect(issuesOf(schema)).toContain(issue);
});

test('accepts a schema without type object outside of tools', () => {
  for (const schema of [{}, { type: 'array' }, { anyOf: [{ type: 'string' }] }]) {
    expect(checkSchema(schema)).toEqual([]);
  }
  expect(checkSchema({ type: 'text' })).toHaveLength(1);
});
