import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { fieldIssues, issueMessage } from '../../src/schemas/issues.ts';
import { routes, type Route } from '../../src/routes/index.ts';

function issuesOf(schema: z.ZodType, value: unknown): string[] {
  const issues = schema.safeParse(value, { error: issueMessage }).error?.issues ?? [];
  return fieldIssues(issues).map(({ path, message }) => `${path}: ${message}`);
}

const role = z.object({ role: z.enum(['user', 'tool']) });
const input = z.object({ input: z.union([z.string(), z.array(role)]) });
const kind = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('a') }),
  z.object({ kind: z.literal('b') }),
]);

describe('field issues', () => {
  it.each<[z.ZodType, unknown, string]>([
    [z.object({ a: z.string() }), {}, 'a: Required'],
    [z.string(), 5, ': Must be a string'],
    [z.number(), 'x', ': Must be a number'],
    [z.int(), 1.5, ': Must be an integer'],
    [z.boolean(), 'yes', ': Must be true or false'],
    [z.array(z.string()), 'x', ': Must be an array'],
    [z.object({}), null, ': Must be an object'],
    [z.record(z.string(), z.string()), [], ': Must be an object'],
    [z.guid(), 'x', ': Must be a UUID, such as 01963a5c-7891-7abc-8ef0-123456789abc'],
    [z.url(), 'x', ': Must be a URL, such as https://example.com'],
    [z.iso.datetime(), 'noon', ': Must be a time with its zone, such as 2026-01-31T12:00:00Z'],
    [z.string().regex(/a/), 'x', ': Invalid format'],
    [z.string().min(1), '', ': Must not be empty'],
    [z.string().min(3), 'x', ': Must have at least 3 characters'],
    [z.string().max(2), 'xxx', ': Must have at most 2 characters'],
    [z.string().length(3), 'x', ': Must have 3 characters'],
    [z.array(z.string()).min(1), [], ': Must not be empty'],
    [z.array(z.string()).max(1), ['a', 'b'], ': Must have at most 1 items'],
    [z.int().min(1), 0, ': Must be at least 1'],
    [z.int().max(5), 9, ': Must be at most 5'],
    [z.number().positive(), 0, ': Must be greater than 0'],
    [z.number().lt(5), 5, ': Must be less than 5'],
    [z.enum(['a', 'b', 'c']), 'x', ': Must be a, b or c'],
    [z.literal(true), false, ': Must be true'],
    [z.strictObject({}), { a: 1 }, 'a: Unknown field'],
    [
      z.strictObject({ readOnly: z.any().optional() }),
      { readonly: 1 },
      'readonly: Unknown field (did you mean readOnly?)',
    ],
    [kind, { kind: 'c' }, 'kind: Must be a or b'],
    [kind, {}, 'kind: Must be a or b'],
    [
      z.record(z.guid(), z.string()),
      { a: 'b' },
      'a: Invalid key: Must be a UUID, such as 01963a5c-7891-7abc-8ef0-123456789abc',
    ],
    [z.number().multipleOf(2), 3, ': Must be a multiple of 2'],
  ])('describe the problem in plain English (%#)', (schema, value, sentence) => {
    expect(issuesOf(schema, value)).toEqual([sentence]);
  });

  it('keep the message that the schema declares', () => {
    const own = z.string().regex(/a/, 'Must hold an a');
    expect(issuesOf(own, 'x')).toEqual([': Must hold an a']);
    const refined = z
      .object({ a: z.string() })
      .refine(() => false, { message: 'Never', path: ['a'] });
    expect(issuesOf(refined, { a: '' })).toEqual(['a: Never']);
  });

  it('report the alternative of a union that has the same type as the value', () => {
    expect(issuesOf(input, { input: [{ role: 'boss' }] })).toEqual([
      'input[0].role: Must be user or tool',
    ]);
    expect(issuesOf(input, { input: 5 })).toEqual(['input: Must be a string or an array']);
    expect(issuesOf(input, {})).toEqual(['input: Required']);
    const either = z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]);
    expect(issuesOf(either, {})).toEqual([': Matches none of the alternatives']);
  });
});

const invalid = [
  5,
  'x',
  '',
  true,
  null,
  [],
  {},
  [{}],
  { a: 1 },
  [null],
  'x'.repeat(20_000),
  -1,
  0.5,
];

/** Invalid values, and objects with one of them for each field in turn. */
function* invalidFor(schema: z.ZodType): Generator {
  yield* invalid;
  const names = schema instanceof z.ZodObject ? Object.keys(schema.shape as object) : [];
  for (const name of names) for (const value of invalid) yield { [name]: value };
}

it('never shows a default zod message for any route', () => {
  const foreign =
    /invalid (?!key: |value$)|unrecognized|expected|(?<!\.)received|zod|regex|pattern \/|too (small|big)|guid|\bNaN\b/i;
  let count = 0;
  for (const route of Object.values(routes) as Route[]) {
    for (const schema of [route.body, route.query, route.params]) {
      if (schema === undefined) continue;
      for (const value of invalidFor(schema)) {
        for (const sentence of issuesOf(schema, value)) {
          count += 1;
          expect(sentence.replace(/^[^:]*: /, '')).not.toMatch(foreign);
        }
      }
    }
  }
  expect(count).toBeGreaterThan(1_000);
});
