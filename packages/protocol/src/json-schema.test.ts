import { describe, expect, it } from 'vitest';
import { issuesOfValue, type JsonSchema } from './json-schema.ts';

const person: JsonSchema = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 2, maxLength: 5 },
    age: { type: 'integer', minimum: 0, exclusiveMaximum: 150 },
    tags: { type: 'array', items: { enum: ['a', 'b'] }, maxItems: 2, uniqueItems: true },
    friend: { $ref: '#' },
  },
  required: ['name'],
  additionalProperties: false,
};

/** As text, because an object with such a key looks like a promise. */
const conditional = JSON.parse(
  '{"if":{"type":"string"},"then":{"minLength":1},"else":{"minimum":5}}',
) as JsonSchema;

describe('a value', () => {
  it.each([
    [person, { name: 'Ann' }],
    [person, { name: 'Ann', age: 7, tags: ['a', 'b'], friend: { name: 'Bob' } }],
    [{ type: ['string', 'null'] }, null],
    [{ anyOf: [{ type: 'string' }, { type: 'number' }] }, 3],
    [{ oneOf: [{ type: 'string' }, { type: 'integer' }] }, 3],
    [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, 2],
    [{ not: { type: 'string' } }, 2],
    [conditional, 6],
    [conditional, 'x'],
    [{ const: { a: 1, b: [2] } }, { b: [2], a: 1 }],
    [{ prefixItems: [{ type: 'string' }], items: { type: 'number' } }, ['x', 1, 2]],
    [{ type: 'array', contains: { const: 3 } }, [1, 2, 3]],
    [{ multipleOf: 0.1 }, 0.3],
    [{ additionalProperties: { type: 'number' } }, { x: 1 }],
    [{ propertyNames: { maxLength: 2 } }, { ab: 1 }],
    [{ $ref: '#/$defs/a~1b', $defs: { 'a/b': { type: 'string' } } }, 'x'],
    [{}, { anything: true }],
    [{ maxLength: 1 }, '😀'],
    // What is not looked at holds nothing against anyone.
    [{ pattern: '^x', format: 'email' }, 'y'],
    [{ patternProperties: { '^x': {} }, additionalProperties: false }, { y: 1 }],
  ])('fits %j: %j', (schema, value) => {
    expect(issuesOfValue(schema, value)).toEqual([]);
  });

  it.each([
    [person, {}, [{ path: 'name', message: 'Required' }]],
    [person, [], [{ path: '', message: 'Must be object' }]],
    [person, { name: 'Ann', x: 1 }, [{ path: 'x', message: 'Unknown field' }]],
    [person, { name: 'A' }, [{ path: 'name', message: 'Breaks minLength 2' }]],
    [
      person,
      { name: 'Ann', age: 1.5, tags: ['c'], friend: {} },
      [
        { path: 'age', message: 'Must be integer' },
        { path: 'tags[0]', message: 'Must be one of ["a","b"]' },
        { path: 'friend.name', message: 'Required' },
      ],
    ],
    [person, { name: 'Ann', age: 150 }, [{ path: 'age', message: 'Breaks exclusiveMaximum 150' }]],
    [person, { name: 'Ann', tags: ['a', 'a'] }, [{ path: 'tags', message: 'Has an item twice' }]],
    [{ type: ['string', 'null'] }, 1, [{ path: '', message: 'Must be string or null' }]],
    [{ anyOf: [{ type: 'string' }] }, 3, [{ path: '', message: 'Fits none of the alternatives' }]],
    [
      { oneOf: [{ type: 'number' }, { type: 'integer' }] },
      3,
      [{ path: '', message: 'Fits 2 of the alternatives, not one' }],
    ],
    [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, 4, [{ path: '', message: 'Breaks maximum 3' }]],
    [{ not: {} }, 1, [{ path: '', message: 'Is what it may not be' }]],
    [conditional, '', [{ path: '', message: 'Breaks minLength 1' }]],
    [{ const: 1 }, 2, [{ path: '', message: 'Must be 1' }]],
    [{ properties: { a: false } }, { a: 1 }, [{ path: 'a', message: 'Nothing may be here' }]],
    [
      { contains: { const: 3 } },
      [1],
      [{ path: '', message: 'Lacks an item that it must contain' }],
    ],
    [{ required: ['toString'] }, {}, [{ path: 'toString', message: 'Required' }]],
  ])('does not fit %j: %j', (schema, value, issues) => {
    expect(issuesOfValue(schema, value)).toEqual(issues);
  });

  it('has only so many faults told', () => {
    expect(issuesOfValue({ items: { type: 'string' } }, Array(500).fill(1))).toHaveLength(10);
  });
});

describe('a hostile schema', () => {
  const tooComplex = [{ path: '', message: 'The schema is too complex to be checked' }];

  it.each([
    [{ $ref: '#' }],
    [{ $ref: '#/$defs/a', $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } } }],
  ])('that goes round in circles is given up: %j', (schema) => {
    expect(issuesOfValue(schema, 1)).toEqual(tooComplex);
  });

  it('that doubles its work at every level is given up at once', () => {
    const $defs: Record<string, JsonSchema> = { a60: { type: 'string' } };
    for (let n = 0; n < 60; n += 1) {
      const next = { $ref: `#/$defs/a${n + 1}` };
      $defs[`a${n}`] = { anyOf: [next, next] };
    }
    const before = performance.now();
    expect(issuesOfValue({ $ref: '#/$defs/a0', $defs }, 1)).toEqual(tooComplex);
    expect(performance.now() - before).toBeLessThan(1_000);
  });

  it('never runs its regular expressions', () => {
    const before = performance.now();
    expect(issuesOfValue({ pattern: '^(a+)+$' }, `${'a'.repeat(50_000)}!`)).toEqual([]);
    expect(performance.now() - before).toBeLessThan(500);
  });
});
