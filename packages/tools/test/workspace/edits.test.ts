import { describe, expect, it } from 'vitest';
import { applyEdits } from '../../src/workspace/edits.ts';

describe('edits', () => {
  it('replace the one place that they name, one after the other', () => {
    expect(
      applyEdits('a b c', [
        { old: 'a', new: 'x b' },
        { old: 'x b b', new: 'y' },
      ]),
    ).toBe('y c');
  });

  it('take what is new as it is', () => {
    expect(applyEdits('a', [{ old: 'a', new: '$& $1 $$' }])).toBe('$& $1 $$');
    expect(applyEdits('a a', [{ old: 'a', new: '$&', all: true }])).toBe('$& $&');
  });

  it('make a file by one edit with nothing to replace', () => {
    expect(applyEdits(undefined, [{ old: '', new: 'text' }])).toBe('text');
    expect(applyEdits('', [{ old: '', new: 'text' }])).toBe('text');
  });

  it.each([
    ['does not hold', 'abc', [{ old: 'x', new: 'y' }]],
    ['lines 1 and 3', 'a\nb\na', [{ old: 'a', new: 'y' }]],
    ['the same', 'abc', [{ old: 'a', new: 'a' }]],
    ['there already', 'abc', [{ old: '', new: 'y' }]],
    ['no such file', undefined, [{ old: 'a', new: 'y' }]],
    [
      'edits[1]',
      'ab',
      [
        { old: 'a', new: 'x' },
        { old: 'a', new: 'y' },
      ],
    ],
  ] as const)('say what is wrong: %s', (message, before, edits) => {
    expect(() => applyEdits(before, edits)).toThrow(message);
  });
});
