import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { fieldIssues } from '../../src/schemas/fields.ts';
import { routes, type Route } from '../../src/routes/index.ts';

function told(schema: z.ZodType, value: unknown): string[] {
  const issues = schema.safeParse(value).error?.issues ?? [];
  return fieldIssues(issues).map(({ path, message }) => `${path}: ${message}`);
}

const role = z.object({ role: z.enum(['user', 'tool']) });
const input = z.object({ input: z.union([z.string(), z.array(role)]) });
const kind = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('a') }),
  z.object({ kind: z.literal('b') }),
]);

describe('what is wrong', () => {
  it.each<[z.ZodType, unknown, string]>([
    [z.object({ a: z.string() }), {}, 'a: Required'],
    [z.string(), 5, ': Must be text'],
    [z.number(), 'x', ': Must be a number'],
    [z.int(), 1.5, ': Must be a whole number'],
    [z.boolean(), 'yes', ': Must be true or false'],
    [z.array(z.string()), 'x', ': Must be a list'],
    [z.object({}), null, ': Must be an object'],
    [z.record(z.string(), z.string()), [], ': Must be an object'],
    [z.guid(), 'x', ': Must be an id, such as 01963a5c-7891-7abc-8ef0-123456789abc'],
    [z.url(), 'x', ': Must be a URL, such as https://example.com'],
    [z.iso.datetime(), 'noon', ': Must be a time with its zone, such as 2026-01-31T12:00:00Z'],
    [z.string().regex(/a/), 'x', ': Has the wrong form'],
    [z.string().min(1), '', ': Must not be empty'],
    [z.string().min(3), 'x', ': Must have at least 3 characters'],
    [z.string().max(2), 'xxx', ': Must have at most 2 characters'],
    [z.string().length(3), 'x', ': Must have 3 characters'],
    [z.array(z.string()).min(1), [], ': Must not be empty'],
    [z.array(z.string()).max(1), ['a', 'b'], ': Must have at most 1 items'],
    [z.int().min(1), 0, ': Must be at least 1'],
    [z.int().max(5), 9, ': Must be at most 5'],
    [z.enum(['a', 'b', 'c']), 'x', ': Must be a, b or c'],
    [z.literal(true), false, ': Must be true'],
    [z.strictObject({}), { a: 1 }, 'a: Unknown field'],
    [kind, { kind: 'c' }, 'kind: Must be a or b'],
    [kind, {}, 'kind: Must be a or b'],
    [
      z.record(z.guid(), z.string()),
      { a: 'b' },
      'a: Is no name here: Must be an id, such as 01963a5c-7891-7abc-8ef0-123456789abc',
    ],
    [z.number().multipleOf(2), 3, ': Is not what it should be'],
  ])('%#: is said in our words', (schema, value, sentence) => {
    expect(told(schema, value)).toEqual([sentence]);
  });

  it('is what the schema itself says about it, where it does', () => {
    const own = z.string().regex(/a/, 'Must hold an a');
    expect(told(own, 'x')).toEqual([': Must hold an a']);
    const refined = z
      .object({ a: z.string() })
      .refine(() => false, { message: 'Never', path: ['a'] });
    expect(told(refined, { a: '' })).toEqual(['a: Never']);
  });

  it('with one of several alternatives is told of the one that was meant', () => {
    expect(told(input, { input: [{ role: 'boss' }] })).toEqual([
      'input[0].role: Must be user or tool',
    ]);
    expect(told(input, { input: 5 })).toEqual(['input: Must be text or a list']);
    expect(told(input, {})).toEqual(['input: Required']);
    const either = z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]);
    expect(told(either, {})).toEqual([': Fits none of the alternatives']);
  });
});

/** Things that fit nowhere, to be sent everywhere. */
const odd = [5, 'x', '', true, null, [], {}, [{}], { a: 1 }, [null], 'x'.repeat(20_000), -1, 0.5];

/** An object with an odd value for each of its fields in turn. */
function* oddFor(schema: z.ZodType): Generator {
  yield* odd;
  const names = schema instanceof z.ZodObject ? Object.keys(schema.shape as object) : [];
  for (const name of names) for (const value of odd) yield { [name]: value };
}

it('is never said in the words of the library, whatever is sent to whichever route', () => {
  const foreign = /invalid|expected|received|zod|regex|pattern \/|too (small|big)|guid|\bNaN\b/i;
  let count = 0;
  for (const route of Object.values(routes) as Route[]) {
    for (const schema of [route.body, route.query, route.params]) {
      if (schema === undefined) continue;
      for (const value of oddFor(schema)) {
        for (const sentence of told(schema, value)) {
          count += 1;
          expect(sentence.replace(/^[^:]*: /, '')).not.toMatch(foreign);
        }
      }
    }
  }
  expect(count).toBeGreaterThan(1_000);
});
