import { describe, expect, it } from 'vitest';
import { isStrictSchema } from '../src/provider-request.ts';

const leaf = { type: 'string', description: 'A word' };
const strict = (properties: object) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

describe('a schema that can be kept to the letter', () => {
  it.each([
    [strict({ a: leaf })],
    [strict({ a: strict({ b: leaf }), list: { type: 'array', items: strict({}) } })],
    [strict({ a: { anyOf: [leaf, { type: 'null' }] }, e: { enum: ['x'] } })],
    [{ ...strict({ a: { $ref: '#/$defs/node' } }), $defs: { node: strict({}) } }],
  ])('is %j', (schema) => {
    expect(isStrictSchema(schema)).toBe(true);
  });

  it.each([
    [{}],
    [leaf],
    [{ type: 'object', properties: { a: leaf }, required: ['a'] }],
    [{ ...strict({ a: leaf }), required: [] }],
    [strict({ a: { type: 'string', pattern: '^a' } })],
    [strict({ a: { type: 'object', properties: {} } })],
    [strict({ list: { type: 'array', items: { oneOf: [leaf] } } })],
    [{ ...strict({}), $defs: { node: { type: 'object' } } }],
  ])('is not %j', (schema) => {
    expect(isStrictSchema(schema)).toBe(false);
  });
});
