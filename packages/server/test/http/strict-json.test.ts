import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findAmbiguity } from '../../src/http/strict-json.ts';

describe('unambiguous JSON', () => {
  it('is any output of JSON.stringify without unsafe integers', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        const unsafe = /(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/.test(JSON.stringify(value));
        if (!unsafe) expect(findAmbiguity(JSON.stringify(value))).toBeUndefined();
      }),
    );
  });

  it('may repeat a key in different objects, and a value anywhere', () => {
    expect(findAmbiguity('{"a":{"a":1},"b":[{"a":1},{"a":1},"a","a"]}')).toBeUndefined();
  });

  it('may hold anything in its strings', () => {
    expect(findAmbiguity('{"a":"{\\"a\\":1,\\"a\\":2} [[[ 99999999999999999999"}')).toBeUndefined();
  });
});

describe('JSON of the maximum body size', () => {
  it.each([
    ['plain', 'a'.repeat(10_000_000)],
    ['escaped', '\\n'.repeat(5_000_000)],
    ['quoted', 'ab\\"'.repeat(2_500_000)],
    ['backslashes', '\\\\'.repeat(5_000_000)],
  ])('is scanned like a short one: %s', (_, text) => {
    expect(findAmbiguity(`{"a":"${text}","b":1}`)).toBeUndefined();
    expect(findAmbiguity(`{"a":"${text}","a":1}`)).toEqual({ path: 'a', message: 'Duplicate key' });
  });
});

it.each(['1e20', '1.5e300', '-1.7976931348623157e308', '0.1', '5e-324', '12.0'])(
  'the number %s is represented exactly',
  (number) => {
    expect(findAmbiguity(`{"n":${number}}`)).toBeUndefined();
  },
);

describe('ambiguous JSON', () => {
  it.each([
    ['{"a":1,"a":2}', 'a'],
    ['{"a":{"b":1,"\\u0062":2}}', 'a.b'],
    ['[{"x":1},{"x":1,"x":1}]', '[1].x'],
    ['{"a":{},"a":[]}', 'a'],
  ])('has a duplicate key: %s', (json, path) => {
    expect(findAmbiguity(json)).toEqual({ path, message: 'Duplicate key' });
  });

  it.each([
    '9007199254740993',
    '12345678901234567890.0',
    '1e400',
    '{"n":-1e400}',
    '[1,{"n":-90071992547409920}]',
    '{"n":1e3,"m":12345678901234567890}',
  ])('has a number that cannot be represented: %s', (json) => {
    expect(findAmbiguity(json)?.message).toContain('exactly');
  });

  it('is nested too deeply, and is reported with its path', () => {
    expect(findAmbiguity('['.repeat(64) + ']'.repeat(64))).toBeUndefined();
    expect(findAmbiguity('['.repeat(100_000) + ']'.repeat(100_000))?.message).toContain('64');
  });
});
