/** 000 over HTTP: the relay event, letter by letter, and what "always" means. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Chat } from './chat-client.ts';
import { calls, says, type Scripted, startScripted } from './scripted.ts';
import { verifies } from './verifies.ts';

let scripted: Scripted;
beforeAll(async () => {
  scripted = await startScripted();
});
afterAll(() => scripted.dispose());

const uuidV7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const model = 'gpt-4o-mini';

function bash(id: string, command: string) {
  return { id, name: 'bash', input: { command } };
}

function ran(): string[] {
  return scripted.server.notes.map(({ text }) => text);
}

/** The stream as text, up to and including the first frame that has this line. */
async function readUntil(response: Response, line: string): Promise<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!new RegExp(`^${line}\n[^]*?\n\n`, 'm').test(text)) {
    const { done = true, value } = (await reader?.read()) ?? {};
    if (done) throw new Error(`The stream ended before ${line}:\n${text}`);
    text += value;
  }
  await reader?.cancel();
  return text;
}

describe('the relay event', () => {
  test('is a frame named relay whose data is JSON', async () => {
    verifies('000:event:sse-name');
    scripted.play(calls(bash('call_abc123', 'rm -rf ./temp')));
    const response = await scripted.server.request('/chat', {
      keyless: true,
      body: { model, messages: [{ role: 'user', content: 'Clean up' }] },
    });
    const text = await readUntil(response, 'event: relay');
    const frame = text.split('\n\n').find((each) => each.includes('event: relay')) ?? '';
    const lines = frame.split('\n').filter((each) => !each.startsWith('id: '));
    expect(lines).toHaveLength(2);
    expect(lines[0]).toBe('event: relay');
    const data: unknown = JSON.parse(lines[1]?.replace(/^data: /, '') ?? '');
    expect(data).toMatchObject({ type: 'relay' });
  });

  test('has the fields of the example, and no others', async () => {
    verifies(
      '000:event:type',
      '000:event:kind',
      '000:event:run-id',
      '000:event:id',
      '000:event:agent-id',
      '000:event:tool-call-id',
      '000:event:tool',
      '000:event:params',
    );
    scripted.play(calls(bash('call_abc123', 'rm -rf ./temp')), says('Done.'));
    const chat = await Chat.open(scripted.server, 'Clean up', { model });
    const { frame, id } = await chat.relay();
    const agentId = chat.of('harness_start')[0]?.data['agentId'];
    expect(frame.event).toBe('relay');
    expect(frame.data).toEqual({
      type: 'relay',
      kind: 'permission',
      runId: chat.runId,
      id: expect.stringMatching(uuidV7),
      agentId,
      toolCallId: 'call_abc123',
      tool: 'bash',
      params: { command: 'rm -rf ./temp' },
    });
    expect((await chat.answer(id, { approved: false })).status).toBe(200);
    await chat.end();
  });

  test('has ids that are UUIDs of version 7, as the session has', async () => {
    verifies('000:examples:uuid-v7-ids');
    scripted.play(calls(bash('call_1', 'ls')), says('Done.'));
    const chat = await Chat.open(scripted.server, 'List', { model });
    const { data } = (await chat.relay()).frame;
    const ids = [chat.sessionId, data['runId'], data['id'], data['agentId']];
    for (const id of ids) expect(id).toMatch(uuidV7);
    expect(new Set(ids).size).toBe(4);
    await chat.hangUp();
  });
});

describe('an approval', () => {
  test('without always counts for one call: an equal one is asked about again', async () => {
    verifies('000:approve:only-this-call');
    scripted.play(
      calls(bash('call_1', 'make once')),
      calls(bash('call_2', 'make once')),
      says('Done.'),
    );
    const chat = await Chat.open(scripted.server, 'Begin', { model });
    await chat.answer((await chat.relay()).id, { approved: true });
    const again = await chat.relay();
    expect(again.frame.data).toMatchObject({
      toolCallId: 'call_2',
      params: { command: 'make once' },
    });
    await chat.answer(again.id, { approved: false });
    await chat.end();
    expect(ran().filter((text) => text === 'make once')).toHaveLength(1);
  });

  test('for always counts for equal calls of that tool, and for no others', async () => {
    verifies('000:notes:always-auto-approves', '000:notes:always-other-params-ask');
    const conversationId = '01963a5c-7894-7abc-8ef0-123456789abc';
    scripted.play(
      calls(bash('call_1', 'make always')),
      calls(bash('call_2', 'make always')),
      calls(bash('call_3', 'make always again')),
      says('Done.'),
    );
    const chat = await Chat.open(scripted.server, 'Begin', { model, conversationId });
    const first = await chat.relay();
    await chat.answer(first.id, { approved: true, always: true });
    const other = await chat.relay();
    expect(other.frame.data).toMatchObject({
      toolCallId: 'call_3',
      params: { command: 'make always again' },
    });
    await chat.answer(other.id, { approved: false });
    await chat.end();
    expect(chat.of('relay')).toHaveLength(2);
    expect(ran().filter((text) => text.startsWith('make always'))).toEqual([
      'make always',
      'make always',
    ]);

    // It also holds when the same conversation goes on over another connection.
    scripted.play(calls(bash('call_4', 'make always')), says('Done.'));
    const later = await Chat.open(scripted.server, 'Once more', { model, conversationId });
    await later.end();
    expect(later.of('relay')).toEqual([]);
    expect(ran().filter((text) => text === 'make always')).toHaveLength(3);
  });
});
