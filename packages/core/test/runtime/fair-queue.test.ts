import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairQueue } from '../../src/runtime/fair-queue.ts';

function drain(queue: FairQueue<string>): string[] {
  const taken: string[] = [];
  for (let item = queue.take(); item !== undefined; item = queue.take()) taken.push(item);
  return taken;
}

function filled(...names: readonly string[]): FairQueue<string> {
  const queue = new FairQueue<string>();
  for (const name of names) queue.add(name.slice(0, 1), name, name);
  return queue;
}

describe('a fair queue', () => {
  it('gives back what one tenant queued in the order in which it came', () => {
    expect(drain(filled('a1', 'a2', 'a3'))).toEqual(['a1', 'a2', 'a3']);
  });

  it('lets tenants take turns, however many runs one of them has', () => {
    expect(drain(filled('a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'c2'))).toEqual([
      'a1',
      'b1',
      'c1',
      'a2',
      'c2',
      'a3',
      'a4',
    ]);
  });

  it('skips a tenant that may not be served now, which keeps its turn', () => {
    const queue = filled('a1', 'b1', 'b2');
    expect(queue.take((tenantId) => tenantId !== 'a')).toBe('b1');
    expect(queue.take(() => false)).toBeUndefined();
    expect(drain(queue)).toEqual(['a1', 'b2']);
  });

  it('puts a tenant who was just served behind those who wait', () => {
    const queue = filled('a1', 'b1', 'b2');
    expect(queue.take()).toBe('a1');
    queue.add('a', 'a2', 'a2');
    expect(drain(queue)).toEqual(['b1', 'a2', 'b2']);
  });

  it('keeps the position of an item that is already queued', () => {
    const queue = filled('a1', 'a2');
    queue.add('a', 'a1', 'a1 again');
    expect(queue.size).toBe(2);
    expect(drain(queue)).toEqual(['a1', 'a2']);
  });

  it('accepts a run again after it was taken', () => {
    const queue = filled('a1');
    queue.take();
    queue.add('a', 'a1', 'a1');
    expect(drain(queue)).toEqual(['a1']);
  });

  it('does not confuse equal keys of different tenants', () => {
    const queue = new FairQueue<string>();
    queue.add('a', 'same', 'of a');
    queue.add('b', 'same', 'of b');
    expect(queue.size).toBe(2);
    expect(drain(queue)).toEqual(['of a', 'of b']);
  });

  it('is empty at first, when all is taken, and when it was cleared', () => {
    const queue = filled();
    expect([queue.size, queue.take()]).toEqual([0, undefined]);
    const taken = filled('a1', 'b1');
    drain(taken);
    expect([taken.size, taken.take()]).toEqual([0, undefined]);
    const cleared = filled('a1', 'a2', 'b1');
    expect(cleared.size).toBe(3);
    cleared.clear();
    expect([cleared.size, cleared.take()]).toEqual([0, undefined]);
  });

  it('returns every item once, in order for each tenant, and serves tenants in turn', () => {
    const adding = fc.record({ tenant: fc.constantFrom('a', 'b', 'c', 'd') });
    const steps = fc.array(fc.oneof(adding, fc.constant('take' as const)), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (all) => {
        const queue = new FairQueue<string>();
        const waiting = new Map<string, string[]>();
        /** How often others were served since a tenant began to wait or was last served. */
        const passedBy = new Map<string, Map<string, number>>();
        let counter = 0;
        for (const step of [...all, ...all.map(() => 'take' as const)]) {
          if (step !== 'take') {
            const { tenant } = step;
            const key = `${tenant}${(counter += 1)}`;
            queue.add(tenant, key, key);
            if (!waiting.has(tenant)) passedBy.set(tenant, new Map());
            waiting.set(tenant, [...(waiting.get(tenant) ?? []), key]);
            continue;
          }
          const taken = queue.take();
          if (taken === undefined) {
            expect(waiting.size).toBe(0);
            continue;
          }
          const tenant = taken.slice(0, 1);
          const [first, ...rest] = waiting.get(tenant) ?? [];
          expect(taken).toBe(first);
          if (rest.length > 0) waiting.set(tenant, rest);
          else waiting.delete(tenant);
          passedBy.set(tenant, new Map());
          for (const [other, seen] of passedBy) {
            if (other === tenant || !waiting.has(other)) continue;
            seen.set(tenant, (seen.get(tenant) ?? 0) + 1);
            expect(seen.get(tenant)).toBeLessThanOrEqual(1);
          }
          expect(queue.size).toBe([...waiting.values()].flat().length);
        }
        expect(queue.size).toBe(0);
      }),
    );
  });
});
