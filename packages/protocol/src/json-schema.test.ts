import { describe, expect, it } from 'vitest';
import { schemaIssues, schemaProblem } from './json-schema.ts';

const order = {
  type: 'object',
  properties: { size: { enum: ['S', 'M'] }, items: { type: 'array', items: { type: 'integer' } } },
  required: ['size'],
  additionalProperties: false,
};

describe('a JSON schema', () => {
  it.each([[{}], [{ type: 'string' }], [order], [{ anyOf: [{ type: 'null' }, order] }]])(
    'can be read: %j',
    (schema) => {
      expect(schemaProblem(schema)).toBeUndefined();
    },
  );

  it.each([
    [{ type: 'nothing' }],
    [{ $ref: 'https://example.com/schema.json' }],
    [{ type: 'object', properties: { a: { $ref: 'other.json' } } }],
  ])('that is none, or lies elsewhere, is refused in words: %j', (schema) => {
    expect(schemaProblem(schema)).toMatch(/\w/);
  });

  it('says which field of a value does not fit', () => {
    expect(schemaIssues(order, { size: 'M', items: [1, 2] })).toEqual([]);
    const paths = (value: unknown) => schemaIssues(order, value).map(({ path }) => path);
    expect(paths({ size: 'XL' })).toEqual(['size']);
    expect(paths({ size: 'M', items: [1, 'two'] })).toEqual(['items[1]']);
    expect(paths({ size: 'M', more: 1 })).toEqual(['more']);
    expect(paths('M')).toEqual(['']);
  });

  it('lets everything pass where it says nothing', () => {
    for (const value of [null, 1, 'a', [], {}]) expect(schemaIssues({}, value)).toEqual([]);
  });
});
