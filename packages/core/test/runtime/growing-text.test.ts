import { expect, it } from 'vitest';
import { appendText, endText, noText, textOf } from '../../src/runtime/growing-text.ts';

it('a text that grows in small pieces is the same as its pieces joined', () => {
  const pieces = Array.from({ length: 20_000 }, (_, n) => `piece ${n} ü🙂 `);
  const joined = pieces.join('');
  const text = pieces.reduce(appendText, noText);
  expect(textOf(text)).toBe(joined);
  expect(endText(text)).toEqual({ blocks: joined, tail: '' });
});
