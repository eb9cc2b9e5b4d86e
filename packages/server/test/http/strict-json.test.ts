import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RelayError } from '@relay/protocol';
import { parseStrictly } from '../../src/http/strict-json.ts';

/** The first issue; undefined if the text is accepted. */
async function findAmbiguity(json: string) {
  try {
    await parseStrictly(json);
    return undefined;
  } catch (error) {
    return error instanceof RelayError ? error.details?.[0] : undefined;
  }
}

const codeOf = async (json: string) =>
  parseStrictly(json).then(
    () => 'accepted',
    (error: unknown) => (error instanceof RelayError ? error.code : error),
  );

describe('a JSON body', () => {
  const parts = fc.constantFrom(
    ...'{ } [ ] , : " "a" "b": \\\\ \\u0041 \\x 0 01 - -1 1. .5 1e5 1E+2 2e true nul null NaN // é 😀'.split(
      ' ',
    ),
    ' ',
    '\n',
    '\t',
    '\u00a0',
    '\0',
    '"a long text of many characters"',
    '"a\\nb"',
    '"\t"',
    '\ud800',
    '\ufeff',
  );

  it('is accepted if and only if JSON.parse accepts it, with the same value', async () => {
    const member = (part: string, at: number) => `"${at}":${part}`;
    const texts = fc.oneof(
      fc.array(parts, { maxLength: 12 }).map((found) => found.join('')),
      fc.array(parts, { maxLength: 5 }).map((found) => `[${found.join(',')}]`),
      fc.array(parts, { maxLength: 5 }).map((found) => `{${found.map(member).join(',')}}`),
    );
    await fc.assert(
      fc.asyncProperty(texts, async (text) => {
        let value: unknown;
        try {
          value = JSON.parse(text);
        } catch {
          expect(await codeOf(text)).not.toBe('accepted');
          return;
        }
        if ((await codeOf(text)) === 'invalid_request') return; // ambiguous
        expect(await parseStrictly(text)).toEqual(value);
      }),
      { numRuns: 5_000 },
    );
  });

  it('has the value that was written', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.jsonValue({ maxDepth: 6 }),
        fc.constantFrom(0, 1, '\t'),
        async (value, space) => {
          const text = JSON.stringify(value, null, space);
          if (JSON.stringify(value).includes('"__proto__"')) return;
          if ((await codeOf(text)) === 'invalid_request') return; // ambiguous
          expect(await parseStrictly(text)).toEqual(JSON.parse(text));
        },
      ),
    );
  });

  it.each(['{"__proto__":{}}', '{"\\u005f_proto__":1}', '[{"constructor":{"prototype":{}}}]'])(
    'does not reach a prototype: %s',
    async (text) => {
      expect(await codeOf(text)).toBe('invalid_json');
    },
  );

  it('has a bounded number of keys in one object', async () => {
    const keys = Array.from({ length: 100_001 }, (_, n) => `"${n}":0`);
    expect(await findAmbiguity(`{"a":{${keys.join(',')}}}`)).toMatchObject({
      message: expect.stringContaining('More than 100000 keys'),
    });
    expect(await codeOf(`{${keys.slice(1).join(',')}}`)).toBe('accepted');
  });

  it.each(['1', '-1.5', '"a"', '{"a":1}', '[[1]]', 'null'])(
    'of a megabyte is read in several turns of the event loop: %s',
    async (unit) => {
      let turns = 0;
      const timer = setInterval(() => (turns += 1), 0);
      const items = Array.from({ length: 1_048_576 / (unit.length + 1) }, () => unit);
      await parseStrictly(`[${items.join(',')}]`);
      clearInterval(timer);
      expect(turns).toBeGreaterThanOrEqual(4);
    },
  );
});

describe('unambiguous JSON', () => {
  it('is any output of JSON.stringify without unsafe integers', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue({ maxDepth: 6 }), async (value) => {
        const unsafe = /(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/.test(JSON.stringify(value));
        if (!unsafe) expect(await findAmbiguity(JSON.stringify(value))).toBeUndefined();
      }),
    );
  });

  it('may repeat a key in different objects, and a value anywhere', async () => {
    expect(await findAmbiguity('{"a":{"a":1},"b":[{"a":1},{"a":1},"a","a"]}')).toBeUndefined();
  });

  it('may hold anything in its strings', async () => {
    expect(
      await findAmbiguity('{"a":"{\\"a\\":1,\\"a\\":2} [[[ 99999999999999999999"}'),
    ).toBeUndefined();
  });
});

describe('JSON of the maximum body size', () => {
  it.each([
    ['plain', 'a'.repeat(10_000_000)],
    ['escaped', '\\n'.repeat(5_000_000)],
    ['quoted', 'ab\\"'.repeat(2_500_000)],
    ['backslashes', '\\\\'.repeat(5_000_000)],
  ])('is scanned like a short one: %s', async (_, text) => {
    expect(await findAmbiguity(`{"a":"${text}","b":1}`)).toBeUndefined();
    expect(await findAmbiguity(`{"a":"${text}","a":1}`)).toEqual({
      path: 'a',
      message: 'Duplicate key',
    });
  });
});

it.each(['1e20', '1.5e300', '-1.7976931348623157e308', '0.1', '5e-324', '12.0'])(
  'the number %s is represented exactly',
  async (number) => {
    expect(await findAmbiguity(`{"n":${number}}`)).toBeUndefined();
  },
);

describe('ambiguous JSON', () => {
  it.each([
    ['{"a":1,"a":2}', 'a'],
    ['{"a":{"b":1,"\\u0062":2}}', 'a.b'],
    ['[{"x":1},{"x":1,"x":1}]', '[1].x'],
    ['{"a":{},"a":[]}', 'a'],
  ])('has a duplicate key: %s', async (json, path) => {
    expect(await findAmbiguity(json)).toEqual({ path, message: 'Duplicate key' });
  });

  it.each([
    '9007199254740993',
    '12345678901234567890.0',
    '1e400',
    '{"n":-1e400}',
    '[1,{"n":-90071992547409920}]',
    '{"n":1e3,"m":12345678901234567890}',
  ])('has a number that cannot be represented: %s', async (json) => {
    expect((await findAmbiguity(json))?.message).toContain('exactly');
  });

  it('is nested too deeply, and is reported with its path', async () => {
    expect(await findAmbiguity('['.repeat(64) + ']'.repeat(64))).toBeUndefined();
    expect((await findAmbiguity('['.repeat(100_000) + ']'.repeat(100_000)))?.message).toContain(
      '64',
    );
  });
});
