import { describe, expect, test } from 'vitest';
import type { MessageRecord } from '../../src/ports/index.ts';
import { hopsOfProgram, hopsOfTurn } from '../../src/sessions/hops.ts';

function message(hops: number, from = 'bob'): MessageRecord {
  return {
    id: `${from}-${hops}`,
    from: { type: 'session', id: from, name: from },
    to: [],
    text: '',
    attachments: [],
    mode: null,
    replyTo: null,
    threadId: from,
    hops,
    at: 0,
    editedAt: null,
    withdrawnAt: null,
  };
}

describe('the hops of a message that an agent sends in a turn', () => {
  test.each([
    { read: [0], hops: 1 },
    { read: [3], hops: 4 },
    { read: [3, 9, 5], hops: 10 },
    { read: [9, 0], hops: 1 },
  ])('are $hops after messages with $read', ({ read, hops }) => {
    expect(hopsOfTurn(read.map((each) => message(each)))).toBe(hops);
  });
});

describe('the hops of a message that a program sends', () => {
  const toBob = (received: readonly MessageRecord[]) =>
    hopsOfProgram(received, ({ from }) => from.id === 'bob');

  test('are 0 if it has received nothing', () => {
    expect(toBob([])).toBe(0);
  });

  test('follow what it has received from the recipient, also if others wrote since', () => {
    expect(toBob([message(2, 'eve'), message(7), message(5)])).toBe(8);
  });

  test('follow the last message of all if the recipient has not written: programs may form a ring', () => {
    expect(toBob([message(4, 'eve'), message(9, 'joe')])).toBe(5);
  });

  test('begin again when a person has written since', () => {
    expect(toBob([message(0, 'person'), message(16)])).toBe(1);
    expect(toBob([message(1), message(0, 'person'), message(16)])).toBe(2);
  });
});
