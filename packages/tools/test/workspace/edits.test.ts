import { describe, expect, it } from 'vitest';
import { applyEdits } from '../../src/workspace/edits.ts';

describe('edits', () => {
  it('replace the only occurrence, one after the other', () => {
    expect(
      applyEdits('a b c', [
        { old: 'a', new: 'x b' },
        { old: 'x b b', new: 'y' },
      ]),
    ).toBe('y c');
  });

  it('insert the new text literally', () => {
    expect(applyEdits('a', [{ old: 'a', new: '$& $1 $$' }])).toBe('$& $1 $$');
    expect(applyEdits('a a', [{ old: 'a', new: '$&', all: true }])).toBe('$& $&');
  });

  it('create a file with a single edit whose old text is empty', () => {
    expect(applyEdits(undefined, [{ old: '', new: 'text' }])).toBe('text');
    expect(applyEdits('', [{ old: '', new: 'text' }])).toBe('text');
  });

  it.each([
    ['does not contain', 'abc', [{ old: 'x', new: 'y' }]],
    ['lines 1 and 3', 'a\nb\na', [{ old: 'a', new: 'y' }]],
    ['the same', 'abc', [{ old: 'a', new: 'a' }]],
    ['exists already', 'abc', [{ old: '', new: 'y' }]],
    ['no such file', undefined, [{ old: 'a', new: 'y' }]],
    [
      'edits[1]',
      'ab',
      [
        { old: 'a', new: 'x' },
        { old: 'a', new: 'y' },
      ],
    ],
  ] as const)('are refused with a message: %s', (message, before, edits) => {
    expect(() => applyEdits(before, edits)).toThrow(message);
  });
});
