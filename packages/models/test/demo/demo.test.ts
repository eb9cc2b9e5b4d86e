import type { ModelEvent, ModelRequest } from '@relay/core';
import type { Message } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '@relay/core/testing';
import { createDemoModel } from '../../src/demo/demo.ts';
import { asking, batchesOf, eventsOf, textIn } from '../support/index.ts';

const model = createDemoModel();

function requestFor(message: string, tools: readonly string[] = []): ModelRequest {
  return asking(message, {
    model: 'demo',
    tools: tools.map((name) => ({ name, description: name, inputSchema: {} })),
  });
}

/** The request after the model's calls were answered. */
function answered(request: ModelRequest, calls: readonly ModelEvent[], readings: string[]) {
  const called = calls.filter((event) => event.type === 'tool-call');
  const messages: Message[] = [
    ...request.messages,
    {
      role: 'assistant',
      content: null,
      tool_calls: called.map(({ id, name, arguments: text }) => ({
        id,
        type: 'function',
        function: { name, arguments: text },
      })),
    },
    ...called.map(({ id }, index): Message => ({
      role: 'tool',
      tool_call_id: id,
      content: readings[index] ?? '',
    })),
  ];
  return { ...request, messages };
}

/** What the model says once its calls have brought these readings. */
async function answerAfter(request: ModelRequest, ...readings: string[]): Promise<string> {
  const events = await eventsOf(model, answered(request, await eventsOf(model, request), readings));
  expect(events.filter(({ type }) => type === 'tool-call')).toEqual([]);
  expect(events.at(-1)).toMatchObject({ type: 'finish', reason: 'stop' });
  return textIn(events);
}

const calls = (events: readonly ModelEvent[]) =>
  events.flatMap((event) =>
    event.type === 'tool-call' ? [[event.name, JSON.parse(event.arguments)]] : [],
  );

describe('demo: calculate', () => {
  it.each([
    ['calculate 23*47', { a: 23, b: 47, op: '*' }],
    ['Calculate 23 * 47', { a: 23, b: 47, op: '*' }],
    ['  calculate   23   x   47 = ', { a: 23, b: 47, op: '*' }],
    ['What is 23 * 47?', { a: 23, b: 47, op: '*' }],
    ['calculate 23×47?', { a: 23, b: 47, op: '*' }],
    ['calculate 23X47', { a: 23, b: 47, op: '*' }],
    ['calculate 10 ÷ 4', { a: 10, b: 4, op: '/' }],
    ['calculate 10/4', { a: 10, b: 4, op: '/' }],
    ['calculate 1.5 + .25', { a: 1.5, b: 0.25, op: '+' }],
    ['calculate -3 - -4', { a: -3, b: -4, op: '-' }],
    ['calculate −3−−4', { a: -3, b: -4, op: '-' }],
    ['calculate 3-4', { a: 3, b: 4, op: '-' }],
    ['calculate 3+-4', { a: 3, b: -4, op: '+' }],
  ])('%s', async (message, input) => {
    const events = await eventsOf(model, requestFor(message, ['calculator']));
    expect(calls(events)).toEqual([['calculator', input]]);
    expect(events.at(-1)).toMatchObject({ type: 'finish', reason: 'tool_calls' });
  });

  it.each(['What is my dog called?', 'what is 1+2+3', 'what', `what is ${'9'.repeat(1_000_000)}`])(
    'leaves other questions to other models: %.30s',
    async (message) => {
      const events = await eventsOf(model, requestFor(message, ['calculator']));
      expect(textIn(events)).toContain('I am the demo model');
      expect(calls(events)).toEqual([]);
    },
  );

  it.each([
    'calculate',
    'calculate the moon',
    'calculate 1+2+3',
    'calculate 1+',
    'calculate 1e3*2',
    'calculate 1.2.3+4',
    `calculate 1+${'9'.repeat(400)}`,
    `calculate ${'9'.repeat(1_000_000)}`,
    `calculate 1+1${' '.repeat(1_000_000)}x`,
  ])('says so when it cannot read the numbers', async (message) => {
    const events = await eventsOf(model, requestFor(message, ['calculator']));
    expect(textIn(events)).toContain('I can only calculate two numbers');
    expect(calls(events)).toEqual([]);
  });

  it.each(['23 * 47 = 1081', '1081', '{"result":1081}', '{"context":"x","result":1081}'])(
    'answers in words with the result: %s',
    async (reading) => {
      const request = requestFor('calculate 23*47', ['calculator']);
      expect(await answerAfter(request, reading)).toBe('23 * 47 is 1081.');
    },
  );

  it('explains why there is no result', async () => {
    const request = requestFor('calculate 1/0', ['calculator']);
    const reading =
      '{"status":"error","error":"Nothing can be divided by zero","code":"tool_failed"}';
    expect(await answerAfter(request, reading)).toBe(
      'I could not calculate that: Nothing can be divided by zero.',
    );
  });
});

describe('demo: notify', () => {
  const request = requestFor('notify The build is red\nand on fire', ['send_note']);

  it('sends a note to the operator', async () => {
    expect(calls(await eventsOf(model, request))).toEqual([
      ['send_note', { to: 'operator', text: 'The build is red\nand on fire' }],
    ]);
  });

  it.each([
    ['The note to operator was sent.', 'The note was sent.'],
    ['{"status":"denied","reason":"too loud"}', 'The note was not sent: it was denied (too loud).'],
    ['{"status":"denied"}', 'The note was not sent: it was denied.'],
    ['{"status":"expired"}', 'The note was not sent: the approval expired.'],
    ['{"status":"error","error":"disk full"}', 'The note was not sent: disk full.'],
  ])('after %s', async (reading, answer) => {
    expect(await answerAfter(request, reading)).toBe(answer);
  });

  it('requires a text', async () => {
    expect(textIn(await eventsOf(model, requestFor('notify', ['send_note'])))).toContain('Hello!');
  });
});

describe('demo: use', () => {
  it('calls any tool with any JSON', async () => {
    const request = requestFor('use bash {"command": "ls -l"}', ['bash']);
    expect(calls(await eventsOf(model, request))).toEqual([['bash', { command: 'ls -l' }]]);
    expect(await answerAfter(request, 'total 0')).toBe('bash answered: total 0');
    expect(await answerAfter(request, '{"status":"denied"}')).toBe(
      'bash returned no result: it was denied.',
    );
  });

  it('calls several tools at once', async () => {
    const message = 'use a {"n":1}\n  use b {\n  "n": 2\n}\n\nUSE a\n';
    const request = requestFor(message, ['a', 'b']);
    const events = await eventsOf(model, request);
    expect(events.filter(({ type }) => type === 'tool-call')).toEqual([
      { type: 'tool-call', id: 'call_1', name: 'a', arguments: '{"n":1}' },
      { type: 'tool-call', id: 'call_2', name: 'b', arguments: '{\n  "n": 2\n}' },
      { type: 'tool-call', id: 'call_3', name: 'a', arguments: '' },
    ]);
    expect(await answerAfter(request, 'one', 'two', 'three')).toBe(
      'a answered: one\nb answered: two\na answered: three',
    );
  });

  it('passes on invalid JSON, for the gate to refuse', async () => {
    const events = await eventsOf(model, requestFor('use a {oops', ['a']));
    expect(events[0]).toMatchObject({ type: 'tool-call', arguments: '{oops' });
  });

  it('names missing tools, and calls the others', async () => {
    const events = await eventsOf(model, requestFor('use a {}\nuse b {}\nuse c {}', ['b']));
    expect(textIn(events)).toBe('I have no tool named a. I have no tool named c.');
    expect(calls(events)).toEqual([['b', {}]]);
  });

  it.each([
    ['calculate 1+1', 'calculator'],
    ['notify me', 'send_note'],
    ['use bash {}', 'bash'],
  ])('%s says that there is no such tool', async (message, tool) => {
    const events = await eventsOf(model, requestFor(message));
    expect(textIn(events)).toBe(`I have no tool named ${tool}.`);
    expect(calls(events)).toEqual([]);
  });

  it('handles a long empty message quickly', async () => {
    const message = `use a {}${'\n'.repeat(500_000)}${' '.repeat(500_000)}`;
    expect(calls(await eventsOf(model, requestFor(message, ['a'])))).toEqual([['a', {}]]);
  });

  it('truncates a long result', async () => {
    const answer = await answerAfter(requestFor('use a {}', ['a']), 'x'.repeat(1_000_000));
    expect(answer.length).toBeLessThan(3_000);
  });
});

describe('demo: hand off', () => {
  const request = requestFor('Hand off to billing', ['handoff']);

  it('calls the tool handoff', async () => {
    expect(calls(await eventsOf(model, request))).toEqual([['handoff', { agent: 'billing' }]]);
    expect(await answerAfter(request, 'Done')).toBe('You are now talking to billing.');
    expect(await answerAfter(request, '{"status":"error","error":"No agent billing"}')).toBe(
      'I could not hand off: No agent billing.',
    );
  });

  it('reports that there is no such agent without the tool', async () => {
    expect(textIn(await eventsOf(model, requestFor('hand off to billing')))).toBe(
      'There is no agent named billing to hand off to.',
    );
  });

  it.each(['hand', 'hand off', 'hand off to', 'hand me that'])(
    '%s is no command',
    async (message) => {
      expect(textIn(await eventsOf(model, requestFor(message, ['handoff'])))).toContain('Hello!');
    },
  );
});

describe('demo', () => {
  it('is deterministic', async () => {
    const tools = ['calculator', 'a'];
    for (const message of ['Hi', 'say 9', 'calculate 1+1', 'use a {}\nuse a {}']) {
      const request = requestFor(message, tools);
      expect(await batchesOf(model, request)).toEqual(await batchesOf(model, request));
    }
  });

  it('uses the last user message, and numbers its calls through the conversation', async () => {
    const first = requestFor('calculate 1+1', ['calculator']);
    const then = answered(first, await eventsOf(model, first), ['1 + 1 = 2']);
    const next: ModelRequest = {
      ...then,
      messages: [
        ...then.messages,
        { role: 'assistant', content: '1 + 1 is 2.' },
        { role: 'user', content: [{ type: 'text', text: 'calculate 2+2' }] },
      ],
    };
    expect((await eventsOf(model, next))[0]).toEqual({
      type: 'tool-call',
      id: 'call_2',
      name: 'calculator',
      arguments: '{"a":2,"b":2,"op":"+"}',
    });
  });

  it('answers when the last turn has no tools', async () => {
    const request = requestFor('calculate 1+1', ['calculator']);
    const last = answered(request, await eventsOf(model, request), ['1 + 1 = 2']);
    const closing: Message = { role: 'system', content: 'Answer now.' };
    const messages = [...last.messages, closing];
    const events = await eventsOf(model, { ...last, messages, tools: [] });
    expect(textIn(events)).toBe('1 + 1 is 2.');
  });

  it('reports a call without a result in the transcript', async () => {
    const request = requestFor('use a {}', ['a']);
    const { messages } = answered(request, await eventsOf(model, request), []);
    const events = await eventsOf(model, { ...request, messages: messages.slice(0, -1) });
    expect(textIn(events)).toBe('a returned no result: there is no answer.');
  });

  it('counts input and output tokens', async () => {
    const [short, long] = await Promise.all(
      ['say 3', `say 3${' '.repeat(400)}`].map((message) => eventsOf(model, requestFor(message))),
    );
    expect(short?.at(-1)).toMatchObject({ usage: { inputTokens: 2, outputTokens: 3 } });
    expect(long?.at(-1)).toMatchObject({ usage: { inputTokens: 102, outputTokens: 3 } });
  });

  it('does nothing if the call was aborted before', async () => {
    const call = eventsOf(model, requestFor('Hi'), AbortSignal.abort());
    await expect(call).rejects.toThrow('The model call was aborted');
  });
});

describe('demo: say', () => {
  it('streams n tokens, one per event and a few per batch', async () => {
    const batches = await batchesOf(model, asking('say 10'));
    const events = batches.flat();
    expect(textIn(events)).toBe('1 2 3 4 5 6 7 8 9 10');
    expect(events).toHaveLength(11);
    expect(batches.map(({ length }) => length)).toEqual([4, 4, 2, 1]);
    expect(events.at(-1)).toMatchObject({ usage: { outputTokens: 10 } });
  });

  it('says at most 100,000 tokens', async () => {
    const events = await eventsOf(model, asking('say 99999999999999999999'));
    expect(events).toHaveLength(100_001);
  });

  it('can say nothing', async () => {
    const events = await eventsOf(model, asking('say 0'));
    expect(events.map(({ type }) => type)).toEqual(['finish']);
  });

  it('yields to the event loop, and stops when aborted', async () => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 1);
    let tokens = 0;
    const read = async () => {
      for await (const batch of model.stream(asking('say 100000'), controller.signal)) {
        tokens += batch.length;
      }
    };
    await expect(read()).rejects.toThrow('The model call was aborted');
    expect(tokens).toBeLessThan(100_000);
  });
});

describe('demo: slow', () => {
  it('waits between tokens', async () => {
    const clock = new ManualClock();
    const began = clock.now();
    const events: ModelEvent[] = [];
    const reading = (async () => {
      const slow = createDemoModel({ clock });
      const { signal } = new AbortController();
      for await (const batch of slow.stream(asking('slow 1500'), signal)) events.push(...batch);
    })();
    await expect.poll(() => clock.sleepers).toBe(1);
    expect(textIn(events)).toBe('I wait for 1500 ms');
    await clock.advance(1499);
    expect(textIn(events)).toBe('I wait for 1500 ms');
    await clock.advance(1);
    await reading;
    expect(textIn(events)).toBe('I wait for 1500 ms and go on.');
    expect(clock.now() - began).toBe(1500);
  });

  it('waits at most 10 minutes', async () => {
    const waits: number[] = [];
    const clock = {
      sleep: async (ms: number) => {
        waits.push(ms);
      },
    };
    await eventsOf(createDemoModel({ clock }), asking('slow 99999999999'));
    expect(waits).toEqual([600_000]);
  });

  it('waits, and stops at once when aborted', async () => {
    const began = performance.now();
    await eventsOf(model, asking('slow 40'));
    expect(performance.now() - began).toBeGreaterThan(35);
    const controller = new AbortController();
    const call = eventsOf(model, asking('slow 600000'), controller.signal);
    setTimeout(() => controller.abort(), 10);
    await expect(call).rejects.toMatchObject({
      message: 'The model call was aborted',
      retryable: false,
    });
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

describe('demo: fail', () => {
  it.each([
    [400, false],
    [401, false],
    [404, false],
    [429, true],
    [500, true],
    [503, true],
    [599, true],
  ])('%i', async (status, retryable) => {
    await expect(eventsOf(model, asking(`fail ${status}`))).rejects.toMatchObject({
      name: 'ProviderFailure',
      message: `The demo provider answered ${status}`,
      retryable,
    });
  });

  it.each(['fail', 'fail 200', 'fail 600', 'fail miserably'])(
    '%s is no failure',
    async (message) => {
      expect(textIn(await eventsOf(model, asking(message)))).toContain('fail <status>');
    },
  );
});

describe('demo: anything else', () => {
  it.each(['Hi', '', 'What is it?', 'constructor', 'saying 5', 'say it', 'slow down'])(
    'gets a friendly answer with the commands: %s',
    async (message) => {
      const answer = textIn(await eventsOf(model, asking(message)));
      for (const command of ['calculate', 'notify', 'use', 'say', 'slow', 'fail', 'hand off to']) {
        expect(answer).toContain(`\n- ${command}`);
      }
    },
  );

  it('streams word by word', async () => {
    const events = await eventsOf(model, asking('Hi'));
    const words = events.flatMap((event) => (event.type === 'text' ? [event.text] : []));
    expect(words.length).toBeGreaterThan(30);
    expect(words.every((word) => /^\s*\S+$/.test(word))).toBe(true);
  });
});
