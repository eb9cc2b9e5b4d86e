/** Approvals in the turns of native sessions, and grants for the session. */
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { expect, test } from 'vitest';
import { createStreamingModel, decide, openFixture, untilAsked } from './fixture.ts';
import { deliver, openSession, storeOf, untilIdle, untilSession } from './sessions.ts';

const answer = [text('Done.'), finish()];
const call = (id: string) => [toolCall(id, 'look', { at: 'this' }), finish()];

async function fixture(...calls: string[]) {
  const { boot } = await openFixture();
  const tool = createRecordingTool({ name: 'look' });
  const model = createStreamingModel(...calls.flatMap((id) => [() => [call(id)], () => [answer]]));
  const kernel = await boot({ model, tools: [tool], sessions: true });
  const asked = async (id: string) => {
    await deliver(kernel, id, { text: 'Look' });
    const { activeRunId } = await untilSession(kernel, id, ({ status }) => status === 'waiting');
    const [approval] = await untilAsked(kernel, activeRunId ?? '');
    return { approvalId: approval?.approvalId ?? '', runId: activeRunId ?? '' };
  };
  return { kernel, tool, asked };
}

test('an approval in the turn of a session carries its run, session and conversation', async () => {
  const { kernel, asked } = await fixture('call_1');
  const { id, conversationId } = await openSession(kernel);
  const { approvalId, runId } = await asked(id);
  const shown = { id: approvalId, runId, sessionId: id, conversationId };
  expect(await storeOf(kernel).readApproval(approvalId)).toMatchObject(shown);
  const listed = (await storeOf(kernel).listApprovals({ sessionId: id }, { limit: 9 })).items;
  expect(listed).toMatchObject([shown]);
  await decide(kernel, approvalId, { approved: false });
  await untilIdle(kernel, id);
});

test('a grant for a session allows the calls of its later turns, and of no other session', async () => {
  const { kernel, tool, asked } = await fixture('call_1', 'call_2', 'call_3');
  const { id } = await openSession(kernel);
  const { approvalId } = await asked(id);
  await decide(kernel, approvalId, { always: true, terms: { scope: 'session' } });
  await untilIdle(kernel, id);
  await deliver(kernel, id, { text: 'Again' });
  await untilSession(kernel, id, ({ status }) => status === 'idle' && tool.executions.length === 2);
  const other = await openSession(kernel, { handle: 'bob' });
  const { approvalId: second } = await asked(other.id);
  expect(tool.executions).toHaveLength(2);
  await decide(kernel, second, { approved: false });
  await untilIdle(kernel, other.id);
});
