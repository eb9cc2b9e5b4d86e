import type { KeyRecord, SystemStore } from '@relay/core';
import type { Decider } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { OpenStreams } from '../../src/streaming/open-streams.ts';
import { settled } from '../support/journal.ts';

type Look = (tenantId: string, keyId: string) => Promise<KeyRecord | undefined>;

const now = Date.UTC(2026, 0, 1, 12);

function keyWith(change: Partial<KeyRecord> = {}): KeyRecord {
  return {
    id: 'key-1',
    tenantId: 'tenant-1',
    name: 'key',
    owner: null,
    role: null,
    scopes: ['runs'],
    groups: [],
    createdAt: 0,
    expiresAt: null,
    revokedAt: null,
    lastUsedAt: null,
    replaces: [],
    replacedBy: null,
    kind: 'api',
    parent: null,
    ...change,
  };
}

/** A store that has only keys, and counts reads. */
function storeOf(look: Look): SystemStore {
  const tenant = (tenantId: string) => ({ readKey: (id: string) => look(tenantId, id) });
  return { tenant } as unknown as SystemStore;
}

/** A caller with a token of a session that a key attached. */
function sessionOf(keyId: string, id = 'session-1') {
  const session = { id, handle: 'ada', tokenHash: `hash of ${id}`, keyId };
  return { tenantId: 'tenant-1', actor: { type: 'session', id, name: 'ada' } as const, session };
}

/** A store whose session tokens all work, as long as their keys do. */
function storeWithTokens(look: Look): SystemStore {
  const found = { tenantId: 'tenant-1', sessionId: 'session-1', handle: 'ada', keyId: 'key-1' };
  return Object.assign(storeOf(look), { sessions: { findToken: async () => found } });
}

function callerBy(id: string, type: Decider['type'] = 'key') {
  return { tenantId: 'tenant-1', actor: { type, id, name: id } };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'], now });
});

afterEach(() => {
  vi.useRealTimers();
});

/** Advances half a second, and completes the check. */
async function nextLook(): Promise<void> {
  vi.advanceTimersByTime(500);
  await settled();
}

describe('open streams', () => {
  it('are closed when their key is revoked here, and others stay', () => {
    const streams = new OpenStreams(storeOf(async () => keyWith()));
    const [first, second, other] = [vi.fn(), vi.fn(), vi.fn()];
    streams.add(callerBy('key-1'), first);
    streams.add(callerBy('key-1'), second);
    streams.add(callerBy('key-2'), other);
    expect(streams.size).toBe(3);
    streams.closeByKey('key-1');
    expect([first, second, other].map(({ mock }) => mock.calls.length)).toEqual([1, 1, 0]);
    expect(streams.size).toBe(1);
    streams.closeByKey('key-1');
    streams.closeByKey('nobody');
    expect(first).toHaveBeenCalledTimes(1);
    streams.stop();
  });

  it.each<[string, KeyRecord | undefined]>([
    ['revoked', keyWith({ revokedAt: now - 1 })],
    ['expired', keyWith({ expiresAt: now })],
    ['gone', undefined],
  ])('are closed within a second when their key is %s elsewhere', async (_what, later) => {
    let key: KeyRecord | undefined = keyWith({ expiresAt: now + 60_000 });
    const asked: string[][] = [];
    const streams = new OpenStreams(
      storeOf(async (...who) => {
        asked.push(who);
        return key;
      }),
    );
    const close = vi.fn();
    streams.add(callerBy('key-1'), close);
    await nextLook();
    expect(close).not.toHaveBeenCalled();
    expect(asked).toEqual([['tenant-1', 'key-1']]);
    key = later;
    await nextLook();
    await nextLook();
    expect(close).toHaveBeenCalledTimes(1);
    expect(streams.size).toBe(0);
  });

  it('are closed when their key expires', async () => {
    const streams = new OpenStreams(storeOf(async () => keyWith({ expiresAt: now + 700 })));
    const close = vi.fn();
    streams.add(callerBy('key-1'), close);
    await nextLook();
    expect(close).not.toHaveBeenCalled();
    await nextLook();
    expect(close).toHaveBeenCalledTimes(1);
  });

  it('are all ended when the server stops, and those that are opened after it', () => {
    const streams = new OpenStreams(storeOf(async () => keyWith()));
    const [byKey, keyless, removed, late] = [vi.fn(), vi.fn(), vi.fn(), vi.fn()];
    streams.add(callerBy('key-1'), byKey);
    streams.add(callerBy('local', 'system'), keyless);
    streams.add(callerBy('key-1'), removed)();
    streams.stop();
    streams.add(callerBy('key-1'), late);
    for (const close of [byKey, keyless, late]) expect(close.mock.calls).toEqual([['stopping']]);
    expect(removed).not.toHaveBeenCalled();
  });

  it('are not checked for callers without a key', async () => {
    const look = vi.fn<Look>(async () => undefined);
    const streams = new OpenStreams(storeOf(look));
    const close = vi.fn();
    streams.add(callerBy('local', 'system'), close)();
    streams.add(callerBy('local', 'system'), close);
    await nextLook();
    streams.closeByKey('local');
    expect(close).not.toHaveBeenCalled();
    expect(look).not.toHaveBeenCalled();
    expect(streams.size).toBe(1);
  });

  it('cost one read per key and check, and none when all are closed', async () => {
    const look = vi.fn<Look>(async () => keyWith());
    const streams = new OpenStreams(storeOf(look));
    const over = Array.from({ length: 3 }, () => streams.add(callerBy('key-1'), vi.fn()));
    await nextLook();
    expect(look).toHaveBeenCalledTimes(1);
    for (const leave of over) leave();
    over[0]?.();
    expect(streams.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
    await nextLook();
    expect(look).toHaveBeenCalledTimes(1);
    streams.add(callerBy('key-1'), vi.fn());
    await nextLook();
    expect(look).toHaveBeenCalledTimes(2);
    streams.stop();
  });

  it('leave no timer when their key was revoked', () => {
    const streams = new OpenStreams(storeOf(async () => keyWith()));
    const over = streams.add(callerBy('key-1'), vi.fn());
    streams.closeByKey('key-1');
    over();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are distinguished from those that the same key opens meanwhile', () => {
    const streams = new OpenStreams(storeOf(async () => keyWith()));
    const later = vi.fn();
    const over = streams.add(callerBy('key-1'), () => {
      streams.add(callerBy('key-1'), later);
    });
    streams.closeByKey('key-1');
    over();
    expect(later).not.toHaveBeenCalled();
    expect(streams.size).toBe(1);
    streams.closeByKey('key-1');
    expect(later).toHaveBeenCalledTimes(1);
  });

  it('stay open while the store does not answer, and are checked again', async () => {
    let answers = false;
    const streams = new OpenStreams(
      storeOf(async () => {
        if (!answers) throw new Error('Out of order');
        return undefined;
      }),
    );
    const close = vi.fn();
    streams.add(callerBy('key-1'), close);
    await nextLook();
    await nextLook();
    expect(close).not.toHaveBeenCalled();
    answers = true;
    await nextLook();
    expect(close).toHaveBeenCalledTimes(1);
  });

  it('are checked by one check at a time, however slow the store is', async () => {
    const answer = Promise.withResolvers<KeyRecord>();
    const look = vi.fn<Look>(() => answer.promise);
    const streams = new OpenStreams(storeOf(look));
    streams.add(callerBy('key-1'), vi.fn());
    for (let n = 0; n < 5; n += 1) await nextLook();
    expect(look).toHaveBeenCalledTimes(1);
    answer.resolve(keyWith());
    await settled();
    await nextLook();
    expect(look).toHaveBeenCalledTimes(2);
    streams.stop();
  });

  it('of sessions are closed with the key that attached them, at one read per key and check', async () => {
    let key = keyWith();
    const look = vi.fn<Look>(async () => key);
    const streams = new OpenStreams(storeWithTokens(look));
    const closes = Array.from({ length: 50 }, () => vi.fn());
    for (const [n, close] of closes.entries()) {
      streams.add(sessionOf('key-1', `session-${n}`), close);
    }
    await settled();
    look.mockClear();
    await nextLook();
    expect(look).toHaveBeenCalledTimes(1);
    key = keyWith({ revokedAt: now });
    await nextLook();
    for (const close of closes) expect(close.mock.calls).toEqual([['revoked']]);
    expect(streams.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('of a token that has ended while the store did not answer are closed when it does', async () => {
    const findToken = vi.fn<() => Promise<undefined>>(async () => undefined);
    const store = Object.assign(
      storeOf(async () => keyWith()),
      { sessions: { findToken } },
    );
    findToken.mockRejectedValueOnce(new Error('Out of order'));
    findToken.mockRejectedValueOnce(new Error('Out of order'));
    const streams = new OpenStreams(store);
    const close = vi.fn();
    const remove = streams.add(sessionOf('key-1'), close);
    await settled();
    await nextLook();
    expect(close).not.toHaveBeenCalled();
    await nextLook();
    expect(close.mock.calls).toEqual([['revoked']]);
    remove();
    await nextLook();
    expect(findToken).toHaveBeenCalledTimes(3);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('of sessions go on with the key that replaces an expired one', async () => {
    const keys = new Map([
      ['key-1', keyWith({ expiresAt: now, replacedBy: 'key-2' })],
      ['key-2', keyWith({ id: 'key-2' })],
    ]);
    const streams = new OpenStreams(storeWithTokens(async (_tenant, id) => keys.get(id)));
    const [byKey, ofSession] = [vi.fn(), vi.fn()];
    streams.add(callerBy('key-1'), byKey);
    streams.add(sessionOf('key-1'), ofSession);
    await nextLook();
    expect(byKey).toHaveBeenCalledTimes(1);
    expect(ofSession).not.toHaveBeenCalled();
    keys.set('key-2', keyWith({ id: 'key-2', revokedAt: now }));
    await nextLook();
    expect(ofSession).toHaveBeenCalledTimes(1);
  });
});
