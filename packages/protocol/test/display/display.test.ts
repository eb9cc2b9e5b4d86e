import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { displayOf } from '../../../src/http/views/display.ts';

describe('displayOf', () => {
  it('returns the tool and all its arguments', () => {
    expect(displayOf('bash', { command: 'rm -rf ./tmp', force: true, n: [1, null] })).toEqual({
      text: 'bash {\n  "command": "rm -rf ./tmp",\n  "force": true,\n  "n": [\n    1,\n    null\n  ]\n}',
      flags: [],
    });
    expect(displayOf('noop', null).text).toBe('noop null');
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
    ['a\u{f0000}b', 'invisible', 'a\\u{f0000}b'],
  ])('escapes an invisible character: %j', (value, flag, shown) => {
    const { text, flags } = displayOf('say', { value });
    expect(flags).toEqual([flag]);
    expect(text).toContain(shown);
  });

  it('flags characters that JSON has escaped', () => {
    expect(displayOf('say', { value: 'a\u0000b' })).toMatchObject({ flags: ['control'] });
    expect(displayOf('say', { value: 'a\u001b[2Kb' }).text).toContain('\\u001b[2K');
    expect(displayOf('say', { value: 'a\ud800b' }).flags).toEqual(['lone-surrogate']);
    // A carriage return does not end a line in bash, so it must not look like one.
    expect(displayOf('say', { value: 'ls\rrm x' })).toMatchObject({ flags: ['control'] });
    expect(displayOf('say', { value: 'a\b' }).flags).toEqual(['control']);
    expect(displayOf('say', { value: 'a\tb\nc' }).flags).toEqual([]);
    expect(displayOf('say', { value: 'a\\u200bb \\\\r' }).flags).toEqual([]);
  });

  it('says who denied the same call before, when and why, on a line of its own', () => {
    const at = '2026-11-15T12:00:00.000Z';
    const by = { type: 'key', id: 'k', name: 'Ann' } as const;
    expect(displayOf('say', { value: 1 }, { at, by, reason: 'Not\ntoday\u202e' })).toEqual({
      text: `say {\n  "value": 1\n}\nDenied before by "Ann" at ${at}: "Not\\ntoday\\u{202e}"`,
      flags: ['bidi'],
    });
    expect(displayOf('say', {}, { at, by }).text).toBe(`say {}\nDenied before by "Ann" at ${at}`);
  });

  it('does not escape letters of any script', () => {
    const value = 'Grüße, 你好, مرحبا, שלום, 👍, ǆ';
    expect(displayOf('say', { value })).toEqual({
      text: `say {\n  "value": "${value}"\n}`,
      flags: [],
    });
  });

  it('truncates nothing, and returns no invisible characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (value) => {
        const { text } = displayOf('say', { value });
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
    expect(displayOf('say', { value: long }).text).toContain(long);
  });
});
