/** `/chat`: a run that ends with its connection, and whose relays are answered while it is open. */
import type { DecisionInput } from '@relay/core';
import { defined, dialects, RelayError, type RelayResponse } from '@relay/protocol';
import { endChatSession } from '../../../streaming/chat-sessions.ts';
import { streamRun } from '../../../streaming/stream-run.ts';
import { decide } from '../governance/approvals.ts';
import { type ApiRequest, type Handler, storeOf } from '../handler.ts';
import { buildSpec, chooseTools, startAndFollow, toolsOfAgent } from './start.ts';

export const startChat: Handler<'startChat'> = async (call) => {
  const sessionId = call.context.control.engine.ids.next();
  const { run, batches } = await startAndFollow(
    call,
    () =>
      buildSpec(call, {
        ...call.body,
        surface: 'chat',
        prompt: 'complete',
        tools: (agent) => {
          const { tools } = call.body;
          return {
            tools: tools === undefined ? toolsOfAgent(call, agent.tools) : chooseTools(call, tools),
          };
        },
        modelRequired: 'model and messages are required',
      }),
    sessionId,
  );
  const { context, caller } = call;
  const session = { tenantId: caller.tenantId, id: sessionId, runId: run.runId };
  const { conversationId } = run;
  const firstFrame = { type: 'connected', sessionId, conversationId } as const;
  void streamRun(call, { dialect: dialects.chat, run, batches, firstFrame }).then(() =>
    endChatSession(context, session),
  );
};

export const answerChatRelay: Handler<'answerChatRelay'> = async (call) => {
  const { relayId } = call.params;
  const { sessionId, response } = call.body;
  const store = storeOf(call);
  const session = await store.findConnection(sessionId);
  if (session === undefined || !(await mayAnswer(call, session.runId))) {
    throw new RelayError('session_not_found', 'Session not found');
  }
  const relay = await store.readApproval(relayId);
  if (relay === undefined || relay.runId !== session.runId || relay.status !== 'pending') {
    throw new RelayError('relay_not_found', 'Relay not found');
  }
  const outcome = await decide(call, { approvalId: relayId, ...answerOf(response) });
  if (outcome.kind !== 'decided' && outcome.kind !== 'voted')
    throw new RelayError('relay_not_found', 'Relay not found');
  return { success: true };
};

function answerOf(response: RelayResponse): Omit<DecisionInput, 'approvalId' | 'by'> {
  if ('outcome' in response) {
    const { outcome, output, reason = null } = response;
    return { outcome, always: false, reason, ...defined({ output }) };
  }
  if (!response.approved) {
    return { approved: false, always: false, reason: response.reason ?? null };
  }
  const { approved, always = false, input, output, digest } = response;
  return { approved, always, reason: null, ...defined({ input, output, digest }) };
}

/** A caller without a key answers only in chats that were started without a key. */
async function mayAnswer(call: ApiRequest, runId: string): Promise<boolean> {
  if (call.caller.actor.type === 'key') return true;
  return (await storeOf(call).readRunHead(runId))?.keyId === null;
}
