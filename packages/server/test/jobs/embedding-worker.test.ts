import { claimMs, type Embedder, ProviderFailure, type SystemStore } from '@relay/core';
import { ManualClock } from '@relay/core/testing';
import { createMemoryStore } from '@relay/store';
import { createFaultyStore } from '../../../store/test/faulty-store.ts';
import { uuidv7 } from 'uuidv7';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../support/server.ts';
import { EmbeddingWorker } from '../../src/jobs/embedding-worker.ts';

type Embed = (tenantId: string, texts: readonly string[]) => void | Promise<void>;

/** `embed` throws what a provider would; otherwise there are vectors. */
function setUp(embed: Embed = () => undefined, store: SystemStore = createMemoryStore()) {
  const clock = new ManualClock();
  const warnings: string[] = [];
  const calls: { tenantId: string; texts: readonly string[] }[] = [];
  const log = {
    warn: (message: string, fields?: object) =>
      void warnings.push(`${message} ${JSON.stringify(fields)}`),
    error: () => undefined,
  };
  const embedderOf = (tenantId: string): Embedder => ({
    model: 'test:a',
    floor: 0,
    async embed(texts) {
      calls.push({ tenantId, texts });
      await embed(tenantId, texts);
      return texts.map(() => Float32Array.of(1, 0));
    },
  });
  const embedders = {
    model: 'test:a',
    of: async (tenantId: string) => {
      if (tenantId === 'bad') throw refusal();
      return tenantId.startsWith('no') ? undefined : embedderOf(tenantId);
    },
    memoryAdded: () => undefined,
  };
  const worker = new EmbeddingWorker({ embedders, provider: 'test', store, clock, log });
  onTestFinished(() => worker.stop());
  const add = (tenantId: string, text = 'x') =>
    store.tenant(tenantId).addMemory({
      id: uuidv7(),
      namespace: 'n',
      text,
      runId: null,
      source: 'api',
      createdAt: 0,
      expiresAt: null,
    });
  const trust = (tenantId: string, provider = 'test') =>
    store.tenant(tenantId).putCredential({
      id: uuidv7(),
      provider,
      label: null,
      baseUrl: null,
      last4: '',
      sealed: 's',
      createdAt: 0,
      updatedAt: 0,
    });
  const having = async (tenantId: string) => {
    const space = { namespace: 'n', model: 'test:a', now: 0, floor: -1, limit: 1_000 };
    const vector = Float32Array.of(1, 0);
    return (await store.tenant(tenantId).vectors.nearest({ ...space, vector })).length;
  };
  return { worker, store, clock, warnings, calls, add, trust, having };
}

/** Another worker, as after a restart. */
function keeperOn(store: SystemStore) {
  const clock = new ManualClock();
  const embedder: Embedder = {
    model: 'test:a',
    floor: 0,
    embed: async (texts) => texts.map(() => Float32Array.of(1, 0)),
  };
  const embedders = { model: 'test:a', of: async () => embedder, memoryAdded: () => undefined };
  const log = { warn: () => undefined, error: () => undefined };
  return { clock, worker: new EmbeddingWorker({ embedders, provider: 'test', store, clock, log }) };
}

const refusal = (contextExceeded = false) =>
  new ProviderFailure('No', { retryable: false, contextExceeded });

describe('EmbeddingWorker', () => {
  it('embeds existing memories of every tenant with a credential', async () => {
    const { worker, add, trust, having, calls } = setUp();
    for (let n = 0; n < 150; n += 1) await add('a');
    await add('b');
    await add('c');
    await trust('a');
    await trust('b');
    await trust('c', 'other');
    worker.start();
    await until(async () => (await having('a')) === 150, 'all vectors');
    expect(await having('b')).toBe(1);
    expect(await having('c')).toBe(0);
    // In turns: the long queue of one does not hold up the other.
    expect(calls.map(({ tenantId, texts }) => `${tenantId} ${texts.length}`)).toEqual([
      'a 64',
      'b 1',
      'a 64',
      'a 22',
    ]);
  });

  it('embeds a new memory at once', async () => {
    const { worker, add, having, clock } = setUp();
    worker.start();
    await until(() => clock.sleepers > 0, 'its rest');
    await add('a');
    worker.memoryAdded('a');
    await until(async () => (await having('a')) === 1, 'the vector');
  });

  it('skips a tenant without an embedder', async () => {
    const { worker, add, having, calls, clock } = setUp();
    await add('no');
    worker.start();
    worker.memoryAdded('no');
    await until(() => clock.sleepers > 0, 'its rest');
    expect(calls).toEqual([]);
    expect(await having('no')).toBe(0);
  });

  it('retries failed memories without delaying other tenants', async () => {
    let isDown = true;
    const { worker, add, trust, having, warnings, clock } = setUp((tenantId) => {
      if (tenantId === 'a' && isDown) throw new ProviderFailure('Down', { retryable: true });
    });
    await add('a');
    await add('b');
    await trust('a');
    await trust('b');
    worker.start();
    await until(async () => (await having('b')) === 1, 'the other tenant');
    await until(() => warnings.length === 1, 'the warning');
    expect(warnings[0]).toMatch(/memories of a tenant .*"tenantId":"a".*Down/);
    isDown = false;
    // Not before the claim of the first attempt has run out.
    for (let elapsed = 0; elapsed < claimMs(0); elapsed += 60_000) {
      expect(await having('a')).toBe(0);
      await until(() => clock.sleepers > 0, 'its rest');
      await clock.advance(60_000);
    }
    await until(async () => (await having('a')) === 1, 'the vector');
  });

  it('embeds the other memories if one text is refused', async () => {
    const { worker, add, trust, having, calls, warnings } = setUp((_, texts) => {
      if (texts.includes('odd')) throw refusal();
    });
    for (const text of ['a', 'odd', 'b']) await add('a', text);
    await trust('a');
    worker.start();
    await until(async () => (await having('a')) === 2, 'the others');
    expect(calls.map(({ texts }) => texts.join(' '))).toEqual([
      'a odd b',
      'a',
      'odd b',
      'odd',
      'b',
    ]);
    expect(warnings).toEqual([expect.stringMatching(/^Failed to embed a memory .*"tenantId":"a"/)]);
  });

  it('adapts the batch size to the provider', async () => {
    // Such as one that counts tokens a minute, and says of each that is too large to come back later.
    const { worker, add, trust, having, clock, calls } = setUp((_, texts) => {
      if (texts.length > 10) throw new ProviderFailure('Too many tokens', { retryable: true });
    });
    for (let n = 0; n < 80; n += 1) await add('a');
    await trust('a');
    worker.start();
    for (let minutes = 0; (await having('a')) < 80; minutes += 1) {
      expect(minutes).toBeLessThan(30);
      await until(() => clock.sleepers > 0, 'its rest');
      await clock.advance(60_000);
    }
    expect(calls.filter(({ texts }) => texts.length <= 10).length).toBeLessThan(40);
  });

  it('isolates the one text that makes a provider fail', async () => {
    const { worker, add, trust, having, clock } = setUp((_, texts) => {
      if (texts.includes('odd')) throw new ProviderFailure('Error 500', { retryable: true });
    });
    for (let n = 0; n < 20; n += 1) await add('a', n === 7 ? 'odd' : 'x');
    await trust('a');
    worker.start();
    for (let minutes = 0; (await having('a')) < 19; minutes += 1) {
      expect(minutes).toBeLessThan(60);
      await until(() => clock.sleepers > 0, 'its rest');
      await clock.advance(60_000);
    }
  });

  it('catches up within an hour after a long failure', async () => {
    let isDown = true;
    const { worker, add, trust, having, clock } = setUp(() => {
      if (isDown) throw new ProviderFailure('Down', { retryable: true });
    });
    for (let n = 0; n < 5; n += 1) await add('a');
    await trust('a');
    worker.start();
    const pass = async (hours: number) => {
      for (let minutes = 0; minutes < hours * 60; minutes += 1) {
        await until(() => clock.sleepers > 0, 'its rest');
        await clock.advance(60_000);
      }
    };
    await pass(24);
    isDown = false;
    await pass(1);
    expect(await having('a')).toBe(5);
  });

  it('backs off if the provider’s URL is refused', async () => {
    const { worker, add, trust, warnings, clock, store, calls } = setUp();
    await add('bad');
    await trust('bad');
    worker.start();
    for (let minutes = 0; minutes < 3; minutes += 1) {
      await until(() => warnings.length > 0 && clock.sleepers > 0, 'its rest');
      await clock.advance(60_000);
    }
    expect(warnings.length).toBeLessThanOrEqual(4);
    expect(calls).toEqual([]);
    const { vectors } = store.tenant('bad');
    expect(await vectors.claim({ model: 'test:a', now: 0, limit: 9 })).toHaveLength(1);
  });

  it('does not delay other tenants if a provider is slow', async () => {
    let answer = () => {};
    const slow = new Promise<void>((resolve) => (answer = resolve));
    const { worker, add, trust, having } = setUp((tenantId) =>
      tenantId === 'a' ? slow : undefined,
    );
    for (const tenantId of ['a', 'b']) {
      for (let n = 0; n < 130; n += 1) await add(tenantId);
      await trust(tenantId);
    }
    worker.start();
    await until(async () => (await having('b')) === 130, 'the other tenant');
    answer();
  });

  it('stops trying single memories if all of them are refused', async () => {
    const { worker, add, trust, warnings, calls } = setUp(() => {
      throw refusal();
    });
    for (let n = 0; n < 50; n += 1) await add('a');
    await trust('a');
    worker.start();
    await until(() => warnings.some((each) => /of a tenant/.test(each)), 'the warning');
    expect(calls.map(({ texts }) => texts.length)).toEqual([50, 25, 12, 6, 3, 1, 1, 1]);
  });

  it('embeds the beginning of a text that is too long', async () => {
    const { worker, add, trust, having, calls } = setUp((_, texts) => {
      if (texts.some((text) => text.length > 2_000)) throw refusal(true);
    });
    await add('a', 'x'.repeat(8_000));
    await trust('a');
    worker.start();
    await until(async () => (await having('a')) === 1, 'the vector');
    expect(calls.map(({ texts }) => texts[0]?.length)).toEqual([8_000, 4_000, 2_000]);
  });

  it('recovers from a crash at any write', async () => {
    const nothing = () => undefined;
    for (const [crashAt, when] of [1, 2, 3, 4].flatMap((n) => [
      [n, 'before'] as const,
      [n, 'after'] as const,
    ])) {
      const store = createMemoryStore();
      const first = setUp(nothing, store);
      for (const text of ['a', 'b', 'c']) await first.add('a', text);
      await first.trust('a');
      const faulty = createFaultyStore(store, { crashAt, when });
      // It hangs for good, as a dead process does, and is not waited for.
      const { worker: dying } = keeperOn(faulty);
      dying.start();
      await faulty.crashed;
      const { worker, clock } = keeperOn(store);
      worker.start();
      await until(() => clock.sleepers > 0, 'its rest');
      await clock.advance(claimMs(0) + 60_000);
      await until(async () => (await first.having('a')) === 3, `all after ${when} ${crashAt}`);
      await worker.stop();
    }
  });

  it('continues after a store failure', async () => {
    const { worker, store, clock, warnings, add, trust, having } = setUp();
    await add('a');
    await trust('a');
    const { sealedCredentials } = store;
    store.sealedCredentials = () => Promise.reject(new Error('The disk is full'));
    worker.start();
    await until(() => warnings.length > 0, 'the warning');
    store.sealedCredentials = sealedCredentials;
    await until(() => clock.sleepers > 0, 'its rest');
    await clock.advance(60_000);
    await until(async () => (await having('a')) === 1, 'the vector');
  });
});
