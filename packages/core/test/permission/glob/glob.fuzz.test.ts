/**
 * Our answers beside picomatch's. `FUZZ_GLOBS=100000 npx vitest run glob.fuzz` takes longer and
 * looks further.
 */
import fc from 'fast-check';
import picomatch from 'picomatch';
import { describe, expect, it } from 'vitest';
import { checkPattern, compileGlob } from '../../../src/permission/glob/glob.ts';

const pairsToTry = Number(process.env['FUZZ_GLOBS'] ?? 5_000);
const long = { timeout: 3_600_000 };

/** A piece of a pattern together with a text that it is likely to match. */
interface Piece {
  readonly pattern: string;
  readonly text: string;
}

const char = fc.constantFrom(...Array.from('aab/. -0'));
const text = fc.string({ unit: char, maxLength: 4 });
const join = (pieces: readonly Piece[]): Piece => ({
  pattern: pieces.map((piece) => piece.pattern).join(''),
  text: pieces.map((piece) => piece.text).join(''),
});
const withText = (pattern: string, texts: fc.Arbitrary<string>): fc.Arbitrary<Piece> =>
  texts.map((found) => ({ pattern, text: found }));

interface Shape {
  readonly open: string;
  readonly separator: string;
  readonly close: string;
}

const choice = (branches: fc.Arbitrary<Piece>, shape: Shape): fc.Arbitrary<Piece> =>
  fc.tuple(fc.array(branches, { minLength: 2, maxLength: 3 }), fc.nat()).map(([found, pick]) => ({
    pattern: shape.open + found.map((b) => b.pattern).join(shape.separator) + shape.close,
    text: found[pick % found.length]!.text,
  }));

// picomatch reads a repeated group as text when its branches overlap, so these do not.
const repeated = fc
  .tuple(
    fc.constantFrom('*', '+'),
    fc.constantFrom(['a', 'b'], ['ab', '0'], ['/a', '.b'], ['a', 'b/'], ['a']),
    fc.array(fc.nat(), { maxLength: 3 }),
  )
  .map(([operator, branches, picks]) => ({
    pattern: `${operator}(${branches.join('|')})`,
    text: picks.map((pick) => branches[pick % branches.length]).join(''),
  }));

const { sequence } = fc.letrec<{ piece: Piece; sequence: Piece }>((tie) => {
  const branch = tie('sequence');
  return {
    sequence: fc.array(tie('piece'), { minLength: 1, maxLength: 4 }).map(join),
    piece: fc.oneof(
      { maxDepth: 2, withCrossShrink: true },
      { weight: 5, arbitrary: char.map((found) => ({ pattern: found, text: found })) },
      { weight: 3, arbitrary: withText('*', text) },
      { weight: 1, arbitrary: withText('**', text) },
      { weight: 1, arbitrary: withText('/**/', fc.constantFrom('/', '/a/', '/b/a/', '/.a/')) },
      { weight: 1, arbitrary: withText('?', char) },
      { weight: 1, arbitrary: withText('[ab]', fc.constantFrom('a', 'b', '[ab]')) },
      { weight: 1, arbitrary: withText('[a-b0-9]', fc.constantFrom('a', '0')) },
      { weight: 1, arbitrary: withText('[^a]', fc.constantFrom('b', '-', '.')) },
      { weight: 2, arbitrary: choice(branch, { open: '{', separator: ',', close: '}' }) },
      { weight: 2, arbitrary: choice(branch, { open: '@(', separator: '|', close: ')' }) },
      { weight: 1, arbitrary: choice(branch, { open: '?(', separator: '|', close: ')' }) },
      { weight: 1, arbitrary: repeated },
    ),
  };
});

/** The rows of the table in glob.ts that this alphabet can produce. */
const differsByIntent = (pattern: string): boolean =>
  pattern.startsWith('./') ||
  /[()]\?/.test(pattern) ||
  (pattern.includes('{') && pattern.includes('..'));

const change = fc.constantFrom(
  (value: string) => value,
  (value: string) => value,
  (value: string) => `${value}/`,
  (value: string) => value.slice(1),
  (value: string) => value.slice(0, -1),
  (value: string) => `${value.slice(0, 2)}.${value.slice(2)}`,
  (value: string) => `${value.slice(0, 1)}a${value.slice(1)}`,
);

const other = fc.oneof(
  { weight: 4, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: text },
);

// Long enough for the states of one pattern to fill several words of a bitset.
const lead = fc.constantFrom(0, 0, 0, 26, 29, 30, 31, 60, 62).map((length) => 'b'.repeat(length));

const pairs = fc
  .record({ piece: sequence, other, change, lead })
  .map((made) => ({
    pattern: made.lead + made.piece.pattern,
    value: made.lead + (made.other ?? made.change(made.piece.text)),
  }))
  .filter(({ pattern }) => !differsByIntent(pattern));

describe('globs against picomatch', () => {
  it(`answer alike on ${pairsToTry} pairs, of which many match and many do not`, long, () => {
    let seen = 0;
    let matched = 0;
    fc.assert(
      fc.property(pairs, ({ pattern, value }) => {
        const expected = picomatch.isMatch(value, pattern, { bash: true });
        seen += 1;
        if (expected) matched += 1;
        expect(checkPattern(pattern)).toBeUndefined();
        expect(compileGlob(pattern).matches(value)).toBe(expected);
      }),
      { numRuns: pairsToTry },
    );
    const ratio = matched / seen;
    console.info(`picomatch matched ${(ratio * 100).toFixed(1)} % of ${seen} pairs`);
    expect(ratio).toBeGreaterThan(0.3);
    expect(ratio).toBeLessThan(0.9);
  });

  it('answer alike on every short pattern of stars, dots and slashes', () => {
    const values = words('a./', 4);
    const wrong: string[] = [];
    for (const pattern of words('*./a?', 4)) {
      if (pattern === '' || pattern.startsWith('./')) continue;
      const theirs = picomatch(pattern, { bash: true });
      const ours = compileGlob(pattern);
      for (const value of values) {
        if (ours.matches(value) !== theirs(value)) wrong.push(`${pattern} against ${value}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it('answer alike on every POSIX class and every ASCII character but one', () => {
    const names =
      'alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit';
    const wrong: string[] = [];
    for (const name of names.split(' ')) {
      const pattern = `x[[:${name}:]]y`;
      const theirs = picomatch(pattern, { bash: true });
      for (let code = 0; code < 0x80; code += 1) {
        const value = `x${String.fromCharCode(code)}y`;
        if (compileGlob(pattern).matches(value) !== theirs(value)) wrong.push(`${name} ${code}`);
      }
    }
    expect(wrong).toEqual(['punct 92']);
  });
});

describe('any text as a pattern', () => {
  const noise = fc.string({
    unit: fc.constantFrom(...Array.from('ab*?+@!()[]{}|,\\/.-^:"$\n😀\0\ud800')),
    maxLength: 24,
  });
  const anyText = fc.oneof(noise, fc.string({ unit: 'binary', maxLength: 24 }));

  it(
    'never throws, and an allow rule matches nothing that the same deny rule lets pass',
    long,
    () => {
      fc.assert(
        fc.property(anyText, anyText, (pattern, value) => {
          const allowed = compileGlob(pattern).matches(value);
          const denied = compileGlob(pattern, 'deny').matches(value);
          expect(denied || !allowed).toBe(true);
        }),
        { numRuns: pairsToTry },
      );
      fc.assert(
        fc.property(pairs, ({ pattern, value }) => {
          if (!compileGlob(pattern).matches(value)) return;
          expect(compileGlob(pattern, 'deny').matches(value)).toBe(true);
        }),
      );
    },
  );

  it('matches itself, and nothing else if it is refused', () => {
    fc.assert(
      fc.property(noise, noise, (pattern, other) => {
        expect(compileGlob(pattern).matches(pattern)).toBe(true);
        if (checkPattern(pattern) === undefined) return;
        const glob = compileGlob(pattern);
        if (glob.fault !== undefined) expect(glob.matches(other)).toBe(other === pattern);
      }),
    );
  });

  it('matches exactly its own text once every character is escaped', () => {
    fc.assert(
      fc.property(noise, noise, (literal, other) => {
        fc.pre(literal !== '');
        const pattern = Array.from(literal, (c) => `\\${c}`).join('');
        expect(compileGlob(pattern).matches(literal)).toBe(true);
        expect(compileGlob(pattern).matches(other)).toBe(other === literal || other === pattern);
      }),
    );
  });
});

function words(alphabet: string, maxLength: number): string[] {
  let longest = [''];
  const found = [''];
  for (let length = 0; length < maxLength; length += 1) {
    longest = longest.flatMap((word) => Array.from(alphabet, (c) => word + c));
    found.push(...longest);
  }
  return found;
}
