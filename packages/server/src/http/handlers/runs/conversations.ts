/** `/v1/conversations`: list and read conversations. All of the tenant may be read, whoever owns them. */
import type { ConversationRecord } from '@relay/core';
import { defined } from '@relay/protocol';
import { notFound } from '../../errors.ts';
import { iso, readListed } from '../../views/pagination.ts';
import { type Handler, storeOf } from '../handler.ts';

export const listConversations: Handler<'listConversations'> = async (call) => {
  const filter = defined({ query: call.query.q });
  const { items, ...rest } = await readListed(call.query, (page) =>
    storeOf(call).listConversations(filter, page),
  );
  return { conversations: items.map(presentConversation), ...rest };
};

export const getConversation: Handler<'getConversation'> = async (call) => {
  const conversation = await storeOf(call).readConversation(call.params.id);
  if (conversation === undefined) throw notFound('conversation');
  return presentConversation(conversation);
};

function presentConversation(conversation: ConversationRecord) {
  const { title, sessionId, createdAt, updatedAt, ...rest } = conversation;
  return {
    ...rest,
    title: title ?? undefined,
    sessionId: sessionId ?? undefined,
    createdAt: iso(createdAt),
    updatedAt: iso(updatedAt),
  };
}
