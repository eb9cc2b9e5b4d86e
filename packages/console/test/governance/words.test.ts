import { describe, expect, it } from 'vitest';
import { parseHead } from '../../src/pages/audit/head.ts';
import { fromLocal, summaryOf, toLocal } from '../../src/pages/audit/words.ts';
import { budgetOf, budgetText, fieldsOf, shareOf } from '../../src/pages/settings/budget.ts';
import { hasFilter, statusOfKey } from '../../src/pages/settings/words.ts';

const hash = 'ab'.repeat(32);

describe('The head of the audit trail', () => {
  it.each([
    ['as it is copied', `{"seq":42,"hash":"${hash}"}`],
    ['as an export has it', `{"type":"head","tenantId":"t","seq":42,"hash":"${hash}","at":"…"}`],
    ['as a cursor', ` 42.${hash}\n`],
  ])('is read %s', (_, text) => {
    expect(parseHead(text)).toEqual({ seq: 42, hash });
  });

  it.each(['', '{', '42', `{"seq":0,"hash":"${hash}"}`, '{"seq":1,"hash":"x"}', `1.${hash}0`])(
    'is not taken from %j',
    (text) => {
      expect(parseHead(text)).toBeUndefined();
    },
  );
});

describe('An audit entry', () => {
  it('is summarised without ids, with the decision and the reason in words', () => {
    const what = { runId: 'r', tool: 'send_note', approved: false, digest: '5f' };
    expect(summaryOf({ what, why: 'not on Fridays' })).toBe(
      'send_note · denied · “not on Fridays”',
    );
  });

  it('is filtered by times that a field shows as they were chosen', () => {
    expect(toLocal(fromLocal('2026-11-16T12:30'))).toBe('2026-11-16T12:30');
    expect(toLocal('nonsense')).toBe('');
  });
});

describe('A budget', () => {
  it('limits what was filled in, and nothing else', () => {
    expect(
      budgetOf({ period: 'month', tokens: ' 1000 ', costUsd: '', concurrentRuns: '0' }),
    ).toEqual({ period: 'month', tokens: 1000, concurrentRuns: 0 });
    expect(
      budgetOf({ period: 'day', tokens: '', costUsd: '', concurrentRuns: '' }),
    ).toBeUndefined();
  });

  it('is the same after it was shown in a form', () => {
    const budget = { period: 'month', tokens: 5, costUsd: 0.5 } as const;
    expect(budgetOf(fieldsOf(budget))).toEqual(budget);
  });

  it('is described by what it limits', () => {
    expect(budgetText({ period: 'day', tokens: 500, costUsd: 2, concurrentRuns: 1 })).toBe(
      '500 tokens and $2.00 per day, 1 run at the same time',
    );
  });

  it('of 0 is used up', () => {
    expect(shareOf(0, 0)).toBe(1);
    expect(shareOf(5, 10)).toBe(0.5);
    expect(shareOf(5, undefined)).toBeUndefined();
  });
});

describe('A key', () => {
  it('has ended when it is revoked or its time is over', () => {
    const now = Date.parse('2026-11-16T12:00:00Z');
    expect(statusOfKey({}, now)).toBe('active');
    expect(statusOfKey({ expiresAt: '2026-11-16T12:00:01Z' }, now)).toBe('active');
    expect(statusOfKey({ expiresAt: '2026-11-16T12:00:00Z' }, now)).toBe('expired');
    expect(
      statusOfKey({ expiresAt: '2026-11-16T11:00:00Z', revokedAt: '2026-11-16T10:00:00Z' }, now),
    ).toBe('revoked');
  });
});

describe('The filter of a webhook', () => {
  it('is offered only for events that have what it names', () => {
    expect(hasFilter('message.sent', 'channel')).toBe(true);
    expect(hasFilter('delivery.failed', 'mention')).toBe(true);
    expect(hasFilter('session.started', 'handle')).toBe(true);
    expect(hasFilter('session.started', 'channel')).toBe(false);
    expect(hasFilter('run.ended', 'handle')).toBe(false);
  });
});
