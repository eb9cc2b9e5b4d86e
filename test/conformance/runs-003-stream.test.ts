/** 003 over HTTP: the stream that POST /v1/runs returns. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { doneFrame, finishFrame, textFrame, usageFrame } from '@relay/models/testing';
import { allFrames, type Frame, FrameReader } from '../support/frames.ts';
import { LocalServer } from '../support/server.ts';
import { calls, says, type Scripted, startScripted } from './scripted.ts';
import { verifies } from './verifies.ts';

const server = new LocalServer();
let scripted: Scripted;
beforeAll(async () => {
  await server.start();
  scripted = await startScripted();
});
afterAll(async () => {
  await server.dispose();
  await scripted.dispose();
});

const calculator = [{ name: 'calculator', kind: 'builtin' }];

function start(body: object): Promise<Response> {
  return server.request('/v1/runs', { body: { model: 'demo', ...body } });
}

function ask(body: object): Promise<Response> {
  return scripted.server.request('/v1/runs', { body: { model: 'gpt-4o-mini', ...body } });
}

function joined(frames: readonly Frame[]): string {
  return frames
    .filter(({ data }) => data.type === 'token')
    .map(({ data }) => String(data['text']))
    .join('');
}

describe('POST /v1/runs', () => {
  test('starts a run and answers with an event stream, and with the id of the run', async () => {
    verifies('003:endpoint:runs-create', '003:runs:content-type', '003:runs:x-run-id');
    const response = await start({ input: 'say 3' });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const runId = response.headers.get('x-run-id') ?? '';
    expect(runId).not.toBe('');
    expect(joined(await allFrames(response))).toBe('1 2 3');
    const run = await server.request(`/v1/runs/${runId}`);
    expect(await run.json()).toMatchObject({ id: runId, status: 'completed', output: '1 2 3' });
  });

  test('sends every event as one frame: one line of data with JSON that has a type', async () => {
    verifies('003:runs:one-frame-per-event');
    const input = 'calculate 23*47';
    const response = await start({ input, tools: calculator });
    const text = await response.text();
    expect(text.endsWith('\n\n')).toBe(true);
    const frames = text.slice(0, -2).split('\n\n');
    const seqs: number[] = [];
    for (const frame of frames) {
      const lines = frame.split('\n');
      const data = lines.filter((line) => line.startsWith('data: '));
      expect(data).toHaveLength(1);
      const event = JSON.parse(data[0]?.slice('data: '.length) ?? '') as { type: unknown };
      expect(event.type).toMatch(/^[a-z_]+$/);
      // Besides it there is only the place in the journal, at which no other frame stands.
      const rest = lines.filter((line) => !line.startsWith('data: '));
      expect(rest).toEqual([expect.stringMatching(/^id: \d+$/)]);
      seqs.push(Number(rest[0]?.slice('id: '.length)));
    }
    expect(seqs).toEqual([...new Set(seqs)].toSorted((a, b) => a - b));
    expect(frames.length).toBeGreaterThan(4);
  });

  test('calculates 23 * 47 with the calculator, without an approval', async () => {
    verifies(
      '003:runs:tools-builtin',
      '003:runs:calculator-product',
      '003:runs:frame-tool-call',
      '003:runs:tool-call-input',
      '003:runs:frame-tool-result',
      '003:runs:tool-result-same-id',
      '003:runs:tool-result-bare-output',
    );
    const frames = await allFrames(await start({ input: 'calculate 23*47', tools: calculator }));
    const about = frames.map(({ data }) => data).filter(({ type }) => type.startsWith('tool_'));
    expect(about).toEqual([
      {
        type: 'tool_call',
        id: expect.stringMatching(/^call_/),
        name: 'calculator',
        input: { a: 23, b: 47, op: '*' },
      },
      { type: 'tool_result', id: about[0]?.['id'], output: 1081 },
    ]);
    expect(frames.filter(({ data }) => data.type === 'approval_requested')).toEqual([]);

    // A run that was not given the calculator has none.
    const without = await allFrames(await start({ input: 'calculate 23*47' }));
    expect(without.filter(({ data }) => data.type === 'tool_call')).toEqual([]);
  });

  test('keeps the ids of several calls apart', async () => {
    verifies('003:runs:tool-result-same-id', '003:runs:tool-result-bare-output');
    const input = [1, 2, 3].map((a) => `use calculator {"a":${a},"b":10,"op":"*"}`).join('\n');
    const frames = await allFrames(await start({ input, tools: calculator }));
    const made = frames.filter(({ data }) => data.type === 'tool_call');
    expect(new Set(made.map(({ data }) => data['id'])).size).toBe(3);
    for (const call of made) {
      const results = frames.filter(
        ({ data }) => data.type === 'tool_result' && data['id'] === call.data['id'],
      );
      expect(results).toHaveLength(1);
      expect(results[0]?.data['output']).toBe((call.data['input'] as { a: number }).a * 10);
      expect(results[0]?.id).toBeGreaterThan(call.id ?? Number.POSITIVE_INFINITY);
    }
  });

  test('sends the words of the answer as tokens, in their order', async () => {
    verifies('003:runs:frame-token', '003:runs:tokens-in-order');
    const words = ['23', ' *', ' 47', ' is', ' "1081"', '\n', '  and', ' 😀', ' ends.'];
    scripted.play(says(...words));
    const frames = (await allFrames(await ask({ input: 'Hello' }))).map(({ data }) => data);
    expect(frames[0]).toMatchObject({ type: 'run' });
    expect(frames.slice(1, -1)).toEqual(words.map((text) => ({ type: 'token', text })));
    expect(frames.at(-1)).toMatchObject({ type: 'done', output: words.join('') });
  });

  test('sends all that the model says, also before it calls a tool', async () => {
    verifies('003:runs:tokens-in-order', '003:runs:done-output');
    const input = 'use nothing {}\nuse calculator {"a":23,"b":47,"op":"*"}';
    const frames = await allFrames(await start({ input, tools: calculator }));
    const called = frames.findIndex(({ data }) => data.type === 'tool_call');
    const answered = frames.findIndex(({ data }) => data.type === 'tool_result');
    expect(joined(frames.slice(0, called))).toBe('I have no tool named nothing.');
    expect(joined(frames.slice(called, answered))).toBe('');
    // What it says last is the answer.
    expect(joined(frames.slice(answered))).toBe('23 * 47 is 1081.');
    expect(frames.at(-1)?.data['output']).toBe('23 * 47 is 1081.');
  });

  test('ends with one done: the final answer and the usage', async () => {
    verifies(
      '003:runs:frame-done',
      '003:runs:done-output',
      '003:runs:done-usage',
      '003:runs:done-last',
    );
    scripted.play(
      calls({ id: 'call_1', name: 'calculator', input: { a: 23, b: 47, op: '*' } }),
      says('It', ' is', ' 1081.'),
    );
    const frames = await allFrames(await ask({ input: 'What is 23 * 47?', tools: calculator }));
    const done = frames.filter(({ data }) => data.type === 'done');
    expect(done).toHaveLength(1);
    expect(frames.at(-1)).toBe(done[0]);
    // Both turns are in the usage; the provider counts 7 and 3 for each.
    expect(done[0]?.data).toEqual({
      type: 'done',
      status: 'completed',
      output: 'It is 1081.',
      usage: { input_tokens: 14, output_tokens: 6 },
      agent: 'assistant',
      finishReason: 'stop',
    });
  });

  test('sends each token when the model has produced it, not at the end', async () => {
    verifies('003:runs:tokens-streamed');
    const words = ['one', ' two', ' three'];
    const arrivals = words.map(() => Promise.withResolvers<void>());
    scripted.play(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const [index, word] of words.entries()) {
        response.write(textFrame(word));
        // The model goes on only after the client has read this word.
        await arrivals[index]?.promise;
      }
      response.end(`${finishFrame()}${usageFrame(1, 3)}${doneFrame}`);
    });
    const reader = new FrameReader(await ask({ input: 'Count' }));
    for (const [index, word] of words.entries()) {
      expect((await reader.until('token')).data['text']).toBe(word);
      arrivals[index]?.resolve();
    }
    expect((await reader.rest()).at(-1)?.data).toMatchObject({ output: 'one two three' });
  });
});

describe('the model of a run', () => {
  test('is the one that the request names', async () => {
    verifies('003:runs:model');
    scripted.play(says('I am the provider.'));
    const named = await allFrames(await ask({ input: 'say 2' }));
    expect(scripted.asked().map(({ model }) => model)).toEqual(['gpt-4o-mini']);
    expect(joined(named)).toBe('I am the provider.');

    scripted.play(says('I am the provider.'));
    const demo = await allFrames(await ask({ model: 'demo', input: 'say 2' }));
    expect(scripted.asked()).toEqual([]);
    expect(joined(demo)).toBe('1 2');
  });

  test('reads the input as the user’s message, and system as its system prompt', async () => {
    verifies('003:runs:system', '003:runs:input');
    const system = 'You are a helpful assistant.';
    const input = 'What is 23 * 47?';
    scripted.play(says('1081'));
    await allFrames(await ask({ system, input }));
    expect(scripted.asked().map(({ messages }) => messages)).toEqual([
      [
        { role: 'system', content: system },
        { role: 'user', content: input },
      ],
    ]);

    scripted.play(says('1081'));
    await allFrames(await ask({ input }));
    expect(scripted.asked().map(({ messages }) => messages)).toEqual([
      [{ role: 'user', content: input }],
    ]);
  });
});
