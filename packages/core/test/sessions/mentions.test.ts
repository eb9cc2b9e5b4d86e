import { describe, expect, test } from 'vitest';
import { isMentioned } from '../../src/sessions/mentions.ts';

describe('a mention', () => {
  test.each([
    '@ada',
    'Hello @ada',
    '@ada, look',
    'Ask @ada.',
    'Ask @ada...',
    'Is it you, @ada?',
    '(@ada)',
    '"@ada"',
    '**@ada**',
    '@bob @ada',
    '@bob,@ada',
    'first line\n@ada: second line',
    '`code` and @ada',
    'für @ada — bitte',
  ])('is found in %j', (text) => {
    expect(isMentioned(text, 'ada')).toBe(true);
  });

  test.each([
    '',
    'ada',
    '@adam',
    '@ada-2',
    '@ada.lovelace',
    '@Ada',
    '@adaX',
    '@adaß',
    'write to me@ada.example',
    'me+x@ada',
    '@ada@social.example',
    'https://social.example/@ada',
    'npm install @ada/tools',
    '`@ada`',
    '```\n@ada\n```',
    '```ts\n@ada decorates',
    '@@ada',
    '\\@ada',
  ])('is not found in %j', (text) => {
    expect(isMentioned(text, 'ada')).toBe(false);
  });

  test('may be of a handle with punctuation in it, or at its end', () => {
    expect(isMentioned('Ask @build.bot-2.', 'build.bot-2')).toBe(true);
    expect(isMentioned('Ask @build.bot-2.', 'build')).toBe(false);
    expect(isMentioned('Ask @v1. now', 'v1.')).toBe(true);
  });

  test('is found in a long text in linear time', () => {
    const text = `${'@a'.repeat(200_000)}${'`'.repeat(200_004)} @ada`;
    expect(isMentioned(text, 'ada')).toBe(true);
  });
});
