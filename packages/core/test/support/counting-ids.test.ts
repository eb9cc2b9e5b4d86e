import { idSchema } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { createCountingIds } from './index.ts';

describe('counting ids', () => {
  it('are valid, ascending and the same in every run', () => {
    const ids = createCountingIds();
    const made = Array.from({ length: 300 }, () => ids.next());
    expect(made[0]).toBe('01900000-0000-7000-8000-000000000001');
    expect(made.every((id) => idSchema.safeParse(id).success)).toBe(true);
    expect(made.toSorted()).toEqual(made);
    expect(new Set(made).size).toBe(300);
    const again = createCountingIds();
    expect(Array.from({ length: 300 }, () => again.next())).toEqual(made);
  });

  it('may begin where others cannot reach', () => {
    expect(createCountingIds(1_000_000).next() > createCountingIds().next()).toBe(true);
  });
});
