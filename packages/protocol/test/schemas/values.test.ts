import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { jsonSchema } from '../../src/schemas/values.ts';

describe('jsonSchema', () => {
  it('accepts what z.json() accepts', () => {
    const reference = z.json();
    const anything = fc.anything({ withDate: true, withMap: true, withBigInt: true });
    fc.assert(
      fc.property(fc.oneof(anything, fc.jsonValue()), (value) => {
        expect(jsonSchema.safeParse(value).success).toBe(reference.safeParse(value).success);
      }),
    );
  });

  it('does not copy a large value', () => {
    const value = Array.from({ length: 500_000 }, () => 1);
    expect(jsonSchema.parse(value)).toBe(value);
  });

  it('refuses a cyclic value', () => {
    const cycle: unknown[] = [];
    cycle.push(cycle, cycle);
    expect(jsonSchema.safeParse(cycle).success).toBe(false);
  });

  it('is required in an object', () => {
    expect(z.object({ a: jsonSchema }).safeParse({}).success).toBe(false);
    expect(z.object({ a: jsonSchema.optional() }).safeParse({}).success).toBe(true);
  });
});
