/**
 * Recalling from a namespace of 10,000 memories, and what 20,000 memories of another tenant change.
 * The baseline is the same question in a namespace of 100, which is about what the sample costs.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TenantStore } from '@relay/core';
import { openSqliteStore } from '@relay/store';
import { compare, show } from './measure.ts';

const questions = 20;
const vocabulary = 8_000;

let state = 7;
function chance(): number {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
  return state / 0x80000000;
}

/** The n-th most frequent word comes about 1/n as often as the first, as in any language. */
function word(): string {
  return `w${Math.floor(10 * (vocabulary / 10 + 1) ** chance() - 10).toString(36)}q`;
}

function textOf(words: number): string {
  return `Relay ${Array.from({ length: words }, word).join(' ')}`;
}

let made = 0;
async function fill(tenant: TenantStore, namespace: string, count: number): Promise<void> {
  for (let done = 0; done < count; done += 500) {
    const batch = Array.from({ length: Math.min(500, count - done) }, () => {
      made += 1;
      return tenant.addMemory({
        id: `01900000-0000-7000-8000-${made.toString(16).padStart(12, '0')}`,
        namespace,
        text: textOf(60 + Math.floor(chance() * 80)),
        runId: null,
        source: 'api',
        createdAt: made,
        expiresAt: null,
      });
    });
    await Promise.all(batch);
  }
}

/** Milliseconds a question; some are short, some are whole letters. */
async function recall(tenant: TenantStore, namespace: string): Promise<number> {
  const asked = Array.from({ length: questions }, (_, n) => textOf(n % 4 === 0 ? 120 : 6));
  const began = performance.now();
  for (const query of asked) {
    await tenant.searchMemories({ namespace, query, limit: 5, now: 0 });
  }
  return (performance.now() - began) / questions;
}

export async function benchMemories(rounds: number): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'relay-bench-'));
  const store = await openSqliteStore({ dir });
  try {
    const [tenant, alone] = [store.tenant('one'), store.tenant('three')];
    await fill(tenant, 'small', 100);
    await fill(tenant, 'large', 10_000);
    const before = await compare(
      [
        { name: '100 memories', run: () => recall(tenant, 'small') },
        { name: '10,000 memories', run: () => recall(tenant, 'large') },
      ],
      rounds,
    );
    show('Memories: a question, without other tenants', before, 'ms');
    await fill(store.tenant('two'), 'large', 20_000);
    await fill(alone, 'small', 100);
    const after = await compare(
      [
        { name: '100 memories', run: () => recall(alone, 'small') },
        { name: '10,000 memories', run: () => recall(tenant, 'large') },
      ],
      rounds,
    );
    show('Memories: a question, beside a tenant with 20,000', after, 'ms');
  } finally {
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  }
}
