import type { AuditEntry, KeyUse, SystemStore } from '@relay/core';
import { ManualClock } from '@relay/core/testing';
import { createMemoryStore } from '@relay/store';
import { describe, expect, it } from 'vitest';
import { KeyActivity } from '../../src/jobs/key-activity.ts';
import { until } from '../support/server.ts';

const minute = 60_000;

function setUp() {
  const clock = new ManualClock();
  const warnings: [string, unknown][] = [];
  const stored: KeyUse[][] = [];
  const entries: AuditEntry[] = [];
  const inner = createMemoryStore();
  const fails = { uses: false, audit: false };
  const store = {
    recordKeyUses: async (uses: KeyUse[]) => {
      if (fails.uses) throw new Error('The disk is full');
      stored.push(uses);
    },
    tenant(tenantId: string) {
      const { audit } = inner.tenant(tenantId);
      const add: typeof audit.add = async (records) => {
        if (fails.audit) throw new Error('The disk is full');
        entries.push(...records.map(({ text }) => JSON.parse(text) as AuditEntry));
      };
      return { audit: { add } };
    },
  } as unknown as SystemStore;
  const log = {
    warn: (message: string, fields: unknown) => void warnings.push([message, fields]),
    error: () => undefined,
  };
  const audit = (_tenantId: string, entry: AuditEntry) => ({
    id: '',
    at: entry.at,
    runId: null,
    actor: entry.who.id,
    action: entry.action,
    text: JSON.stringify(entry),
    proof: '',
  });
  const activity = new KeyActivity({ store, clock, log, audit });
  const counts = () => entries.map(({ what }) => what['count']);
  return { activity, clock, stored, entries, counts, warnings, fails };
}

const who = { type: 'key', id: 'k', name: 'k' } as const;
const refusal = { who, action: 'key.refused', what: { keyId: 'k' }, why: null } as const;

describe('the last use of keys', () => {
  it('is stored once a minute, however often they are used, and not while a request waits', async () => {
    const { activity, clock, stored } = setUp();
    activity.start();
    await until(() => clock.sleepers === 1, 'the first step');
    for (let n = 0; n < 1_000; n += 1) activity.used('t', n % 2 === 0 ? 'even' : 'odd');
    expect(stored).toEqual([]);
    await clock.advance(minute - 1);
    activity.used('t', 'odd');
    expect(stored).toEqual([]);
    await clock.advance(1);
    await until(() => stored.length === 1, 'the uses');
    const at = clock.now();
    expect(stored[0]).toEqual([
      { tenantId: 't', keyId: 'even', at: at - minute },
      { tenantId: 't', keyId: 'odd', at: at - 1 },
    ]);
    await clock.advance(minute);
    await activity.stop();
    expect(stored).toHaveLength(1);
  });

  it('is stored when the server stops', async () => {
    const { activity, stored } = setUp();
    activity.start();
    activity.used('t', 'k');
    await activity.stop();
    expect(stored.flat()).toMatchObject([{ keyId: 'k' }]);
  });

  it('is not lost if the store fails', async () => {
    const { activity, stored, fails } = setUp();
    activity.used('t', 'k');
    fails.uses = true;
    await expect(activity.flush()).rejects.toThrow('The disk is full');
    fails.uses = false;
    await activity.flush();
    expect(stored).toMatchObject([[{ keyId: 'k' }]]);
  });

  it('is stored in portions', async () => {
    const { activity, stored } = setUp();
    for (let n = 0; n < 450; n += 1) activity.used('t', String(n));
    await activity.flush();
    expect(stored.map((portion) => portion.length)).toEqual([200, 200, 50]);
  });
});

describe('a refusal', () => {
  it('has an entry at once, and its repetitions one a minute with their count', async () => {
    const { activity, clock, counts } = setUp();
    for (let n = 0; n < 100; n += 1) await activity.refused('t', ['k'], refusal);
    expect(counts()).toEqual([1]);
    await activity.flush();
    expect(counts()).toEqual([1]);
    await clock.advance(minute);
    await activity.flush();
    expect(counts()).toEqual([1, 99]);
    await activity.refused('t', ['k'], refusal);
    await activity.flush();
    expect(counts()).toEqual([1, 99]);
    await clock.advance(minute);
    await activity.flush();
    expect(counts()).toEqual([1, 99, 1]);
    // A minute without one, and it is forgotten: the next is the first again.
    await clock.advance(minute);
    await activity.flush();
    await activity.refused('t', ['k'], refusal);
    expect(counts()).toEqual([1, 99, 1, 1]);
  });

  it('is counted for each tenant, action and subject alone', async () => {
    const { activity, entries } = setUp();
    await activity.refused('t', ['k'], refusal);
    await activity.refused('u', ['k'], refusal);
    await activity.refused('t', ['other'], refusal);
    await activity.refused('t', ['k'], { ...refusal, action: 'decision.refused' });
    expect(entries).toHaveLength(4);
  });

  it('is written with its count when the server stops', async () => {
    const { activity, counts } = setUp();
    for (let n = 0; n < 5; n += 1) await activity.refused('t', ['k'], refusal);
    await activity.stop();
    expect(counts()).toEqual([1, 4]);
  });

  it('is counted in the next entry if the store fails', async () => {
    const { activity, clock, counts, fails, warnings } = setUp();
    fails.audit = true;
    await activity.refused('t', ['k'], refusal);
    expect(warnings).toMatchObject([['A refusal was not stored', { tenantId: 't' }]]);
    fails.audit = false;
    await activity.refused('t', ['k'], refusal);
    await clock.advance(minute);
    await activity.flush();
    expect(counts()).toEqual([2]);
  });

  it('of one of too many subjects of a tenant has no entry, and the log says how many once', async () => {
    const { activity, entries, warnings } = setUp();
    for (let n = 0; n < 1_500; n += 1) await activity.refused('t', [String(n)], refusal);
    await activity.refused('u', ['k'], refusal);
    await activity.flush();
    expect(entries).toHaveLength(1_001);
    expect(warnings).toEqual([
      ['Refusals have no audit entries: there are too many', { tenantId: 't', count: 500 }],
    ]);
  });
});
