import { describe, expect, it } from 'vitest';
import { SafeNames, isStrictSchema } from '../src/provider-request.ts';

const accepted = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;

describe('SafeNames', () => {
  it('keeps names that providers accept', () => {
    const names = new SafeNames(['look', 'send_note', 'a-b']);
    for (const name of ['look', 'send_note', 'a-b', 'not-known-before']) {
      expect(names.safe(name)).toBe(name);
      expect(names.original(name)).toBe(name);
    }
  });

  it.each(['acme.look', '3d', '-x', 'a b', 'ü', '', 'x'.repeat(65), '工具', 'a/b:c'])(
    'is found for %j, and leads back to it',
    (name) => {
      const names = new SafeNames([name]);
      expect(names.safe(name)).toMatch(accepted);
      expect(names.original(names.safe(name))).toBe(name);
      expect(names.safe(name)).toBe(names.safe(name));
    },
  );

  it('never maps two names to the same one', () => {
    const long = 'x'.repeat(80);
    const given = ['a.b', 'a_b', 'a/b', `${long}1`, `${long}2`, 'x'.repeat(64)];
    const names = new SafeNames(given);
    expect(new Set(given.map((name) => names.safe(name))).size).toBe(given.length);
    expect(names.safe('a_b')).toBe('a_b');
    expect(names.safe('x'.repeat(64))).toBe('x'.repeat(64));
    for (const name of given) expect(names.original(names.safe(name))).toBe(name);
  });

  it('keeps unknown names of the provider', () => {
    expect(new SafeNames(['look']).original('invented')).toBe('invented');
  });
});

const leaf = { type: 'string', description: 'A word' };
const strict = (properties: object) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

describe('isStrictSchema', () => {
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
