import { describe, expect, test } from 'vitest';
import { checkSchema } from '../../src/json-schema/check.ts';
import type { JsonSchema } from '../../src/json-schema/schema.ts';
import { issuesOfValue } from '../../src/json-schema/validate.ts';

function issuesOf(schema: JsonSchema, value: unknown): string[] {
  return issuesOfValue(schema, value).map(({ path, message }) => `${path}: ${message}`);
}

const user: JsonSchema = {
  type: 'object',
  properties: {
    id: { type: 'string', minLength: 2, maxLength: 4 },
    age: { type: 'integer', minimum: 0, exclusiveMaximum: 150 },
    tags: { type: 'array', items: { type: 'string' }, maxItems: 2, uniqueItems: true },
    role: { enum: ['admin', 'guest', { other: 1 }] },
    parent: { $ref: '#' },
  },
  required: ['id'],
  additionalProperties: false,
};

/** An object that has a `then` is written as text, lest something waits for it. */
function ifText(then: string, otherwise: unknown): JsonSchema {
  const branches = JSON.parse(`{"then":${then}}`) as JsonSchema;
  return { if: { type: 'string' }, else: otherwise, ...branches };
}

describe('JSON Schema validation', () => {
  test('accepts a valid value', () => {
    const value = { id: 'u1', age: 3, tags: ['a', 'b'], role: { other: 1 }, parent: { id: 'u0' } };
    expect(issuesOf(user, value)).toEqual([]);
  });

  test.each<[string, unknown, string[]]>([
    ['a missing parameter', {}, ['id: Required']],
    ['a wrong type', { id: 7 }, ['id: Must be string']],
    ['another root', [], [': Must be object']],
    ['null', null, [': Must be object']],
    ['too short', { id: 'u' }, ['id: Must have at least 2 characters']],
    ['too long', { id: 'u1234' }, ['id: Must have at most 4 characters']],
    ['characters, not code units', { id: '😀😀😀😀' }, []],
    ['a fraction', { id: 'u1', age: 1.5 }, ['age: Must be integer']],
    ['below', { id: 'u1', age: -1 }, ['age: Must be at least 0']],
    ['at an exclusive bound', { id: 'u1', age: 150 }, ['age: Must be less than 150']],
    ['an item', { id: 'u1', tags: ['a', 1] }, ['tags[1]: Must be string']],
    ['too many', { id: 'u1', tags: ['a', 'b', 'c'] }, ['tags: Must have at most 2 items']],
    ['twice', { id: 'u1', tags: ['a', 'a'] }, ['tags: Items must be unique']],
    [
      'no member',
      { id: 'u1', role: 'root' },
      ['role: Must be one of "admin", "guest", {"other":1}'],
    ],
    ['an unknown name', { id: 'u1', x: 1 }, ['x: Unknown field']],
    ['an inherited name', { id: 'u1', toString: 1 }, ['toString: Unknown field']],
    ['deep inside', { id: 'u1', parent: { id: 'u0', parent: {} } }, ['parent.parent.id: Required']],
  ])('%s', (_, value, issues) => {
    expect(issuesOf(user, value)).toEqual(issues);
  });

  test.each<[string, JsonSchema, unknown, boolean]>([
    ['anyOf', { anyOf: [{ type: 'string' }, { minimum: 5 }] }, 6, true],
    ['anyOf', { anyOf: [{ type: 'string' }, { minimum: 5 }] }, 4, false],
    ['oneOf', { oneOf: [{ type: 'number' }, { minimum: 5 }] }, 4, true],
    ['oneOf', { oneOf: [{ type: 'number' }, { minimum: 5 }] }, 6, false],
    ['allOf', { allOf: [{ type: 'number' }, { minimum: 5 }] }, 6, true],
    ['allOf', { allOf: [{ type: 'number' }, { minimum: 5 }] }, 4, false],
    ['not', { not: { type: 'string' } }, 'x', false],
    ['if then', ifText('{"minLength":2}', false), 'x', false],
    ['if else', ifText('{"minLength":2}', { minimum: 1 }), 1, true],
    ['const', { const: { a: [1, 2] } }, { a: [1, 2] }, true],
    ['const', { const: { a: [1, 2] } }, { a: [2, 1] }, false],
    ['several types', { type: ['string', 'null'] }, null, true],
    [
      'prefixItems',
      { prefixItems: [{ type: 'string' }], items: { type: 'number' } },
      ['a', 1],
      true,
    ],
    [
      'prefixItems',
      { prefixItems: [{ type: 'string' }], items: { type: 'number' } },
      [1, 'a'],
      false,
    ],
    ['multipleOf', { multipleOf: 0.1 }, 0.3, true],
    ['multipleOf', { multipleOf: 0.1 }, 0.35, false],
    ['additional schema', { additionalProperties: { type: 'number' } }, { a: 1, b: 'x' }, false],
    [
      'a pattern of names leaves the rest open',
      { patternProperties: { '^x': {} }, additionalProperties: false },
      { y: 1 },
      true,
    ],
    ['minProperties', { minProperties: 1 }, {}, false],
    ['contains', { contains: { const: 2 } }, [1, 2], true],
    ['contains', { contains: { const: 2 } }, [1], false],
    ['propertyNames', { propertyNames: { maxLength: 2 } }, { ab: 1 }, true],
    ['propertyNames', { propertyNames: { maxLength: 2 } }, { abc: 1 }, false],
    ['ignores format', { format: 'email' }, 'nobody', true],
    ['ignores unknown keywords', { colour: 'red' }, 1, true],
  ])('%s', (_, schema, value, fits) => {
    expect(issuesOf(schema, value).length === 0).toBe(fits);
  });
});

describe('validation against a hostile schema', () => {
  test('does not evaluate patterns', () => {
    const schema: JsonSchema = { type: 'object', properties: { a: { pattern: '^(a+)+$' } } };
    const began = performance.now();
    expect(issuesOf(schema, { a: `${'a'.repeat(50_000)}!` })).toEqual([]);
    expect(performance.now() - began).toBeLessThan(15_000);
  });

  test('rejects the value when nested alternatives exhaust the budget', () => {
    const defs: Record<string, JsonSchema> = { d0: { type: 'string' } };
    for (let n = 1; n < 40; n += 1) {
      const ref = { $ref: `#/$defs/d${n - 1}` };
      defs[`d${n}`] = { allOf: [ref, ref, ref] };
    }
    const schema: JsonSchema = {
      type: 'object',
      properties: { a: { $ref: '#/$defs/d39' } },
      $defs: defs,
    };
    expect(checkSchema(schema)).toEqual([]);
    const began = performance.now();
    expect(issuesOf(schema, { a: 'x' })).toEqual([': Too complex to check against its schema']);
    expect(performance.now() - began).toBeLessThan(15_000);
  });

  test('terminates on a self-reference', () => {
    const schema: JsonSchema = {
      type: 'object',
      $ref: '#',
      properties: { a: { $ref: '#/properties/a' } },
    };
    expect(issuesOf(schema, { a: 1 })).toEqual([]);
  });

  test('serializes a large value once', () => {
    const consts = Array.from({ length: 4_000 }, (_, n) => ({ const: { n } }));
    const schema: JsonSchema = { type: 'object', properties: { a: { anyOf: consts } } };
    const large = { list: Array.from({ length: 50_000 }, (_, n) => n) };
    const began = performance.now();
    expect(issuesOf(schema, { a: large })).not.toEqual([]);
    expect(performance.now() - began).toBeLessThan(15_000);
  });

  test('measures a long string once', () => {
    const refs = (name: string) => Array.from({ length: 7 }, () => ({ $ref: `#/$defs/${name}` }));
    const schema: JsonSchema = {
      type: 'object',
      properties: { a: { allOf: refs('b') } },
      $defs: { b: { allOf: refs('c') }, c: { allOf: refs('d') }, d: { minLength: 1 } },
    };
    const began = performance.now();
    expect(issuesOf(schema, { a: 'x'.repeat(900_000) })).toEqual([]);
    expect(performance.now() - began).toBeLessThan(15_000);
  });

  test('reports only the first issues', () => {
    const strict: JsonSchema = { type: 'object', additionalProperties: false };
    const schema: JsonSchema = { type: 'object', properties: { a: strict } };
    const many = Object.fromEntries(Array.from({ length: 200_000 }, (_, n) => [`k${n}`, n]));
    expect(issuesOf(schema, { a: many })).toHaveLength(20);
    const required = Array.from({ length: 5_000 }, (_, n) => `r${n}`);
    expect(issuesOf({ type: 'object', required }, {})).toHaveLength(20);
  });

  test('counts names and items against the budget', () => {
    const required = Array.from({ length: 2_000 }, (_, n) => `r${n}`);
    const demanding = { type: 'object', required };
    const schema: JsonSchema = {
      type: 'object',
      properties: { a: { type: 'array', items: { anyOf: [demanding, true] } } },
    };
    const list = Array.from({ length: 5_000 }, () => ({}));
    expect(issuesOf(schema, { a: list })).toEqual([': Too complex to check against its schema']);
  });
});
