import { describe, expect, it } from 'vitest';
import { problemWith } from '../../src/json-schema/check.ts';
import { issuesOfAnswer } from '../../src/json-schema/validate.ts';
import { outputSchemaSchema } from '../../src/schemas/runs.ts';

describe('output schema', () => {
  it.each([
    [{ type: 'object', properties: { type: { type: 'string' }, $ref: { type: 'null' } } }],
    [{ $ref: '#/$defs/node', $defs: { node: { items: { $ref: '#/$defs/node' } } } }],
    [{ enum: [{ type: 'anything', $ref: 'https://example.com' }] }],
    [{ type: ['string', 'null'] }],
    [{}],
  ])('accepts %j', (schema) => {
    expect(outputSchemaSchema.parse(schema)).toEqual(schema);
  });

  it.each([
    [{ $ref: 'https://example.com/schema' }, '$ref: Must be a local reference'],
    [
      { properties: { a: { $ref: 'file:///etc/passwd' } } },
      'properties.a.$ref: Must be a local reference',
    ],
    [{ $ref: '#/$defs/missing' }, '$ref: Refers to no schema'],
    [{ type: 'objekt' }, 'type: Must be one of object'],
    [{ items: { type: ['string', 5] } }, 'items.type: Must be one of object'],
    [{ description: 'x'.repeat(70_000) }, 'Must have at most 65536 characters'],
  ])('rejects %j', (schema, message) => {
    expect(problemWith(schema)).toContain(message);
    expect(outputSchemaSchema.safeParse(schema).success).toBe(false);
  });
});

describe('answer with an output schema', () => {
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };

  it('is valid if it is JSON that matches the schema', () => {
    expect(issuesOfAnswer(schema, ' {"city":"Rome"}\n')).toEqual([]);
  });

  it.each([
    ['Rome', 'Not valid JSON'],
    ['```json\n{"city":"Rome"}\n```', 'Not valid JSON'],
    ['', 'Not valid JSON'],
    ['{"town":"Rome"}', 'Required'],
    ['null', 'Must be object'],
  ])('rejects %j', (answer, message) => {
    expect(issuesOfAnswer(schema, answer)[0]?.message).toBe(message);
  });
});
