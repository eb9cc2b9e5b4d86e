/** That each invariant can be violated: a check that cannot fail shows nothing. */
import type { StoredEvent } from '@relay/protocol';
import { describe, expect, test } from 'vitest';
import { invariants, violationsOf } from './invariants.ts';
import type { Evidence, Noted, ToolRan } from './record.ts';

const run = 'run-1';
const at = '2026-11-15T12:00:00.000Z';
const time = Date.parse(at);
const call = 'call_r-1_1';

function event(seq: number, type: string, more: object = {}): StoredEvent {
  return { seq, at, type, ...more } as unknown as StoredEvent;
}

const journal = [
  event(1, 'run.created', { messages: [{ role: 'user', content: 'pay r-1' }] }),
  event(2, 'approval.requested', {
    approvalId: 'approval-1',
    kind: 'permission',
    toolCallId: call,
  }),
  event(3, 'approval.decided', { approvalId: 'approval-1', approved: true, toolCallId: call }),
  event(4, 'tool.started', { toolCallId: call }),
  event(5, 'tool.completed', { toolCallId: call, result: { found: 1 } }),
  event(6, 'run.ended', { status: 'completed', output: '' }),
];
const ran: ToolRan = {
  at: time + 1,
  tool: 'pay',
  toolCallId: call,
  idempotencyKey: 'k',
  input: {},
};
const noted = [
  { at: time, kind: 'ack', of: 'run', runId: run, tag: 'r-1', scenario: 'once' },
  { at: time, kind: 'ack', of: 'decision', runId: run, approvalId: 'approval-1', approved: true },
  { at: time, kind: 'ack', of: 'result', runId: run, call, output: { found: 1 } },
  { at: time, kind: 'ack', of: 'cancel', runId: run },
  { at: time, kind: 'ack', of: 'credential', runId: '', provider: 'p', answer: { last4: 'abcd' } },
  {
    at: time,
    kind: 'frame',
    runId: run,
    seq: 3,
    data: { type: 'approval_resolved', status: 'approved', id: 'approval-1' },
  },
] as Noted[];
const row = { id: run, status: 'completed', epoch: 2, last_seq: 6 };

const sound: Evidence = {
  ran: [ran],
  noted,
  journals: new Map([[run, journal]]),
  rows: [row],
  earlier: [[{ ...row, epoch: 1 }]],
  forgotten: [],
  credentials: [{ provider: 'p', last4: 'abcd' }],
  integrity: ['ok'],
  strangeWrites: [],
  secrets: ['hush'],
  places: [{ name: 'the log', text: 'nothing' }],
};

const failed = { message: 'The database operation failed', retryable: false };

const withJournal = (events: readonly StoredEvent[]) => ({ journals: new Map([[run, events]]) });
const without = (type: string) => withJournal(journal.filter((one) => one.type !== type));

const violations: Readonly<Record<string, Partial<Evidence>>> = {
  everyAcknowledgedRunExists: withJournal([]),
  everyAcknowledgedDecisionExists: without('approval.decided'),
  everyAcknowledgedResultExists: without('tool.completed'),
  everyAcknowledgedCredentialExists: { credentials: [] },
  everyAcknowledgedCancelIsObeyed: without('run.ended'),
  seqCountsFromOne: without('tool.started'),
  framesAreTheJournal: withJournal(
    journal.map((one) =>
      one.seq === 3 ? event(3, 'approval.closed', { approvalId: 'approval-1' }) : one,
    ),
  ),
  noToolRanTwice: { ran: [ran, ran] },
  idempotentToolsKeptTheirKey: { ran: [ran, { ...ran, idempotencyKey: 'another' }] },
  intentCameBeforeEffect: without('tool.started'),
  effectsAreOnRecord: without('tool.completed'),
  oneDecisionPerApproval: withJournal([
    ...journal,
    event(7, 'approval.closed', { approvalId: 'approval-1' }),
  ]),
  nothingRanUndecided: { ran: [{ ...ran, at: time - 1 }] },
  allowOnceAllowsOnce: { ran: [ran, { ...ran, toolCallId: 'call_r-1_2' }] },
  epochsOnlyRise: { earlier: [[{ ...row, epoch: 3 }]] },
  onlyTheHolderWrites: { strangeWrites: ['node-1 wrote'] },
  oneTerminalEvent: withJournal([...journal, event(7, 'run.ended', { status: 'failed' })]),
  everyWaitCanEnd: { forgotten: [run] },
  noRunFailsByTheStore: withJournal(
    journal.map((one) =>
      one.type === 'run.ended' ? { ...one, error: { ...failed, code: 'storage_failed' } } : one,
    ),
  ),
  noRunIsBlamedForACrash: withJournal(
    journal.map((one) =>
      one.type === 'run.ended' ? { ...one, error: { ...failed, code: 'resume_crashed' } } : one,
    ),
  ),
  sqliteIsIntact: { integrity: ['row 3 missing from index'] },
  noSecretLeaks: { places: [{ name: 'the log', text: 'say hush' }] },
  noRequestWasRejected: { noted: [...noted, { at: time, kind: 'trouble', runId: run }] },
};

describe('the invariants of the chaos tests', () => {
  test('hold for intact evidence', () => {
    expect(violationsOf(sound)).toEqual([]);
  });

  test('each have a violation in this test', () => {
    expect(Object.keys(violations).toSorted()).toEqual(Object.keys(invariants).toSorted());
  });

  test.each(Object.entries(violations))('%s reports its violation', (name, change) => {
    expect(invariants[name]?.({ ...sound, ...change })).not.toEqual([]);
  });
});
