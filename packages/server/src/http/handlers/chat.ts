/** `/chat`: a run that lives with its connection, and whose relays are answered while it is open. */
import * as core from '@relay/core';
import { defined, dialects, RelayError } from '@relay/protocol';
import { hangUp } from '../../streaming/chat-sessions.ts';
import type { Call, Handler, RouteCall } from './handler.ts';
import {
  chooseAgent,
  chooseModel,
  choosePermissions,
  chooseTools,
  openingFor,
  startAndFollow,
} from './start.ts';
import { streamOut } from '../../streaming/stream-run.ts';

export const startChat: Handler<'startChat'> = async (call) => {
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

async function openChat(call: RouteCall<'startChat'>, sessionId: string) {
  const body = call.body;
  const agent = chooseAgent(call, undefined);
  const model = await chooseModel(
    call,
    body.model ?? agent.model,
    'model and messages are required',
  );
  const spec: core.RunSpec = {
    surface: 'chat',
    ...openingFor(call, agent, body),
    model,
    messages: body.messages,
    prompt: 'whole',
    tools: chooseTools(call, body.tools ?? agent.tools),
    permissions: choosePermissions(call, body.permissions),
    context: body.context,
    conversationId: body.conversationId,
  };
  return startAndFollow(call, spec, sessionId);
}

export const answerChatRelay: Handler<'answerChatRelay'> = async (call) => {
  const { relayId } = call.params;
  const { sessionId, response } = call.body;
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
  const input = response.approved ? response.input : undefined;
  const outcome = await core.answerApproval(control, tenantId, {
    approvalId: relayId,
    ...defined({ input }),
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
