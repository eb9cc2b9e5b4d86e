import { describe, expect, it } from 'vitest';
import { knownModel } from '../src/known-models.ts';

describe('a well-known model', () => {
  it.each(['gpt-4o', 'openai:gpt-4o', 'gpt-4o-2024-08-06'])('is found as %s', (name) => {
    expect(knownModel(name)).toEqual({
      contextTokens: 128_000,
      price: { inputPerMillion: 2.5, outputPerMillion: 10, cachedInputPerMillion: 1.25 },
    });
  });

  it('has a price of cache writes if its provider charges for them', () => {
    for (const name of ['claude-sonnet-4-5', 'claude-sonnet-4-5-20250929']) {
      expect(knownModel(name)?.price).toMatchObject({
        inputPerMillion: 3,
        cachedInputPerMillion: 0.3,
        cacheWritePerMillion: 3.75,
      });
    }
  });

  it.each(['demo', 'gpt-99', 'acme:gpt-4o', 'openai:constructor', 'anthropic:gpt-4o', ''])(
    'is not %s',
    (name) => {
      expect(knownModel(name)).toBeUndefined();
    },
  );
});
