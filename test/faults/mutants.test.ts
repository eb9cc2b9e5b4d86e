/** That each mutant still removes something; `npm run mutants` shows that it is noticed. */
import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { mutants } from './mutants.ts';
import { rows } from './chaos/plan.ts';

const root = new URL('../../', import.meta.url);

test('there are at least eight safeguards to remove', () => {
  expect(new Set(mutants.map(({ safeguard }) => safeguard)).size).toBeGreaterThanOrEqual(8);
});

test.each(mutants)('$safeguard: is where it is taken out', ({ file, from, to }) => {
  const source = readFileSync(new URL(file, root), 'utf8');
  expect(source.split(from)).toHaveLength(2);
  expect(to).not.toBe(from);
});

test.each(mutants)('$safeguard: is noticed by something that exists', (mutant) => {
  for (const file of mutant.noticedBy) expect(existsSync(new URL(file, root))).toBe(true);
  const { row } = mutant;
  if (row !== undefined) expect(rows.filter(({ fault }) => fault.includes(row))).toHaveLength(1);
});
