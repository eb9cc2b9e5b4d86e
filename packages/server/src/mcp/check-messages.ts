/**
 * The tool that reads the inbox of a session. What its result contains is in the model's context, so each
 * message is recorded as consumed once the result was sent completely: concluded, because no program
 * reports it. If the result is not sent, or the server dies before it has recorded it, the message is
 * returned again, marked as redelivered.
 */
import type { CallToolResult } from '@modelcontextprotocol/server';
import type { ServerResponse } from 'node:http';
import { recordReceipt, type SessionRef } from '@relay/core';
import { defined, RelayError, type SessionAttachment } from '@relay/protocol';
import { z } from 'zod';
import { type ApiRequest, storeOf } from '../http/handlers/handler.ts';
import { check } from '../http/validate.ts';
import { pullDeliveries } from '../streaming/deliveries.ts';
import { closedSignal } from '../streaming/response-writer.ts';
import { messageLine, shortMessage, type ToolAnswer } from './answer.ts';

const argumentsSchema = z.strictObject({ waitMs: z.int().min(0).max(30_000).default(0) });
const messagesAtOnce = 10;

export async function checkMessages(call: ApiRequest, args: unknown): Promise<ToolAnswer> {
  const { waitMs } = check(argumentsSchema, args);
  const { tenantId, session } = call.caller;
  if (session === undefined) {
    throw new RelayError('invalid_request', 'An API key receives no messages: use a session token');
  }
  const ref = { tenantId, sessionId: session.id };
  await sending.get(session.id);
  const isRead = (await storeOf(call).sessions.read(session.id))?.stream;
  if (isRead !== null) {
    const text = 'Another reader of this session is connected and gets its messages';
    return { text, data: { messages: [] } };
  }
  const deliveries = await pullDeliveries(call, ref, { waitMs, limit: messagesAtOnce });
  if (deliveries.length === 0) return { text: 'No new messages', data: { messages: [] } };
  const ids = deliveries.map(({ deliveryId }) => deliveryId);
  const recorded = recordWhenSent(call, ref, ids);
  sending.set(session.id, recorded);
  void recorded.then(() => {
    if (sending.get(session.id) === recorded) sending.delete(session.id);
  });
  const messages = deliveries.map(({ message, redelivered }) => ({
    ...shortMessage(message),
    ...defined({ redelivered: redelivered || undefined }),
  }));
  const lines = messages.map(
    (message) => `${message.redelivered === true ? '(redelivered) ' : ''}${messageLine(message)}`,
  );
  const more = deliveries.length === messagesAtOnce ? ['There may be more: check again'] : [];
  return {
    text: [...lines, ...more].join('\n'),
    data: { messages },
    attachments: deliveries.flatMap(({ message }) => message.attachments.map(contentOf)),
  };
}

/** By session: results that are being sent. The next one must not repeat what they contain. */
const sending = new Map<string, Promise<void>>();

/** Resolves when the response is over and recorded. It never rejects. */
async function recordWhenSent(
  { context, request, reply }: ApiRequest,
  ref: SessionRef,
  deliveryIds: readonly string[],
): Promise<void> {
  if (!(await isSent(reply.raw))) return;
  const { engine } = context.control;
  for (const id of deliveryIds) {
    try {
      await recordReceipt(engine, ref, id, { status: 'consumed', fidelity: 'inferred' });
    } catch (error) {
      // Released meanwhile, or the store failed: it was returned, and is returned again if it can be.
      context.log.warn('A receipt was not recorded', { requestId: request.id, ...ref, error });
    }
  }
}

/** Whether all of the response was sent before its connection ended. */
function isSent(response: ServerResponse): Promise<boolean> {
  if (closedSignal(response).aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    response.on('finish', () => resolve(true));
    response.on('close', () => resolve(false));
  });
}

function contentOf(attachment: SessionAttachment): CallToolResult['content'][number] {
  if (attachment.type === 'text') return { type: 'text', text: attachment.text };
  const { data, mediaType = 'image/png', url = '' } = attachment;
  if (data !== undefined) return { type: 'image', data, mimeType: mediaType };
  return { type: 'text', text: `Image: ${url}` };
}
