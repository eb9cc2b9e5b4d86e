import { describe, expect, it } from 'vitest';
import { readSnapshot, writeSnapshot } from '../../../src/run/state/state.ts';
import { initialState } from '../../../src/run/state/state.ts';

describe('a snapshot', () => {
  it('gives back the state that it was made of', () => {
    expect(readSnapshot(writeSnapshot(initialState))).toStrictEqual(initialState);
  });

  it.each([null, '{}', '{"status":"running","seq":7}', '{"version":0,"state":{"seq":7}}'])(
    'of another version is left, and the journal is folded: %s',
    (text) => {
      expect(readSnapshot(text)).toBeUndefined();
    },
  );
});
