import type { Message } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { type ModelRequest, ProviderFailure } from '../../src/ports/index.ts';
import { createScriptedModel, finish, type ScriptedModel, text, toolCall } from './index.ts';

const user: Message = { role: 'user', content: 'Hi' };
const said: Message = { role: 'assistant', content: 'Hello' };
const result: Message = { role: 'tool', tool_call_id: 'call_1', content: '4' };

function request(...messages: readonly Message[]): ModelRequest {
  return { model: 'scripted', messages, tools: [] };
}

async function play(model: ScriptedModel, ...messages: readonly Message[]) {
  const batches = [];
  const { signal } = new AbortController();
  for await (const batch of model.stream(request(...messages), signal)) batches.push(batch);
  return batches;
}

describe('a scripted model', () => {
  const first = [text('Let me see. '), toolCall('call_1', 'add', { a: 1 }), finish()];
  const second = [text('Four.'), finish({ inputTokens: 9, outputTokens: 1 })];

  it('plays a turn, each event in a batch of its own', async () => {
    expect(await play(createScriptedModel([first]), user)).toEqual([
      [{ type: 'text', text: 'Let me see. ' }],
      [{ type: 'tool-call', id: 'call_1', name: 'add', arguments: '{"a":1}' }],
      [{ type: 'finish', reason: 'stop', usage: { inputTokens: 3, outputTokens: 2 } }],
    ]);
  });

  it('knows its turn by the answers since the last user message', async () => {
    const model = createScriptedModel([first, second]);
    expect((await play(model, user, said, result)).flat()).toEqual(second);
    expect((await play(model, user)).flat()).toEqual(first);
    expect((await play(model, user, said, said, user)).flat()).toEqual(first);
    expect((await play(model, said, user, said)).flat()).toEqual(second);
  });

  it('continues in another process', async () => {
    await play(createScriptedModel([first, second]), user);
    expect((await play(createScriptedModel([first, second]), user, said, result)).flat()).toEqual(
      second,
    );
  });

  it('plays what a function makes of the request', async () => {
    const model = createScriptedModel([
      async ({ messages }) => [text(`${messages.length} messages`), finish()],
    ]);
    expect((await play(model, said, user))[0]).toEqual([text('2 messages')]);
  });

  it('fails where the script says so, however often it is asked', async () => {
    const failure = new ProviderFailure('Busy', { retryable: true });
    const model = createScriptedModel([failure]);
    await expect(play(model, user)).rejects.toBe(failure);
    await expect(play(model, user)).rejects.toBe(failure);
    expect(model.requests).toHaveLength(2);
  });

  it('fails after its last turn', async () => {
    await expect(play(createScriptedModel([first]), user, said)).rejects.toMatchObject({
      message: 'The script has no turn 2',
      retryable: false,
    });
  });

  it('records the requests that it got', async () => {
    const model = createScriptedModel([first, second]);
    await play(model, user);
    await play(model, user, said);
    expect(model.requests).toEqual([request(user), request(user, said)]);
  });

  it('stops when it is aborted', async () => {
    const controller = new AbortController();
    const seen: unknown[] = [];
    const read = async () => {
      const stream = createScriptedModel([first]).stream(request(user), controller.signal);
      for await (const batch of stream) {
        seen.push(...batch);
        controller.abort();
      }
    };
    await expect(read()).rejects.toThrow('The model call was aborted');
    expect(seen).toEqual([first[0]]);
    await expect(read()).rejects.toThrow('The model call was aborted');
    expect(seen).toHaveLength(1);
  });

  it('can call a tool with arguments that are no JSON', () => {
    expect(toolCall('c', 'add', '{oops')).toMatchObject({ arguments: '{oops' });
    expect(toolCall('c', 'add')).toMatchObject({ arguments: '{}' });
  });
});
