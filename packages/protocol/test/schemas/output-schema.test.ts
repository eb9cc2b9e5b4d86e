import { describe, expect, it } from 'vitest';
import {
  issuesOfAnswer,
  outputSchemaSchema,
  problemWith,
} from '../../src/schemas/output-schema.ts';

describe('a schema for answers', () => {
  it.each([
    [{ type: 'object', properties: { type: { type: 'string' }, $ref: { type: 'null' } } }],
    [{ $ref: '#/$defs/node', $defs: { node: { items: { $ref: '#/$defs/node' } } } }],
    [{ enum: [{ type: 'anything', $ref: 'https://example.com' }] }],
    [{ type: ['string', 'null'] }],
    [{}],
  ])('may be %j', (schema) => {
    expect(outputSchemaSchema.parse(schema)).toEqual(schema);
  });

  it.each([
    [{ $ref: 'https://example.com/schema' }, '$ref: Must point into this schema'],
    [{ properties: { a: { $ref: 'file:///etc/passwd' } } }, 'properties.a.$ref: Must point into'],
    [{ $ref: '#/$defs/missing' }, '$ref: Points at nothing'],
    [{ type: 'objekt' }, 'type: Must be one of object'],
    [{ items: { type: ['string', 5] } }, 'items.type: Must be one of object'],
    [{ description: 'x'.repeat(70_000) }, 'Must have at most 65536 characters'],
  ])('may not be %j', (schema, message) => {
    expect(problemWith(schema)).toContain(message);
    expect(outputSchemaSchema.safeParse(schema).success).toBe(false);
  });
});

describe('an answer', () => {
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };

  it('fits if it is JSON of that shape', () => {
    expect(issuesOfAnswer(schema, ' {"city":"Rome"}\n')).toEqual([]);
  });

  it.each([
    ['Rome', 'It is not JSON'],
    ['```json\n{"city":"Rome"}\n```', 'It is not JSON'],
    ['', 'It is not JSON'],
    ['{"town":"Rome"}', 'Is missing'],
    ['null', 'Must be object'],
  ])('does not fit as %j', (answer, message) => {
    expect(issuesOfAnswer(schema, answer)[0]?.message).toBe(message);
  });
});
