import { expect, test } from 'vitest';
import { isMentioned, mentionsIn } from '../../src/sessions/mentions.ts';

test('the mentions in a text are those of handles, also before punctuation', () => {
  const text = 'Ask @ada. or @bob-, not me@cy.org, `@dan` or @ada/tools';
  expect(mentionsIn(text)).toEqual(['ada.', 'ada', 'bob-', 'bob']);
  expect(isMentioned(text, 'ada')).toBe(true);
  expect(isMentioned(text, 'dan')).toBe(false);
});

test('a long row of punctuation after a mention costs no more than its length', () => {
  expect(mentionsIn(`@a${'.'.repeat(200_000)}`)).toHaveLength(64);
});
