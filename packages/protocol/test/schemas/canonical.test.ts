import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../src/schemas/canonical.ts';

describe('canonicalJson', () => {
  it('sorts keys by code unit at every level and keeps the order of arrays', () => {
    const value = {
      b: [3, 1, { z: 1, y: 2 }],
      a: null,
      B: true,
      é: 1,
      '😀': 2,
      '\uffff': 3,
      10: 0,
      9: 0,
    };
    expect(canonicalJson(value)).toBe(
      '{"10":0,"9":0,"B":true,"a":null,"b":[3,1,{"y":2,"z":1}],"é":1,"😀":2,"\uffff":3}',
    );
  });

  it('does not depend on the order in which keys were written', () => {
    expect(canonicalJson({ a: 1, b: { c: 2, d: 3 } })).toBe(
      canonicalJson({ b: { d: 3, c: 2 }, a: 1 }),
    );
  });

  it('omits undefined properties, and writes minus zero as zero', () => {
    expect(canonicalJson({ a: undefined, b: -0, c: [undefined, Number.NaN] })).toBe(
      '{"b":0,"c":[null,null]}',
    );
    expect(canonicalJson(undefined)).toBe('null');
    expect(canonicalJson([])).toBe('[]');
    expect(canonicalJson({})).toBe('{}');
  });

  it('includes own enumerable properties only, among them a key named __proto__', () => {
    const child: unknown = Object.create(
      { inherited: 1 },
      { hidden: { value: 1, enumerable: false } },
    );
    expect(canonicalJson(child)).toBe('{}');
    expect(canonicalJson(JSON.parse('{"__proto__":{"a":1},"b":2}'))).toBe(
      '{"__proto__":{"a":1},"b":2}',
    );
  });

  it('distinguishes NUL and lone surrogates from other characters', () => {
    expect(canonicalJson('a\0b')).toBe(String.raw`"a\u0000b"`);
    expect(canonicalJson('\ud800')).toBe(String.raw`"\ud800"`);
    expect(JSON.parse(canonicalJson({ '\udfff': '\ud800' }))).toEqual({ '\udfff': '\ud800' });
  });

  it('writes a bigint in digits and a date as JSON does', () => {
    expect(canonicalJson({ a: 12n, b: new Date(0) })).toBe(
      '{"a":12,"b":"1970-01-01T00:00:00.000Z"}',
    );
  });

  it('calls toJSON once, and not that of a function', () => {
    const twice = { toJSON: () => ({ a: 1, toJSON: () => 2 }) };
    const call = Object.assign(() => 0, { toJSON: () => 1 });
    expect(canonicalJson([twice])).toBe('[{"a":1}]');
    expect(canonicalJson({ call, items: [call] })).toBe('{"items":[null]}');
  });

  it('writes a value in the same way wherever it is nested', () => {
    const nested = [{ 9: 1, 10: 2 }, { b: 1, a: 2n }, { a: undefined, b: null }, [1n, 'x'], [-0]];
    expect(canonicalJson(nested)).toBe('[{"10":2,"9":1},{"a":2,"b":1},{"b":null},[1,"x"],[0]]');
    for (const value of nested) {
      expect(canonicalJson({ x: value })).toBe(`{"x":${canonicalJson(value)}}`);
    }
  });

  it('handles deep and large values', () => {
    const depth = 100_000;
    const deep: unknown = JSON.parse('['.repeat(depth) + ']'.repeat(depth));
    expect(canonicalJson(deep)).toHaveLength(2 * depth);
    expect(canonicalJson(Array.from({ length: 300_000 }, () => 1))).toHaveLength(600_001);
  });

  it('rejects a cyclic value, but not one that contains another twice', () => {
    const shared = { a: 1 };
    expect(canonicalJson([shared, shared])).toBe('[{"a":1},{"a":1}]');
    const cycle: Record<string, unknown> = {};
    cycle['self'] = { cycle };
    expect(() => canonicalJson(cycle)).toThrow(TypeError);
  });

  it('parses back to the same value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('is the same after a JSON round trip', () => {
    const anything = fc.anything({
      withDate: true,
      withNullPrototype: true,
      withSparseArray: true,
    });
    fc.assert(
      fc.property(fc.record({ value: anything }), (holder) => {
        const stored: unknown = JSON.parse(JSON.stringify(holder));
        expect(canonicalJson(holder)).toBe(canonicalJson(stored));
        expect(canonicalJson(JSON.parse(canonicalJson(holder)))).toBe(canonicalJson(holder));
      }),
      { numRuns: 1_000 },
    );
  });
});
