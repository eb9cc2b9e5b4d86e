import type { Delivery, Session, SessionMessage, StoredSessionEvent } from '@relay/sdk';
import { RelayApiError } from '@relay/sdk';
import { describe, expect, it } from 'vitest';
import { modes, whyNot } from '../src/pages/sessions/abilities.ts';
import { changedFiles } from '../src/pages/sessions/session/changed-files.ts';
import { columnOf, columns, sessionStatuses } from '../src/pages/sessions/board/columns.ts';
import { JournalReader } from '../src/pages/sessions/session/journal-reader.ts';
import { mentionAt, mentionsOfOthers } from '../src/pages/sessions/messages/mention.ts';
import { isQueued, leastOf, receiptOf } from '../src/pages/sessions/messages/receipt.ts';
import { beginningOf, sinceReset, withoutAnswers } from '../src/pages/sessions/terminal/text.ts';
import { threadsOf } from '../src/pages/sessions/messages/threads.ts';
import { activityOf, timelineOf } from '../src/pages/sessions/session/timeline.ts';

type Unstored<Event> = Event extends unknown ? Omit<Event, 'seq' | 'at'> : never;

/** As a journal has them: numbered from 1, one second apart. */
function journal(...events: readonly Unstored<StoredSessionEvent>[]): StoredSessionEvent[] {
  return events.map((event, index) => ({
    ...event,
    seq: index + 1,
    at: new Date(1_700_000_000_000 + index * 1_000).toISOString(),
  })) as StoredSessionEvent[];
}

const delivery: Delivery = {
  id: 'd1',
  sessionId: 's1',
  handle: 'builder',
  messageId: 'm1',
  status: 'accepted',
  mode: 'on-idle',
  attempts: 0,
  acceptedAt: '2026-01-01T00:00:00.000Z',
};

function session(change: Partial<Session> = {}): Session {
  return {
    id: 's1',
    identity: { handle: 'builder', name: 'builder', kind: 'agent' },
    harness: 'remote',
    status: 'idle',
    capabilities: {
      messaging: { receive: true },
      delivery: { modes: ['on-idle'], queue: true },
      events: { emits: [] },
      lifecycle: { release: true, pause: true },
    },
    conversationId: 'c1',
    labels: {},
    usage: { tokens: 0 },
    queue: { length: 0 },
    stuck: false,
    lastSeq: 1,
    owner: 'ada',
    createdAt: '2026-01-01T00:00:00.000Z',
    lastActiveAt: '2026-01-01T00:00:00.000Z',
    ...change,
  };
}

describe('The columns of the session board', () => {
  it('have every status, and those that wait for a person first', () => {
    expect(columnOf('waiting')).toBe('input');
    expect(columnOf('blocked')).toBe('input');
    expect(columnOf('active')).toBe('working');
    expect(columnOf('paused')).toBe('idle');
    expect(columnOf('failed')).toBe('offline');
    expect(columnOf('released')).toBe('ended');
    const used = new Set(sessionStatuses.map((status) => columnOf(status)));
    expect(columns.map(({ column }) => column)).toEqual([
      'input',
      'working',
      'idle',
      'offline',
      'ended',
    ]);
    expect(used.size).toBe(columns.length);
  });
});

describe('A receipt', () => {
  it('has one tick when stored, two when delivered, and coloured ones when read', () => {
    expect(receiptOf(delivery)).toMatchObject({ ticks: 'one', word: 'Stored' });
    expect(receiptOf({ ...delivery, status: 'delivered' })).toMatchObject({ ticks: 'two' });
    expect(receiptOf({ ...delivery, status: 'consumed' })).toMatchObject({
      ticks: 'read',
      word: 'Read',
      isInferred: false,
    });
  });

  it('says why a delivery waits, and that it was concluded', () => {
    const waits = receiptOf({ ...delivery, status: 'deferred', reason: 'tool running' });
    expect(waits).toMatchObject({ ticks: 'waits', title: 'Waits: tool running' });
    const inferred = receiptOf({ ...delivery, status: 'consumed', fidelity: 'inferred' });
    expect(inferred.isInferred).toBe(true);
    expect(inferred.title).toContain('Concluded');
  });

  it('offers another delivery of what failed, but not of what was withdrawn', () => {
    const failed = { ...delivery, status: 'failed' } as const;
    const expired = receiptOf({ ...failed, error: { code: 'expired', message: 'Too late' } });
    expect(expired).toMatchObject({ title: 'Too late', canRedeliver: true });
    const withdrawn = receiptOf({ ...failed, error: { code: 'withdrawn', message: 'Withdrawn' } });
    expect(withdrawn).toMatchObject({ word: 'Withdrawn', canRedeliver: false });
  });

  it('does not promise that a terminal reports what was read', () => {
    const typed = receiptOf({ ...delivery, status: 'delivered', fidelity: 'inferred' }, true);
    expect(typed.title).toBe(
      'Typed into the terminal. A terminal does not report whether it was read',
    );
  });

  it('of several recipients is that of the one that is least far', () => {
    const read = { ...delivery, id: 'd2', status: 'consumed' } as const;
    expect(leastOf([read, delivery])?.id).toBe('d1');
    expect(leastOf([])).toBeUndefined();
  });

  it('counts a message as queued only while the session was never handed it', () => {
    expect(isQueued(delivery)).toBe(true);
    expect(isQueued({ ...delivery, status: 'consumed' })).toBe(false);
    const again = { ...delivery, status: 'deferred', deliveredAt: delivery.acceptedAt } as const;
    expect(isQueued(again)).toBe(false);
  });
});

describe('What a session cannot do', () => {
  it('is explained by the capability that it does not declare', () => {
    expect(whyNot(session(), 'pause', true)).toBeUndefined();
    expect(whyNot(session(), 'fork', true)).toBe(
      'This session cannot be forked: it does not declare lifecycle.fork',
    );
  });

  it('is explained by its status and by the rights of the person', () => {
    expect(whyNot(session({ status: 'released' }), 'release', true)).toBe('The session has ended');
    expect(whyNot(session(), 'cancel', true)).toBe('No turn is going on');
    expect(whyNot(session({ status: 'active' }), 'cancel', true)).toBeUndefined();
    expect(whyNot(session(), 'release', false)).toContain('scope runs');
  });

  it('has a sentence for each of the five delivery modes', () => {
    expect(new Set(modes.map(({ mode }) => mode)).size).toBe(5);
    for (const { about } of modes) expect(about).toMatch(/\.$/);
  });
});

describe('The conversation of a session', () => {
  it('shows the final answer once, as the message that was sent', () => {
    const events = journal(
      { type: 'delivery.accepted', deliveryId: 'd1', messageId: 'in' },
      { type: 'delivery.delivered', deliveryId: 'd1', messageId: 'in' },
      { type: 'message.received', deliveryId: 'd1', messageId: 'in' },
      chunk('a1', 'The answer.'),
      { type: 'usage.updated', tokens: 5 },
      { type: 'message.sent', messageId: 'out' },
    );
    const items = timelineOf(events, (id) => (id === 'out' ? 'The answer.' : 'A question'));
    expect(items.map((item) => item.kind)).toEqual(['message', 'message']);
    expect(items).toMatchObject([
      { messageId: 'in', direction: 'in' },
      { messageId: 'out', direction: 'out' },
    ]);
    // A message whose text is not known, or another one, replaces nothing.
    expect(timelineOf(events, () => undefined).map((item) => item.kind)).toEqual([
      'message',
      'text',
      'message',
    ]);
  });

  it('joins the chunks of a message, and keeps messages apart', () => {
    const events = journal(chunk('a', 'One '), chunk('a', 'text.'), chunk('b', 'Another.'));
    expect(timelineOf(events, () => undefined)).toMatchObject([
      { text: 'One text.' },
      { text: 'Another.' },
    ]);
  });

  it('settles the oldest open call of a tool in its own run', () => {
    const events = journal(
      { type: 'tool.called', run: 'r1', tool: 'bash', input: 1 },
      { type: 'tool.called', run: 'r2', tool: 'bash', input: 2 },
      { type: 'tool.called', run: 'r1', tool: 'bash', input: 3 },
      { type: 'tool.completed', run: 'r1', tool: 'bash', output: 'done', durationMs: 7 },
      { type: 'tool.failed', run: 'r2', tool: 'bash', error: 'no' },
    );
    expect(timelineOf(events, () => undefined)).toMatchObject([
      { input: 1, state: 'completed', result: 'done', durationMs: 7 },
      { input: 2, state: 'failed', result: 'no' },
      { input: 3, state: 'running' },
    ]);
    expect(activityOf(events).tool).toBe('bash');
  });

  it('says why the session has its status', () => {
    const events = journal({
      type: 'status.changed',
      status: 'offline',
      reason: 'The node is down',
    });
    expect(activityOf(events).reason).toBe('The node is down');
    expect(timelineOf(events, () => undefined)).toMatchObject([
      { kind: 'note', text: 'Offline: The node is down' },
    ]);
  });
});

function chunk(id: string, content: string): Unstored<StoredSessionEvent> {
  const at = '2026-01-01T00:00:00.000Z';
  return { type: 'transcript.chunk', chunk: { id, at, role: 'agent', content, sequence: 1 } };
}

describe('The files that a session has changed', () => {
  it('are grouped by path, the last changed first, with what the changes add up to', () => {
    const files = changedFiles(
      journal(
        { type: 'file.changed', path: 'a', operation: 'create', diff: '+1' },
        { type: 'file.changed', path: 'b', operation: 'create' },
        { type: 'file.changed', path: 'c', operation: 'update' },
        { type: 'file.changed', path: 'b', operation: 'delete' },
        { type: 'file.changed', path: 'a', operation: 'update', diff: '+2' },
        { type: 'file.changed', path: 'd', operation: 'update' },
        { type: 'file.changed', path: 'd', operation: 'delete' },
      ),
    );
    expect(files.map(({ path, operation }) => [path, operation])).toEqual([
      ['d', 'delete'],
      ['a', 'create'],
      ['b', 'none'],
      ['c', 'update'],
    ]);
    expect(files[1]?.changes.map(({ diff }) => diff)).toEqual(['+1', '+2']);
  });

  it('include what agents of the server have patched, unless the call failed', () => {
    const input = (filePath: string) => ({ filePath, edits: [{ old: 'x\ny', new: 'z\n' }] });
    const files = changedFiles(
      journal(
        { type: 'tool.called', run: 'r', tool: 'patch', input: input('failed') },
        { type: 'tool.failed', run: 'r', tool: 'patch', error: 'no' },
        { type: 'tool.called', run: 'r', tool: 'patch', input: input('one') },
        { type: 'tool.called', run: 'r', tool: 'patch', input: input('two') },
        {
          type: 'tool.completed',
          run: 'r',
          tool: 'patch',
          output: { path: 'two', created: false },
        },
        { type: 'tool.completed', run: 'r', tool: 'patch', output: { path: 'one', created: true } },
      ),
    );
    expect(files.map(({ path, operation }) => [path, operation])).toEqual([
      ['one', 'create'],
      ['two', 'update'],
    ]);
    expect(files[0]?.changes[0]?.edits).toEqual([{ before: 'x\ny', after: 'z\n' }]);
  });
});

describe('The journal of a session', () => {
  /** A journal of `count` events, of which the first ones are not kept. */
  function reader(count: () => number, pruned = 0) {
    const requests: (number | undefined)[] = [];
    const read = new JournalReader(async (given, limit) => {
      requests.push(given);
      const after = given ?? pruned;
      if (after < pruned) throw new RelayApiError('journal_pruned', 'gone', { status: 410 });
      const last = Math.min(count(), after + limit);
      const events = Array.from({ length: Math.max(0, last - after) }, (_, index) => ({
        ...journal({ type: 'log', level: 'info', message: '' })[0],
        seq: after + index + 1,
      })) as StoredSessionEvent[];
      return { events, lastSeq: count() };
    });
    return { read, requests };
  }
  const seqs = ({ state }: JournalReader) => [state.events[0]?.seq, state.events.at(-1)?.seq];

  it('is read from its end, on from there, and back to its first event without a gap', async () => {
    let count = 1_200;
    const { read } = reader(() => count);
    await read.update();
    expect([seqs(read), read.state.isComplete]).toEqual([[701, 1_200], false]);
    count = 2_000;
    await read.update();
    expect(seqs(read)).toEqual([701, 2_000]);
    await read.loadOlder();
    expect([seqs(read), read.state.isComplete]).toEqual([[201, 2_000], false]);
    await read.loadOlder(5_000);
    expect([seqs(read), read.state.isComplete]).toEqual([[1, 2_000], true]);
    expect(read.state.events.map(({ seq }) => seq)).toEqual(
      Array.from({ length: 2_000 }, (_, index) => index + 1),
    );
  });

  it('ends with the first event that is kept', async () => {
    const { read } = reader(() => 900, 650);
    await read.update();
    expect([seqs(read), read.state.isComplete]).toEqual([[651, 900], true]);
  });

  it('has one request at a time, and misses nothing that is reported meanwhile', async () => {
    let count = 10;
    const { read } = reader(() => count);
    const first = read.update();
    count = 20;
    void read.update();
    await first;
    expect(seqs(read)).toEqual([1, 20]);
  });
});

describe('A terminal', () => {
  it('begins with the last whole screen, and with the size that it had', () => {
    const events = journal(
      { type: 'terminal.output', text: 'old' },
      { type: 'terminal.screen', text: 'old', cols: 90, rows: 20 },
      { type: 'terminal.output', text: '\x1bcnew' },
      { type: 'terminal.output', text: ' text' },
    );
    const { events: shown, isWhole } = beginningOf(events);
    expect(shown.map(({ seq }) => seq)).toEqual([2, 3, 4]);
    expect(isWhole).toBe(true);
    expect(beginningOf(events.slice(1, 2)).isWhole).toBe(false);
  });

  it('knows what was output since its last reset, and not more than that', () => {
    expect(sinceReset('', 'no reset')).toBe('');
    expect(sinceReset('\x1bcold', '\x1bcone\x1bctwo')).toBe('\x1bctwo');
    expect(sinceReset('\x1bctwo', ' and on')).toBe('\x1bctwo and on');
    expect(sinceReset('\x1bctwo', 'x'.repeat(600_000))).toBe('');
  });

  it('sends keys, and not what it answers by itself', () => {
    const keys = 'ls\r\x1b[A\x03';
    expect(
      withoutAnswers(`\x1b[12;40R${keys}\x1b[?1;2c\x1b]11;rgb:0/0/0\x07\x1b[?2026;2$y\x1b[4;2$y`),
    ).toBe(keys);
  });
});

describe('A mention', () => {
  const handles = ['ada', 'adele', 'builder'];
  it('is completed while it is typed', () => {
    expect(mentionAt('Ask @ad', 7, handles)).toEqual({ start: 4, matches: ['ada', 'adele'] });
    expect(mentionAt('@', 1, handles)?.matches).toEqual(handles);
    expect(mentionAt('Ask @builder', 12, handles)).toBeUndefined();
    expect(mentionAt('mail me@ad', 10, handles)).toBeUndefined();
    expect(mentionAt('@ad and more', 3, handles)?.start).toBe(0);
  });

  it('names who is mentioned without being a member', () => {
    const text = 'Ask @ada and @eve. Also @eve, `@code`, me@mail and (@bob-2)';
    expect(mentionsOfOthers(text, ['ada'])).toEqual(['eve', 'bob-2']);
  });
});

describe('Threads of a channel', () => {
  it('have replies to replies below their first message, and lone replies on their own', () => {
    const message = (id: string, replyTo?: string) =>
      ({ id, at: `2026-01-01T00:00:0${id}.000Z`, ...(replyTo && { replyTo }) }) as SessionMessage;
    const threads = threadsOf([
      message('5', '0'),
      message('4'),
      message('3', '2'),
      message('2', '1'),
      message('1'),
    ]);
    expect(threads.map(({ root, replies }) => [root.id, replies.map(({ id }) => id)])).toEqual([
      ['1', ['2', '3']],
      ['4', []],
      ['5', []],
    ]);
  });
});
