/** What a session can receive: every kind of message, and the content that it declares. */
import { type MessageDraft, sendMessage } from '@relay/core';
import { finish, text } from '@relay/core/testing';
import { describe, expect, test } from 'vitest';
import { createStreamingModel, lastOf, openFixture } from '../loop/fixture.ts';
import { openSession, storeOf, untilIdle } from '../loop/sessions.ts';
import { person } from '../support/kernel.ts';
import { verifies } from './verifies.ts';

async function setUp() {
  const { boot } = await openFixture();
  const model = createStreamingModel(() => [[text('Read.'), finish()]]);
  const kernel = await boot({ model, sessions: true });
  const { id } = await openSession(kernel);
  const from = { type: 'key', id: person.id, name: person.name } as const;
  const author = { tenantId: kernel.tenantId, from, by: person };
  /** Sends, and gives the message as the model has read it. */
  const read = async (draft: MessageDraft) => {
    const { message } = await sendMessage(kernel.control, author, draft);
    await untilIdle(kernel, id);
    const content = lastOf(model.requests).messages.at(-1)?.content;
    return { id: message.id, content };
  };
  return { kernel, id, read };
}

describe('a session that can receive', () => {
  test('receives messages of its channels, direct and group messages, and replies in threads', async () => {
    verifies(
      '004:messaging:channel',
      '004:messaging:direct',
      '004:messaging:group',
      '004:messaging:thread',
    );
    const { kernel, id, read } = await setUp();
    await openSession(kernel, { handle: 'bob' });
    const { channels } = storeOf(kernel);
    await channels.put({ name: 'team', createdAt: 0, createdBy: person });
    await channels.addMember({ channel: 'team', sessionId: id, addedAt: 0 });
    expect(await read({ to: ['#team'], text: 'to all' })).toMatchObject({ content: 'to all' });
    const direct = await read({ to: ['@ada'], text: 'to you' });
    expect(direct.content).toBe('to you');
    const toGroup = { to: ['@ada', '@bob'], text: 'to both' };
    expect(await read(toGroup)).toMatchObject({ content: 'to both' });
    const inThread = { replyTo: direct.id, text: 'in the thread' };
    expect(await read(inThread)).toMatchObject({ content: 'in the thread' });
  });

  test('consumes attachments of the types that it declares', async () => {
    verifies('004:messaging:content-text', '004:messaging:content-image');
    const { read } = await setUp();
    const attachments = [
      { type: 'text', text: 'a note' },
      { type: 'image', url: 'https://images.example/a.png' },
    ] as const;
    const { content } = await read({ to: ['@ada'], text: 'Look', attachments });
    expect(content).toEqual([{ type: 'text', text: 'Look' }, ...attachments]);
  });
});
