import type { Approval } from '@relay/sdk';
import { describe, expect, test } from 'vitest';
import { decisionText } from '../../src/output/decision-text.ts';

const decided = {
  kind: 'permission',
  status: 'approved',
  decidedBy: { type: 'key', id: 'k1', name: 'laptop', owner: 'ada' },
  decidedAt: new Date(Date.now() - 180_000).toISOString(),
} as Approval;

describe('who decided an approval', () => {
  test.each([
    [
      'another key of the same person',
      decided,
      { id: 'k2', owner: 'ada' },
      'approved by you 3m ago',
    ],
    ['another person', decided, { id: 'k2', owner: 'ben' }, 'approved by ada 3m ago'],
    [
      'a key without an owner',
      { ...decided, status: 'denied', decidedBy: { type: 'key', id: 'k1', name: 'ci' } },
      { id: 'k2' },
      'denied by ci 3m ago',
    ],
    ['an answer', { ...decided, kind: 'question' }, { id: 'k1' }, 'answered by ada 3m ago'],
    ['nobody', { ...decided, status: 'expired', decidedBy: undefined }, { id: 'k1' }, 'expired'],
  ] as const)('%s', (_, approval, you, text) => {
    expect(decisionText(approval as Approval, you)).toBe(text);
  });
});
