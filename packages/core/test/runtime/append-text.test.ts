import { expect, it } from 'vitest';
import { appendText } from '../../src/runtime/append-text.ts';

it('a text that grows in small pieces is the same as its pieces joined', () => {
  const pieces = Array.from({ length: 20_000 }, (_, n) => `piece ${n} ü🙂 `);
  let text = '';
  for (const piece of pieces) text = appendText(text, piece);
  expect(text).toBe(pieces.join(''));
});
