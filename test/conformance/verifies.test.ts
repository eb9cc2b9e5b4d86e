import { expect, test } from 'vitest';

import { requirements } from './requirements.ts';
import { verifies } from './verifies.ts';

// Under another name and type, so that neither the scanner nor the compiler takes part.
const cite = verifies as (...ids: string[]) => void;

test('accepts every id of the lists', () => {
  expect(() => cite(...requirements.map(({ id }) => id))).not.toThrow();
});

test('throws on an id that no list has, and names it', () => {
  const [first] = requirements;
  expect(() => cite(first.id, '000:no:such-thing')).toThrow(
    'No such requirement: 000:no:such-thing',
  );
});
