/** `/chat`: a run that lives with its connection, and whose relays are answered while it is open. */
import * as core from '@relay/core';
import {
  type chatBodySchema,
  type chatRelayBodySchema,
  dialects,
  RelayError,
} from '@relay/protocol';
import type { z } from 'zod';
import { hangUp } from '../../streaming/chat-sessions.ts';
import type { Call, Handler } from './handler.ts';
import {
  chooseAgent,
  chooseModel,
  choosePermissions,
  chooseTools,
  openingFor,
  startAndFollow,
} from './start.ts';
import { streamOut } from '../../streaming/stream-run.ts';

export const startChat: Handler = async (call) => {
  const sessionId = call.context.control.engine.ids.next();
  const { run, batches } = await openChat(call, sessionId);
  await streamOut(call, {
    dialect: dialects.chat,
    run,
    batches,
    greeting: { type: 'connected', sessionId },
  });
  const { tenantId } = call.caller;
  await hangUp(call.context, { tenantId, id: sessionId, runId: run.id });
};

async function openChat(call: Call, sessionId: string) {
  const body = call.body as z.infer<typeof chatBodySchema>;
  const { context, conversationId } = body;
  const agent = chooseAgent(call, undefined);
  const model = await chooseModel(
    call,
    body.model ?? agent.model,
    'model and messages are required',
  );
  return startAndFollow(call, {
    surface: 'chat',
    ...openingFor(call, agent, body),
    model,
    messages: body.messages,
    prompt: 'whole',
    tools: chooseTools(call, body.tools ?? agent.tools),
    permissions: choosePermissions(call, body.permissions),
    connectionId: sessionId,
    ...(context === undefined ? {} : { context }),
    ...(conversationId === undefined ? {} : { conversationId }),
  });
}

export const answerChatRelay: Handler = async (call) => {
  const { relayId } = call.params as { relayId: string };
  const { sessionId, response } = call.body as z.infer<typeof chatRelayBodySchema>;
  const { control } = call.context;
  const { tenantId } = call.caller;
  const store = call.context.store.tenant(tenantId);
  const session = await store.findConnection(sessionId);
  if (session === undefined) throw new RelayError('session_not_found', 'Session not found');
  if (!(await isOwn(call, session.runId))) {
    throw new RelayError('session_not_found', 'Session not found');
  }
  const relay = await store.readApproval(relayId);
  if (relay === undefined || relay.runId !== session.runId || relay.status !== 'pending') {
    throw new RelayError('relay_not_found', 'Relay not found');
  }
  const given = response.approved && response.input !== undefined ? { input: response.input } : {};
  const outcome = await core.answerApproval(control, tenantId, {
    approvalId: relayId,
    ...given,
    approved: response.approved,
    always: response.approved && response.always === true,
    reason: response.approved ? null : (response.reason ?? null),
    by: call.caller.as,
  });
  if (outcome.kind !== 'decided') throw new RelayError('relay_not_found', 'Relay not found');
  return { success: true };
};

/** Whoever shows no key answers for chats that were begun without one. */
async function isOwn({ caller, context }: Call, runId: string): Promise<boolean> {
  if (caller.as.type === 'key') return true;
  const run = await context.store.tenant(caller.tenantId).readRunHead(runId);
  return run?.keyId === null;
}
