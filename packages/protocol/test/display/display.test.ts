import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  describeFlags,
  displayFlags,
  displayOf,
  displayParts,
  escapeMisleading,
  splitMisleading,
} from '../../src/display/display.ts';

describe('displayOf', () => {
  it('returns the tool and all its arguments', () => {
    expect(
      displayOf({ tool: 'bash', params: { command: 'rm -rf ./tmp', force: true, n: [1, null] } }),
    ).toEqual({
      text: 'bash {\n  "command": "rm -rf ./tmp",\n  "force": true,\n  "n": [\n    1,\n    null\n  ]\n}',
      flags: [],
    });
    expect(displayOf({ tool: 'noop', params: null }).text).toBe('noop null');
  });

  it('says where a command runs, also one that the approver changed', () => {
    const preview = { execution: { folder: '/srv/acme', sandboxed: false } };
    const edited = { params: {}, preview: { execution: { folder: '/srv/a b', sandboxed: true } } };
    expect(displayOf({ tool: 'bash', params: {}, preview, edited })).toEqual({
      text: 'bash {}\nRuns in /srv/acme, outside the sandbox\nChanged by the approver to {}\nRuns in "/srv/a b", in the sandbox',
      flags: [],
    });
  });

  it.each([
    ['\u202egpj.exe', 'bidi', '\\u{202e}gpj.exe'],
    ['pay\u200bpal', 'invisible', 'pay\\u{200b}pal'],
    ['a\u00a0b', 'confusable-space', 'a\\u{a0}b'],
    ['a\u2028b', 'control', 'a\\u{2028}b'],
    ['a\u2066b\u2069', 'bidi', 'a\\u{2066}b\\u{2069}'],
    ['tag\u{e0041}', 'invisible', 'tag\\u{e0041}'],
    ['x\u009b31m', 'control', 'x\\u{9b}31m'],
    ['a\u3164b', 'invisible', 'a\\u{3164}b'],
    ['a\uffa0b', 'invisible', 'a\\u{ffa0}b'],
    ['a\u115fb', 'invisible', 'a\\u{115f}b'],
    ['a\u2800b', 'invisible', 'a\\u{2800}b'],
    ['a\u206ab', 'invisible', 'a\\u{206a}b'],
    ['a\ufff9b', 'invisible', 'a\\u{fff9}b'],
    ['a\u180bb', 'invisible', 'a\\u{180b}b'],
    ['a\u{1d173}b', 'invisible', 'a\\u{1d173}b'],
    ['a\u1680b', 'confusable-space', 'a\\u{1680}b'],
    ['a\u{f0000}b', 'unassigned', 'a\\u{f0000}b'],
    ['a\u0378b', 'unassigned', 'a\\u{378}b'],
    ['a\u00adb', 'invisible', 'a\\u{ad}b'],
    ['a\u180eb', 'invisible', 'a\\u{180e}b'],
    ['a\u200db', 'invisible', 'a\\u{200d}b'],
    ['x\ufe0f', 'invisible', 'x\\u{fe0f}'],
    ['漢\u{e0100}', 'invisible', '漢\\u{e0100}'],
    ['👍\u200d', 'invisible', '👍\\u{200d}'],
    ['🏴\u{e0073}\u{e007f}', 'invisible', '🏴\\u{e0073}\\u{e007f}'],
    ['a\u061cb', 'bidi', 'a\\u{61c}b'],
    ['a\u200eb', 'bidi', 'a\\u{200e}b'],
    ['a\u3000b', 'confusable-space', 'a\\u{3000}b'],
    ['Z\u0300\u0301\u0302\u0303\u0304', 'combining-marks', 'Z\u0300\u0301\u0302\u0303\\u{304}'],
    ['a\u0332\u0332', 'combining-marks', 'a\u0332\\u{332}'],
    ['/\u0338', 'combining-marks', '/\\u{338}'],
  ])('escapes an invisible character: %j', (value, flag, shown) => {
    const { text, flags } = displayOf({ tool: 'say', params: { value } });
    expect(flags).toContain(flag);
    expect(text).toContain(shown);
  });

  it('flags characters that JSON has escaped', () => {
    expect(displayOf({ tool: 'say', params: { value: 'a\u0000b' } })).toMatchObject({
      flags: ['control'],
    });
    expect(displayOf({ tool: 'say', params: { value: 'a\u001b[2Kb' } }).text).toContain(
      '\\u001b[2K',
    );
    expect(displayOf({ tool: 'say', params: { value: 'a\ud800b' } }).flags).toEqual([
      'lone-surrogate',
    ]);
    // A carriage return does not end a line in bash, so it must not look like one.
    expect(displayOf({ tool: 'say', params: { value: 'ls\rrm x' } })).toMatchObject({
      flags: ['control'],
    });
    expect(displayOf({ tool: 'say', params: { value: 'a\b' } }).flags).toEqual(['control']);
    expect(displayOf({ tool: 'say', params: { value: 'a\tb\nc' } }).flags).toEqual([]);
    expect(displayOf({ tool: 'say', params: { value: 'a\\u200bb \\\\r' } }).flags).toEqual([]);
  });

  it('says who denied the same call before, when and why, on a line of its own', () => {
    const at = '2026-11-15T12:00:00.000Z';
    const by = { type: 'key', id: 'k', name: 'Ann' } as const;
    expect(
      displayOf({
        tool: 'say',
        params: { value: 1 },
        earlierDenial: { at, by, reason: 'Not\ntoday\u202e' },
      }),
    ).toEqual({
      text: `say {\n  "value": 1\n}\nDenied before by "Ann" at ${at}: "Not\\ntoday\\u{202e}"`,
      flags: ['bidi'],
    });
    expect(displayOf({ tool: 'say', params: {}, earlierDenial: { at, by } }).text).toBe(
      `say {}\nDenied before by "Ann" at ${at}`,
    );
  });

  it('does not escape letters of any script', () => {
    const value = 'Grüße, 你好, مرحبا, שלום, 👍, ǆ';
    expect(displayOf({ tool: 'say', params: { value } })).toEqual({
      text: `say {\n  "value": "${value}"\n}`,
      flags: [],
    });
  });

  it.each([
    'Все файлы, а с ним и о том, как у нас',
    'Привет! Открой файл main.ts и скажи, что в нём (API-интерфейс, git-ветка).',
    'Пливи, човне: її, ґанок, є',
    'Ελληνικά: ο άνθρωπος και ν',
    'Tシャツを買う。ＡＢＣ株式会社、２０２６年　東京',
    '你好，世界！Python3 代码',
    '한국어 A형 텍스트',
    '注音ㄅㄆㄇ',
    'مرحبا بالعالم، می‌خواهم مُحَمَّد',
    'שָׁלוֹם עולם',
    'हिन्दी क्‍ष বাংলা தமிழ்',
    'สวัสดี ที่นี่ ລາວ ខ្មែរ བོད་སྐད།',
    'Հայերեն ქართული ᏣᎳᎩ አማርኛ',
    'Tiếng Việt, Übergröße, naïve café, ışık, Łódź, Ærø, 1ª ordem',
    'Tiếng Việt naïve'.normalize('NFD'),
    '👨‍👩‍👧 ❤️ 1️⃣ 🇩🇪 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☎︎ 👍🏽 ©️ 🏳️‍🌈',
    '5µm, 10 °C, ½ and 1⁄2, “quotes” – dash… № 5, Ⅳ, €, → done',
    'line one\nДва\tтри',
  ])('does not flag ordinary writing: %s', (value) => {
    expect(displayOf({ tool: 'say', params: { value } })).toEqual({
      text: `say ${JSON.stringify({ value }, null, 2)}`,
      flags: [],
    });
  });

  it.each([
    [
      'раypal',
      'mixed-scripts',
      '"раypal" mixes letters of Cyrillic and Latin: "р" U+0440 Cyrillic',
    ],
    ['micr\u03bfsoft', 'mixed-scripts', 'U+03BF Greek, like "o"'],
    ['cat /etc/pаsswd', 'mixed-scripts', 'U+0430 Cyrillic, like "a"'],
    ['ѕсоре', 'confusable', '"ѕсоре" looks like "scope" but is not: "ѕ" U+0455 Cyrillic, like "s"'],
    ['src/ѕсоре.ts', 'confusable', 'looks like "scope"'],
    ['https://раураӏ.com', 'confusable', 'looks like "paypal"'],
    ['сору a b # русский текст', 'confusable', 'looks like "copy"'],
    ['ｒｍ -rf x', 'confusable', 'looks like "rm"'],
    ['𝐠𝐢𝐭 push', 'confusable', 'looks like "git"'],
    ['ɡit push', 'confusable', 'U+0261 Latin, like "g"'],
    ['ꓚꓮꓔ', 'confusable', 'looks like "CAT"'],
    ['ⅼs', 'confusable', 'looks like "ls"'],
    ['docs∕readme.md', 'confusable', '"∕" U+2215 looks like a slash'],
  ])('names the letters of a misleading word: %s', (value, flag, note) => {
    const { text, flags } = displayOf({ tool: 'say', params: { value } });
    expect(flags).toEqual([flag]);
    const [warning = ''] = text.split('\n');
    expect(warning).toMatch(/^Warning: /);
    expect(warning).toContain(note);
  });

  it('checks the names of the tool and its parameters, questions and reasons alike', () => {
    expect(displayOf({ tool: 'rеad', params: {} }).flags).toEqual(['mixed-scripts']);
    expect(displayOf({ tool: 'x', params: { pаth: 1 } }).flags).toEqual(['mixed-scripts']);
    const question = { prompt: 'Pay\u202e?', schema: {} };
    const asked = displayOf({ kind: 'question', tool: 'x', params: {}, question });
    expect(asked).toMatchObject({ flags: ['bidi'] });
    expect(asked.text).toContain('Pay\\u{202e}?');
  });

  it('shows first where paths lead, and the change to a file last', () => {
    const links = [{ name: 'filePath', path: 'docs/readme.md', target: 'deploy/prod.sh' }];
    const diff = '--- deploy/prod.sh\n+++ deploy/prod.sh\n@@ -1,1 +1,1 @@\n-a\n+b\u202e';
    const params = { filePath: 'docs/readme.md' };
    expect(displayOf({ tool: 'patch', params, preview: { links, diff } })).toEqual({
      text: [
        'docs/readme.md → deploy/prod.sh (filePath)',
        `patch ${JSON.stringify(params, null, 2)}`,
        diff.replace('\u202e', '\\u{202e}'),
      ].join('\n'),
      flags: ['bidi', 'resolves-elsewhere'],
    });
  });

  it('quotes a path that could be read as another line or arrow', () => {
    const links = [{ name: 'p', path: 'a → b\nc', target: 'd e' }];
    const { text } = displayOf({ tool: 'x', params: {}, preview: { links } });
    expect(text).toMatch(/^"a → b\\nc" → "d e" \(p\)\nx \{\}$/);
  });

  it('shows what an approver changed, with the paths that it leads to', () => {
    const links = [{ name: 'path', path: 'b', target: 'c' }];
    const edited = { params: { path: 'b' }, preview: { links } };
    const { text, flags } = displayOf({ tool: 'read', params: { path: 'a' }, edited });
    expect(text).toContain('Changed by the approver to {\n  "path": "b"\n}\nb → c (path)');
    expect(flags).toEqual(['resolves-elsewhere']);
  });

  it('says that a text has too many words to check them all', () => {
    const value = 'слово '.repeat(50_000);
    expect(displayOf({ tool: 'say', params: { value } }).flags).toEqual(['not-checked']);
  });

  it('says that a text is too long to check it all, and checks paths first', () => {
    const links = [{ name: 'path', path: 'a', target: 'р\u0430th' }];
    const params = { value: `${'a'.repeat(200_000)} é` };
    const { flags } = displayOf({ tool: 'say', params, preview: { links } });
    expect(flags).toEqual(['mixed-scripts', 'not-checked', 'resolves-elsewhere']);
    expect(displayOf({ tool: 'say', params: { value: 'a'.repeat(400_000) } }).flags).toEqual([]);
  });

  it('has words for every flag', () => {
    expect(describeFlags(displayFlags).join('\n')).not.toContain('flagged as');
    expect(describeFlags(['newer'])).toEqual(['is flagged as newer']);
  });

  it('truncates nothing, and returns no invisible characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (value) => {
        const { call: text } = displayParts({ tool: 'say', params: { value } });
        for (const char of text) {
          const code = char.codePointAt(0) ?? 0;
          expect(code === 0x0a || (code >= 0x20 && (code < 0x7f || code > 0x9f))).toBe(true);
          expect(code < 0x20_0b || code > 0x20_0f).toBe(true);
          expect(code < 0x20_28 || code > 0x20_2e).toBe(true);
        }
        // Unescaping returns the input.
        const written = text.replaceAll(/\\u\{([0-9a-f]+)\}/g, (_, hex: string) =>
          String.fromCodePoint(Number.parseInt(hex, 16)),
        );
        expect(written).toBe(`say ${JSON.stringify({ value }, null, 2)}`);
      }),
    );
    const long = 'x'.repeat(100_000);
    expect(displayOf({ tool: 'say', params: { value: long } }).text).toContain(long);
  });
});

describe('splitMisleading', () => {
  it('finds the same characters as the escaped text, and loses none', () => {
    const misleading = fc.constantFrom(
      '\u202e',
      '\u200b',
      '\0',
      '\u00a0',
      '\u0301',
      '\ud800',
      '👩‍👧',
    );
    const text = fc
      .array(fc.oneof(misleading, fc.string({ unit: 'binary' })))
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(text, (whole) => {
        const pieces = splitMisleading(whole);
        const original = pieces.map((piece) => (typeof piece === 'string' ? piece : piece.char));
        expect(original.join('')).toBe(whole);
        const escaped = pieces.map((piece) =>
          typeof piece === 'string' ? piece : `\\u{${piece.char.codePointAt(0)?.toString(16)}}`,
        );
        expect(escaped.join('')).toBe(escapeMisleading(whole));
      }),
    );
  });
});
