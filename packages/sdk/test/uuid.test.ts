import { afterEach, describe, expect, test, vi } from 'vitest';
import { uuid } from '../src/uuid.ts';

const form = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

afterEach(() => vi.unstubAllGlobals());

describe('a random id', () => {
  test('is a UUID', () => {
    expect(uuid()).toMatch(form);
  });

  test('is one also where a page is not from a secure origin', () => {
    const { crypto } = globalThis;
    vi.stubGlobal('crypto', {
      getRandomValues: (bytes: Uint8Array<ArrayBuffer>) => crypto.getRandomValues(bytes),
    });
    const ids = Array.from({ length: 100 }, uuid);
    for (const id of ids) expect(id).toMatch(form);
    expect(new Set(ids).size).toBe(100);
  });
});
