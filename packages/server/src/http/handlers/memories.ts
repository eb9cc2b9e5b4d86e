/** `/v1/memories`: list, search, add, delete and clear. */
import { findMemories, type MemoryRecord, type RankedMemory } from '@relay/core';
import { defined, type QueryOf } from '@relay/protocol';
import { type Call, type Handler, storeOf } from './handler.ts';
import { cutPage, pageOf } from '../views/pagination.ts';
import { iso, isoOrNone } from '../views/time.ts';
import { invalidField } from '../errors.ts';

type Query = QueryOf<'listMemories'>;

export const listMemories: Handler<'listMemories'> = async (call) => {
  const query = call.query;
  if (query.q !== undefined) return search(call, query, query.q);
  const { namespace, limit } = query;
  const filter = defined({ now: nowOf(call), namespace });
  const found = await storeOf(call).listMemories(filter, pageOf(query));
  const { items, nextCursor } = cutPage(found, limit, ({ createdAt: at, id }) => ({ at, id }));
  return { memories: items.map(presentMemory), nextCursor };
};

/** What was found has an order of its own: there is one page of it. */
async function search(call: Call, { namespace, cursor, limit }: Query, query: string) {
  if (namespace === undefined) throw invalidField('namespace', 'Is needed to search');
  if (cursor !== undefined) throw invalidField('cursor', 'A search has one page');
  const { engine } = call.context.control;
  const question = { namespace, query, limit, wordFloor: 0 };
  const { memories } = await findMemories(engine, call.caller.tenantId, question);
  return { memories: memories.map(presentFound), nextCursor: null };
}

export const addMemory: Handler<'addMemory'> = async (call) => {
  const { namespace, text, ttlSeconds } = call.body;
  const now = nowOf(call);
  const memory = await storeOf(call).addMemory({
    id: call.context.control.engine.ids.next(),
    namespace,
    text,
    runId: null,
    source: 'api',
    createdAt: now,
    expiresAt: ttlSeconds === undefined ? null : now + ttlSeconds * 1_000,
  });
  call.context.control.engine.embedders?.memoryAdded(call.caller.tenantId);
  return presentMemory(memory);
};

/** One that is gone, or was never there, is as deleted as it can be. */
export const deleteMemory: Handler<'deleteMemory'> = async (call) => {
  await storeOf(call).deleteMemory(call.params.id);
};

/** How many are deleted in one commit. */
const piece = 100;

export const clearMemories: Handler<'clearMemories'> = async (call) => {
  const { namespace } = call.query;
  const store = storeOf(call);
  while ((await store.clearMemories(namespace, piece)) === piece);
};

function nowOf(call: Call): number {
  return call.context.control.engine.clock.now();
}

function presentFound(memory: RankedMemory) {
  const { score, similarity, foundBy } = memory;
  return { ...presentMemory(memory), score, similarity, foundBy };
}

function presentMemory(memory: MemoryRecord) {
  const { id, namespace, text, runId, source, createdAt, expiresAt } = memory;
  return {
    id,
    namespace,
    text,
    runId: runId ?? undefined,
    source,
    createdAt: iso(createdAt),
    expiresAt: isoOrNone(expiresAt),
  };
}
