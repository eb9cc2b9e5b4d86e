import { describe, expect, it } from 'vitest';
import { SharedPlaces } from '../../src/runtime/shared-places.ts';

/** How many of the places a tenant takes until there are none for it. */
function fill(places: SharedPlaces, tenantId: string): number {
  let taken = 0;
  while (places.take(tenantId, `${tenantId}${taken}`)) taken += 1;
  return taken;
}

describe('shared places', () => {
  it('leave half of what is free for other tenants', () => {
    const places = new SharedPlaces(16);
    expect(['a', 'b', 'c', 'd', 'e', 'f'].map((tenantId) => fill(places, tenantId))).toEqual([
      8, 4, 2, 1, 1, 0,
    ]);
  });

  it('give a place that becomes free to a tenant that has fewer', () => {
    const places = new SharedPlaces(4);
    expect(['a', 'b', 'c'].map((tenantId) => fill(places, tenantId))).toEqual([2, 1, 1]);
    places.release('a', 'a0');
    expect(places.hasRoomFor('a')).toBe(false);
    expect(places.take('d', 'd0')).toBe(true);
  });

  it('give a key one place, which is free again once', () => {
    const places = new SharedPlaces(4);
    expect([places.take('a', 'k'), places.take('a', 'k')]).toEqual([true, false]);
    places.release('a', 'k');
    places.release('a', 'k');
    expect(places.has('a', 'k')).toBe(false);
    expect(fill(places, 'a')).toBe(2);
  });
});
