/** `/chat`: a run that lives with its connection, and whose relays are answered while it is open. */
import * as core from '@relay/core';
import {
  type chatBodySchema,
  type chatRelayBodySchema,
  dialects,
  RelayError,
} from '@relay/protocol';
import type { z } from 'zod';
import { closedSignal } from '../event-stream.ts';
import { followRun } from '../subscribe.ts';
import type { Call, Handler } from './handler.ts';
import {
  chooseModel,
  choosePermissions,
  chooseTools,
  correlationId,
  defaultAgent,
  defaultMaxIterations,
} from './start.ts';
import { streamOut } from './stream.ts';

export const startChat: Handler = async (call) => {
  const body = call.body as z.infer<typeof chatBodySchema>;
  const { context, conversationId } = body;
  const model = chooseModel(call, body.model, 'model and messages are required');
  const { control } = call.context;
  const sessionId = control.engine.ids.next();
  const run = await core.startRun(control, {
    tenantId: call.caller.tenantId,
    surface: 'chat',
    agent: defaultAgent,
    model,
    messages: body.messages,
    prompt: 'whole',
    tools: chooseTools(call, body.tools),
    permissions: choosePermissions(call, body.permissions),
    maxIterations: body.maxIterations ?? defaultMaxIterations,
    correlationId: correlationId(call),
    connectionId: sessionId,
    ...(context === undefined ? {} : { context }),
    ...(conversationId === undefined ? {} : { conversationId }),
  });
  const store = call.context.store.tenant(call.caller.tenantId);
  const batches = followRun(
    { store, hub: call.context.hub, runId: run.id },
    { after: 0, follow: true, signal: closedSignal(call.reply.raw) },
  );
  await streamOut(call, {
    dialect: dialects.chat,
    run,
    batches,
    greeting: { type: 'connected', sessionId },
  });
  await hangUp(call, { runId: run.id, sessionId });
};

/** The connection is gone: so are its session and, unless it may go on alone, its run. */
async function hangUp(call: Call, chat: { runId: string; sessionId: string }): Promise<void> {
  const { control, config, store, isStopping } = call.context;
  const { tenantId } = call.caller;
  // A server that shuts down leaves the session to its successor, which finds it orphaned.
  if (isStopping()) return;
  await store.tenant(tenantId).closeConnection(chat.sessionId);
  if (config.disconnect === 'detach') return;
  await core.cancelRun(control, { tenantId, runId: chat.runId }, disconnected);
}

export const disconnected = {
  reason: 'The chat connection was closed',
  by: { type: 'system', id: 'disconnect', name: 'disconnect' },
} as const;

export const answerChatRelay: Handler = async (call) => {
  const { relayId } = call.params as { relayId: string };
  const { sessionId, response } = call.body as z.infer<typeof chatRelayBodySchema>;
  const { control } = call.context;
  const { tenantId } = call.caller;
  const store = call.context.store.tenant(tenantId);
  const session = await store.findConnection(sessionId);
  if (session === undefined) throw new RelayError('session_not_found', 'Session not found');
  const relay = await store.readRelay(relayId);
  if (relay === undefined || relay.runId !== session.runId || relay.status !== 'pending') {
    throw new RelayError('relay_not_found', 'Relay not found');
  }
  const outcome = await core.answerRelay(control, tenantId, {
    relayId,
    approved: response.approved,
    always: response.approved && response.always === true,
    reason: response.approved ? null : (response.reason ?? null),
    by: call.caller.as,
  });
  if (outcome.kind !== 'decided') throw new RelayError('relay_not_found', 'Relay not found');
  return { success: true };
};
