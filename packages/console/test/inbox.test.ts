/** The inbox: rows that keep their places, calls in words, and what happened before a call. */
import type { Approval, StoredEvent } from '@relay/protocol/wire';
import { describe, expect, it } from 'vitest';
import { arrange } from '../src/pages/inbox/arrange.ts';
import { evidenceOf, lastSteps, requestOf } from '../src/pages/inbox/steps.ts';
import {
  approversText,
  callKey,
  isMe,
  nameOf,
  requestText,
  urgencyOf,
  verdictOf,
} from '../src/pages/inbox/words.ts';

const approval: Approval = {
  id: 'one',
  status: 'pending',
  kind: 'permission',
  agentPath: ['support', 'billing'],
  tool: 'send_note',
  params: { to: 'ada', text: 'hello' },
  display: { text: '', flags: [] },
  digest: 'digest',
  requestedAt: '2026-01-01T00:00:00.000Z',
  expiresAt: '2026-01-02T00:00:00.000Z',
};

describe('the rows of the inbox', () => {
  it('follow the wanted order while no pointer is on them', () => {
    const situation = { wanted: ['new', 'a', 'b'], lastFixed: -1, open: undefined };
    expect(arrange(['a', 'b'], situation)).toEqual({ ids: ['new', 'a', 'b'], held: 0 });
  });

  it('keep their places under the pointer, and count what would move them', () => {
    const situation = { wanted: ['urgent', 'a', 'b', 'last'], lastFixed: 1, open: undefined };
    expect(arrange(['a', 'b'], situation)).toEqual({ ids: ['a', 'b', 'last'], held: 1 });
  });

  it('show a decided approval in its place until the pointer has left', () => {
    const wanted = ['a', 'c'];
    const held = arrange(['a', 'b', 'c'], { wanted, lastFixed: 2, open: undefined });
    expect(held).toEqual({ ids: ['a', 'b', 'c'], held: 0 });
    expect(arrange(held.ids, { wanted, lastFixed: -1, open: undefined }).ids).toEqual(['a', 'c']);
  });

  it('keep the open approval in its place after it was decided', () => {
    const situation = { wanted: ['a', 'c'], lastFixed: -1, open: 'b' };
    expect(arrange(['a', 'b', 'c'], situation).ids).toEqual(['a', 'b', 'c']);
  });

  it('add what belongs below the rows in view at once', () => {
    const situation = { wanted: ['a', 'b', 'x', 'c'], lastFixed: 1, open: undefined };
    expect(arrange(['a', 'b', 'c'], situation)).toEqual({ ids: ['a', 'b', 'x', 'c'], held: 0 });
  });
});

describe('identical calls', () => {
  it('have the same tool and the same digest of what is shown', () => {
    expect(callKey(approval)).toBe(callKey({ ...approval, id: 'two', runId: 'other' }));
    expect(callKey(approval)).not.toBe(callKey({ ...approval, digest: 'other' }));
    expect(callKey(approval)).not.toBe(callKey({ ...approval, tool: 'other' }));
  });

  it('are not those that another approver has changed', () => {
    expect(callKey(approval)).not.toBe(callKey({ ...approval, executedDigest: 'changed' }));
  });
});

describe('an approval in words', () => {
  it('is summed up in one line: the call as it will run, the question, or what is not known', () => {
    expect(requestText(approval)).toBe('to: "ada"  text: "hello"');
    expect(requestText({ ...approval, executedParams: { n: 2 } })).toBe('n: 2');
    const prompt = 'Which\nsize?';
    expect(requestText({ ...approval, kind: 'question', prompt })).toBe('Which ⏎ size?');
    expect(requestText({ ...approval, kind: 'outcome', params: { path: 'a' } })).toBe(
      'Did it take effect? a',
    );
  });

  it('becomes urgent near the end of its time, however short that is', () => {
    const at = (msLeft: number, whole = 86_400_000) => {
      const now = Date.parse(approval.expiresAt) - msLeft;
      const requestedAt = new Date(Date.parse(approval.expiresAt) - whole).toISOString();
      return urgencyOf({ ...approval, requestedAt }, now);
    };
    expect([at(7_200_000), at(1_800_000), at(60_000), at(-1)]).toEqual([
      'calm',
      'soon',
      'last',
      'last',
    ]);
    expect([at(20_000, 60_000), at(10_000, 60_000), at(5_000, 60_000)]).toEqual([
      'calm',
      'soon',
      'last',
    ]);
  });

  it('names who decided: the person, whichever key they used', () => {
    const by = { type: 'key', id: 'key', name: 'laptop', owner: 'ada' } as const;
    expect(nameOf(by, undefined)).toBe('ada');
    expect(nameOf(by, { id: 'another key', owner: 'ada' })).toBe('you');
    expect(isMe({ type: 'key', id: 'key', name: 'laptop' }, { id: 'key' })).toBe(true);
    expect(isMe({ type: 'key', id: 'key', name: 'laptop' }, { id: 'other' })).toBe(false);
    expect(isMe({ type: 'key', id: 'key', name: 'laptop' }, { id: 'x', parent: 'key' })).toBe(true);
  });

  it('says what became of it', () => {
    const verdict = (change: Partial<Approval>) => verdictOf({ ...approval, ...change });
    expect(verdict({ status: 'approved' })).toBe('Approved');
    expect(verdict({ status: 'approved', executedParams: {} })).toBe('Approved with changes');
    expect(verdict({ status: 'approved', kind: 'question' })).toBe('Answered');
    expect(verdict({ status: 'denied', kind: 'outcome', outcome: 'failed' })).toBe(
      'Recorded as failed',
    );
    expect(verdict({ status: 'approved', kind: 'outcome', outcome: 'rerun' })).toBe('Run again');
  });

  it('says who may decide', () => {
    const approvers = { groups: ['finance'], notRequester: true };
    expect(approversText({ ...approval, approvers, quorum: 2 })).toBe(
      '2 persons of: group finance; not the person who started the run',
    );
    expect(approversText(approval)).toBeUndefined();
  });
});

describe('the steps before a call', () => {
  const base = { agentId: 'root', at: '2026-01-01T00:00:00.000Z' };
  const call = (seq: number, toolCallId: string, name: string): StoredEvent => ({
    ...base,
    seq,
    type: 'tool.called',
    toolCallId,
    name,
    input: { path: name },
  });
  const text = (seq: number, textId: string, said: string, agentId = 'root'): StoredEvent => ({
    ...base,
    agentId,
    seq,
    type: 'text.appended',
    textId,
    text: said,
  });
  const events: StoredEvent[] = [
    text(1, 't1', 'I read '),
    text(2, 't1', 'the file.'),
    call(3, 'c1', 'read'),
    { ...base, seq: 4, type: 'tool.completed', toolCallId: 'c1', name: 'read', result: 1 },
    text(5, 't2', 'discarded'),
    { ...base, seq: 6, type: 'turn.discarded', turn: 2, textId: 't2', after: 4, reason: 'crash' },
    text(7, 't3', 'of a sub-agent', 'other'),
    call(8, 'c2', 'publish'),
    {
      ...base,
      seq: 9,
      type: 'tool.started',
      toolCallId: 'c2',
      name: 'publish',
      input: {},
      idempotencyKey: 'k1',
    },
    call(10, 'c3', 'later'),
  ];

  it('are what the agent said and did, joined, without discarded text and other agents', () => {
    expect(lastSteps(events, { agentId: 'root', toolCallId: 'c2' })).toEqual([
      { seq: 1, text: 'I read the file.' },
      { seq: 3, tool: 'read', text: 'read', state: 'completed' },
    ]);
  });

  it('of an unknown outcome contain when the call was started', () => {
    expect(evidenceOf(events, 'c2')).toEqual({
      startedAt: [base.at],
      seq: 9,
      progress: undefined,
    });
    expect(evidenceOf(events, 'c1').startedAt).toEqual([]);
  });

  it('begin with the last text of the user', () => {
    expect(requestOf({ input: 'Release it' })).toBe('Release it');
    const parts = [
      { type: 'text' as const, text: 'Look' },
      { type: 'image' as const, url: 'https://a.b/c' },
    ];
    const input = [
      { role: 'user' as const, content: 'First' },
      { role: 'assistant' as const, content: 'Yes' },
      { role: 'user' as const, content: parts },
    ];
    expect(requestOf({ input })).toBe('Look\n[image]');
    expect(requestOf({ input: null })).toBeUndefined();
  });
});
