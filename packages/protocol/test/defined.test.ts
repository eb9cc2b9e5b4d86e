import { describe, expect, expectTypeOf, it } from 'vitest';
import { defined } from '../src/defined.ts';

describe('defined', () => {
  it('drops the keys whose value is undefined and keeps the order of the others', () => {
    const kept = defined({ b: 1, gone: undefined, a: 'x' });
    expect(Object.entries(kept)).toEqual([
      ['b', 1],
      ['a', 'x'],
    ]);
    expect('gone' in kept).toBe(false);
  });

  it('keeps null, false, zero and the empty string', () => {
    const values = { a: null, b: false, c: 0, d: '' };
    expect(defined(values)).toEqual(values);
  });

  it('does not change the object it is given', () => {
    const given = { a: 1, b: undefined };
    defined(given);
    expect('b' in given).toBe(true);
  });

  it('turns properties that may be undefined into optional ones', () => {
    const id: string = 'x';
    const limit = [1].at(0);
    const body: unknown = 7;
    expectTypeOf(defined({ id, limit, body })).toEqualTypeOf<{
      id: string;
      limit?: number;
      body?: unknown;
    }>();
  });

  it('keeps optional properties optional', () => {
    const spec: { id: string; label?: string } = { id: 'x' };
    expectTypeOf(defined({ ...spec, more: 1 })).toEqualTypeOf<{
      id: string;
      label?: string;
      more: 1;
    }>();
  });

  it('keeps literals narrow and arrays mutable', () => {
    const reason = ['x'].at(0);
    const frame: { type: 'error'; names: string[]; reason?: string } = defined({
      type: 'error',
      names: ['a'],
      reason,
    });
    expect(frame).toEqual({ type: 'error', names: ['a'], reason: 'x' });
  });
});
