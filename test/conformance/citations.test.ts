import { describe, expect, test } from 'vitest';

import { citationsIn } from './citations.ts';

// The coverage test does not look into this file: its ids are made up.

function ids(source: string): readonly string[] {
  return citationsIn(source).ids;
}

describe('finds', () => {
  test('an id in single or double quotes', () => {
    expect(ids(`verifies('000:a:b');`)).toEqual(['000:a:b']);
    expect(ids(`verifies("000:a:b");`)).toEqual(['000:a:b']);
  });

  test('several ids of one call, across lines and with a trailing comma', () => {
    const source = `
      test('does it', () => {
        verifies(
          '000:a:b',
          "000:a:c", '000:a:d',
        );
      });
    `;
    expect(ids(source)).toEqual(['000:a:b', '000:a:c', '000:a:d']);
  });

  test('the calls of one file in their order', () => {
    expect(ids(`verifies('000:a:b');\nverifies ('000:a:c')`)).toEqual(['000:a:b', '000:a:c']);
  });

  test('ids between comments', () => {
    const source = `verifies(
      '000:a:b', // isn't all (yet)
      /* '000:a:x' */ '000:a:c',
    );`;
    expect(ids(source)).toEqual(['000:a:b', '000:a:c']);
  });

  test('a call that follows text with comment marks and quotes in it', () => {
    const source = [
      `const url = 'http://127.0.0.1'; verifies('000:a:b');`,
      'const glob = `/app/data/**`;',
      `const said = "it's"; verifies('000:a:c');`,
      String.raw`const escaped = 'isn\'t'; verifies('000:a:d');`,
    ].join('\n');
    expect(ids(source)).toEqual(['000:a:b', '000:a:c', '000:a:d']);
  });
});

describe('does not find', () => {
  test('a call in a comment', () => {
    expect(ids(`// verifies('000:a:b')\n/* verifies('000:a:c') */`)).toEqual([]);
  });

  test('a call in a string or a template', () => {
    expect(ids(`const a = "verifies('000:a:b')"; const b = \`verifies('000:a:c')\`;`)).toEqual([]);
  });

  test('another function whose name ends alike, or a method', () => {
    expect(ids(`reverifies('000:a:b'); it.verifies('000:a:c');`)).toEqual([]);
  });

  test('an import of the function', () => {
    const found = citationsIn(`import { verifies } from './verifies.ts';`);
    expect(found).toEqual({ ids: [], unreadable: [] });
  });
});

describe('reports as unreadable', () => {
  test.each([
    ['no id', 'verifies()'],
    ['a variable', 'verifies(id)'],
    ['a spread', 'verifies(...ids)'],
    ['a template', 'verifies(`000:a:b`)'],
    ['an id beside something else', `verifies('000:a:b', id)`],
  ])('a call with %s', (_what, source) => {
    expect(citationsIn(source)).toEqual({ ids: [], unreadable: [source] });
  });
});
