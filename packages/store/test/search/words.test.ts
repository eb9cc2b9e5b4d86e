import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isFunctionWord } from '../../src/search/words.ts';
import { wordsOf } from '../../src/search/words.ts';

describe('the words of a text', () => {
  test.each<[string, string[]]>([
    ['Hello, World!', ['hello', 'world']],
    ['23*47 = 1081', ['23', '47', '1081']],
    ['ada@example.com', ['ada', 'example', 'com']],
    ['Crème brûlée', ['creme', 'brulee']],
    ['ÅNGSTRÖM', ['angstrom']],
    ['İstanbul', ['istanbul']],
    ['ﬁne ｗｉｄｅ', ['fine', 'wide']],
    ['cats glass bus basis colours', ['cat', 'glass', 'bus', 'basis', 'colour']],
    ['as is us', ['as', 'is', 'us']],
    ['зелёный чай', ['зеленый', 'чай']],
    ['हरा रंग', ['हरा', 'रंग']],
    ['초록색', ['초록색']],
    ['我喜欢咖啡', ['我喜', '喜欢', '欢咖', '咖啡']],
    ['茶', ['茶']],
    ['東京タワー', ['東京', '京タ', 'タワ', 'ワー']],
    ['iPhone很好', ['iphone', '很好']],
    ['𠮷野家', ['𠮷野', '野家']],
    ['', []],
    [' \u0000 \ud800 … ()', []],
    ["it's a\u0000b", ['it', 's', 'a', 'b']],
  ])('%j are %j', (text, expected) => {
    expect(wordsOf(text)).toEqual(expected);
  });

  test('are the same however a letter is composed', () => {
    for (const text of ['Crème', 'Ωmega', '한국어', 'ガラス', 'Việt Nam']) {
      expect(wordsOf(text.normalize('NFD'))).toEqual(wordsOf(text.normalize('NFC')));
    }
  });

  test('hold letters, marks and digits alone, and are never long, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
        for (const word of wordsOf(text)) {
          expect(word).toMatch(/^[\p{L}\p{M}\p{N}\ufffd]+$/u);
          expect(word.length).toBeLessThanOrEqual(40);
        }
      }),
    );
    expect(wordsOf('x'.repeat(1_000))).toEqual(['x'.repeat(40)]);
  });

  test('take time in proportion to the text', () => {
    const began = performance.now();
    wordsOf('aé咖'.repeat(100_000));
    // Quadratic work would take minutes.
    expect(performance.now() - began).toBeLessThan(15_000);
  });
});

describe('function words', () => {
  test('are those that hold sentences together, in several languages', () => {
    const all = 'the what is does für nicht où être qué también você perché het';
    expect(wordsOf(all).filter((word) => !isFunctionWord(word))).toEqual([]);
  });

  test('are none that mean something in another language', () => {
    const meaningful = 'die war hat son man like name colour work order';
    expect(wordsOf(meaningful).filter(isFunctionWord)).toEqual([]);
  });
});
