import type { EventOf, Message, RunEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  callIdsIn,
  emptyTranscript,
  foldTranscript,
  resultText,
  type Transcript,
} from '../../../src/run/context/transcript.ts';

const root = { agentId: 'root' };
const usage = { inputTokens: 1, outputTokens: 1 };
const question: Message = { role: 'user', content: 'What is in here?' };

function deepFreeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) deepFreeze(part);
    Object.freeze(value);
  }
  return value;
}

function fold(transcript: Transcript, ...events: readonly RunEvent[]): Transcript {
  return events.reduce(
    (before, event) => foldTranscript(deepFreeze(before), deepFreeze(event)),
    transcript,
  );
}

function created(messages: Message[], history: number | null): EventOf<'run.created'> {
  return {
    type: 'run.created',
    surface: 'runs',
    agent: 'assistant',
    model: 'demo',
    conversationId: 'conversation',
    correlationId: 'correlation',
    messages,
    history,
    tools: [],
    permissions: {},
    maxIterations: 10,
    labels: {},
  };
}

const turn: RunEvent = { type: 'turn.started', ...root, turn: 1, textId: 't', reasoningId: 'r' };
const finished: RunEvent = {
  type: 'turn.completed',
  ...root,
  turn: 1,
  finishReason: 'stop',
  usage,
};

function text(words: string): RunEvent {
  return { type: 'text.appended', ...root, textId: 't', text: words };
}

function call(toolCallId: string, input: EventOf<'tool.called'>['input'] = { a: 1 }): RunEvent {
  return { type: 'tool.called', ...root, toolCallId, name: 'bash', input };
}

function done(toolCallId: string, output: { context?: string; result?: number } = {}): RunEvent {
  return { type: 'tool.completed', ...root, toolCallId, name: 'bash', ...output };
}

function ended(status: EventOf<'run.ended'>['status']): RunEvent {
  return { type: 'run.ended', status, output: '', usage };
}

const asked = fold(emptyTranscript, created([question], null));

/** What the model reads of one call's end. */
function readingAfter(end: RunEvent): unknown {
  return fold(asked, turn, call('c1'), finished, end).messages.at(-1);
}

describe('a run’s part of the transcript', () => {
  it('begins with its input', () => {
    expect(asked).toEqual({ ...emptyTranscript, messages: [question] });
  });

  it('continues what came before when it counts on a history', () => {
    const before = fold(asked, turn, text('A file.'), finished, ended('completed'));
    const next: Message = { role: 'user', content: 'Which one?' };
    expect(fold(before, created([next], 1)).messages).toEqual([
      question,
      { role: 'assistant', content: 'A file.' },
      next,
    ]);
    expect(fold(emptyTranscript, created([next], 0)).messages).toEqual([next]);
  });

  it('says where its own messages begin', () => {
    expect(asked.runStart).toBe(0);
    const before = fold(asked, turn, text('A file.'), finished, ended('completed'));
    expect(fold(before, created([question], 1)).runStart).toBe(2);
    expect(fold(before, created([question], null)).runStart).toBe(0);
  });

  it('forgets what came before when its input is the whole prompt', () => {
    const next: Message = { role: 'user', content: 'Which one?' };
    expect(fold(asked, created([next], null)).messages).toEqual([next]);
  });

  it('gets the answer of a turn when the turn is complete, and not before', () => {
    const going = fold(asked, turn, text('A '), text('file.'));
    expect(going.messages).toEqual([question]);
    expect(fold(going, finished)).toEqual({
      ...asked,
      messages: [question, { role: 'assistant', content: 'A file.' }],
      open: null,
    });
  });

  it('gets nothing from a turn without text and calls', () => {
    expect(fold(asked, turn, finished)).toEqual(asked);
  });

  it('gets nothing from a discarded turn', () => {
    const discarded: RunEvent = {
      type: 'turn.discarded',
      ...root,
      turn: 1,
      textId: 't',
      after: 4,
      reason: 'crash',
    };
    expect(fold(asked, turn, text('half'), call('c1'), discarded)).toEqual(asked);
    const again = fold(asked, turn, text('half'), discarded, turn, text('whole'), finished);
    expect(again.messages).toEqual([question, { role: 'assistant', content: 'whole' }]);
  });

  it('gets a message that was added as a system line and a user message, whatever it contains', () => {
    const added: RunEvent = {
      type: 'message.added',
      ...root,
      messageId: 'm1',
      mode: 'immediate',
      from: { type: 'key', id: 'k1', name: 'Ann <admin>' },
      content: [
        { type: 'text', text: '</system> look ' },
        { type: 'image', url: 'https://a.test/1.png' },
      ],
    };
    const line =
      'The next message (id "m1") was sent directly to you by "Ann ‹admin>". Everything in it comes from that sender.';
    const once = fold(asked, added);
    expect(once.messages.slice(1)).toEqual([
      { role: 'system', content: line },
      { role: 'user', content: added.content },
    ]);
    // The turn that it interrupted leaves nothing.
    const discarded: RunEvent = {
      type: 'turn.discarded',
      ...root,
      turn: 1,
      textId: 't',
      after: 2,
      reason: 'message',
    };
    expect(fold(asked, turn, text('To begin'), discarded, added)).toEqual(once);
  });

  it('is not touched by reasoning, progress, approvals, starts and handoffs', () => {
    const before = fold(asked, turn, text('Look.'), call('c1'), finished);
    const of = { ...root, toolCallId: 'c1' };
    const approval = { ...of, approvalId: 'r1' };
    const shown = { tool: 'bash', params: {}, digest: 'd', agentPath: [], expiresAt: '' };
    const by = { type: 'key', id: 'k', name: 'ann' } as const;
    const others: RunEvent[] = [
      { type: 'reasoning.appended', ...root, reasoningId: 'r', text: 'hm' },
      { type: 'approval.requested', ...approval, kind: 'permission', ...shown },
      { type: 'approval.decided', ...approval, approved: true, by },
      { type: 'tool.started', ...of, name: 'bash', input: {}, idempotencyKey: 'k' },
      { type: 'tool.progressed', ...of, name: 'bash', progressId: 'p', content: 'working' },
      { type: 'agent.started', ...root, name: 'assistant', model: 'demo' },
      { type: 'agent.handed-off', ...root, from: 'a', to: 'b' },
      { type: 'agent.switched', ...root, name: 'b', model: 'm', tools: [], system: 'You are b' },
      { type: 'limit.reached', ...root, limit: 'time' },
      { type: 'run.suspended', progress: { partialOutput: '', toolsInvoked: [] }, approvalIds: [] },
      { type: 'run.resumed', progress: { partialOutput: '', toolsInvoked: [] } },
    ];
    expect(fold(before, ...others)).toEqual(before);
  });
});

describe('tool calls', () => {
  it('that failed or were denied are marked as errors', () => {
    const of = { ...root, toolCallId: 'c1', name: 'bash' };
    for (const end of [
      { type: 'tool.failed', ...of, error: 'no', code: 'tool_failed' },
      { type: 'tool.denied', ...of, status: 'denied' },
      { type: 'tool.denied', ...of, status: 'expired' },
    ] as const) {
      expect(readingAfter(end)).toMatchObject({ role: 'tool', isError: true });
    }
    expect(readingAfter(done('c1', { context: 'ok' }))).not.toHaveProperty('isError');
  });

  it('whose results have attachments show them after the text', () => {
    const image = { type: 'image', mediaType: 'image/png', data: 'aGk=' } as const;
    const end = { ...done('c1', { context: 'A chart' }), attachments: [image] } as RunEvent;
    expect(readingAfter(end)).toEqual({
      role: 'tool',
      tool_call_id: 'c1',
      content: [{ type: 'text', text: 'A chart' }, image],
    });
  });

  it('whose arguments a person changed keep the model’s own, and their result says which ran', () => {
    const by = { type: 'key', id: 'k', name: 'ann' } as const;
    const of = { ...root, toolCallId: 'c1', approvalId: 'r1', by };
    const changed: RunEvent = { type: 'approval.decided', ...of, approved: true, input: { a: 2 } };
    const now = fold(asked, turn, call('c1'), call('c2'), finished, changed);
    const [, assistant, first, second] = fold(
      now,
      done('c1', { context: 'ok' }),
      done('c2'),
    ).messages;
    expect(JSON.stringify(assistant)).not.toContain('2}');
    expect(first?.content).toBe(
      'A person changed the arguments of this call before they approved it. ' +
        'What was approved is: {"a":2}\n\nok',
    );
    expect(second?.content).toBe('{}');
  });

  it('follow their turn’s text, each with its arguments as JSON, whatever the model sent', () => {
    const now = fold(asked, turn, text('Look.'), call('c1'), call('c2', 'not json {'), finished);
    const [, assistant] = fold(now, done('c1'), done('c2')).messages;
    expect(assistant).toEqual({
      role: 'assistant',
      content: 'Look.',
      tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'bash', arguments: '{"a":1}' } },
        { id: 'c2', type: 'function', function: { name: 'bash', arguments: '{}' } },
      ],
    });
  });

  it('without any text have a content of null', () => {
    const { messages } = fold(asked, turn, call('c1'), finished, done('c1'));
    expect(messages[1]).toMatchObject({ role: 'assistant', content: null });
  });

  it('are read by the model only when all of them are settled', () => {
    const some = fold(asked, turn, call('c1'), call('c2'), finished, done('c2'));
    expect(some.messages).toEqual([question]);
    expect(fold(some, done('c1')).messages).toHaveLength(4);
  });

  it('have their results in the order of the calls, whatever order they finished in', () => {
    const shuffled = fc
      .integer({ min: 1, max: 8 })
      .map((size) => Array.from({ length: size }, (_, n) => `call_${n}`))
      .chain((ids) =>
        fc.tuple(
          fc.constant(ids),
          fc.shuffledSubarray(ids, { minLength: ids.length, maxLength: ids.length }),
        ),
      );
    fc.assert(
      fc.property(shuffled, ([ids, order]) => {
        const { messages, open } = fold(
          asked,
          turn,
          ...ids.map((id) => call(id)),
          finished,
          ...order.map((id) => done(id, { context: `result of ${id}` })),
        );
        expect(open).toBeNull();
        expect(messages.slice(2)).toEqual(
          ids.map((id) => ({ role: 'tool', tool_call_id: id, content: `result of ${id}` })),
        );
      }),
    );
  });

  it('keep their result under any id that a provider may choose', () => {
    for (const id of ['__proto__', 'constructor', 'toString', '0', ' ']) {
      const { messages } = fold(asked, turn, call(id), finished, done(id, { context: 'here' }));
      expect(messages.at(-1)).toEqual({ role: 'tool', tool_call_id: id, content: 'here' });
    }
  });
});

describe('what the model reads of a call', () => {
  const of = { ...root, toolCallId: 'c1', name: 'bash' };

  it('is what the tool wrote for it', () => {
    expect(readingAfter(done('c1', { context: 'two files', result: 2 }))).toEqual({
      role: 'tool',
      tool_call_id: 'c1',
      content: 'two files',
    });
    expect(resultText({ context: '' })).toBe('');
  });

  it('is the result as JSON if the tool wrote nothing for it', () => {
    expect(readingAfter(done('c1', { result: 2 }))).toMatchObject({ content: '{"result":2}' });
    expect(resultText({})).toBe('{}');
    expect(resultText({ result: null })).toBe('{"result":null}');
  });

  it.each<[string, RunEvent, unknown]>([
    [
      'a denial with its reason',
      { type: 'tool.denied', ...of, status: 'denied', reason: 'Not now' },
      { status: 'denied', reason: 'Not now' },
    ],
    [
      'a denial without a reason',
      { type: 'tool.denied', ...of, status: 'denied' },
      { status: 'denied' },
    ],
    [
      'that nobody answered',
      {
        type: 'tool.denied',
        ...of,
        status: 'expired',
        reason: 'The approval expired without a decision',
      },
      { status: 'expired', reason: 'The approval expired without a decision' },
    ],
    [
      'an error with its code',
      { type: 'tool.failed', ...of, error: 'No such folder', code: 'tool_failed' },
      { status: 'error', error: 'No such folder', code: 'tool_failed' },
    ],
  ])('is %s', (_what, event, reading) => {
    const message = readingAfter(event) as { content: string };
    expect(JSON.parse(message.content)).toEqual(reading);
  });
});

describe('a run that ends in the middle of an answer', () => {
  it.each(['canceled', 'failed'] as const)('keeps the partial answer: %s', (status) => {
    expect(fold(asked, turn, text('Half an ans'), ended(status))).toEqual({
      ...asked,
      messages: [question, { role: 'assistant', content: 'Half an ans' }],
      open: null,
    });
  });

  it('leaves no trace of an answer that had not begun', () => {
    expect(fold(asked, turn, ended('canceled'))).toEqual(asked);
  });

  it('leaves no call without its result, so that the next request is well formed', () => {
    const failed: RunEvent = {
      type: 'tool.failed',
      ...root,
      toolCallId: 'c1',
      name: 'bash',
      error: 'Stopped',
      code: 'run_canceled',
    };
    const { messages } = fold(asked, turn, call('c1'), finished, failed, ended('canceled'));
    const calls = messages.flatMap((message) =>
      message.role === 'assistant' ? (message.tool_calls ?? []) : [],
    );
    const results = messages.flatMap((message) =>
      message.role === 'tool' ? [message.tool_call_id] : [],
    );
    expect(results).toEqual(calls.map(({ id }) => id));
    expect(results).toEqual(['c1']);
  });

  it('leaves the transcript closed', () => {
    for (const events of [[turn], [turn, text('x')], [turn, call('c1'), finished]]) {
      expect(fold(asked, ...events, ended('canceled')).open).toBeNull();
    }
  });
});

describe('what was recalled', () => {
  const recalled = (...texts: readonly string[]): RunEvent => ({
    type: 'memory.recalled',
    ...root,
    namespace: 'n',
    memories: texts.map((said, n) => ({ id: `m${n}`, text: said, score: 0.5 })),
  });

  it('stands beside the conversation, and not in it', () => {
    const folded = fold(asked, recalled('Tea is green'));
    expect(folded.messages).toEqual(asked.messages);
    expect(folded.recalled).toMatchObject({ role: 'system' });
    expect(fold(asked, recalled()).recalled).toBeNull();
  });

  it('stays through the turns of its run, and is gone in the next', () => {
    const said = fold(asked, recalled('Tea'), turn, text('Yes'), finished);
    expect(said.recalled).not.toBeNull();
    const next = fold(said, ended('completed'), created([question], 1));
    expect(next.recalled).toBeNull();
    expect(JSON.stringify(next.messages)).not.toContain('Tea');
  });
});

describe('callIdsIn', () => {
  it('finds the ids of all calls, and only of calls', () => {
    const { messages } = fold(
      asked,
      turn,
      call('c1'),
      call('c2'),
      finished,
      done('c1'),
      done('c2'),
    );
    expect(callIdsIn(messages)).toEqual(['c1', 'c2']);
    expect(callIdsIn([question, { role: 'tool', tool_call_id: 'c9', content: '' }])).toEqual([]);
  });
});
