/** `/v1/memories`: list, search, add, delete and clear. */
import { findMemories, type MemoryRecord, type RankedMemory } from '@relay/core';
import { defined, type QueryOf } from '@relay/protocol';
import { type ApiRequest, type Handler, storeOf } from './handler.ts';
import { byCreation, iso, isoOrUndefined, readPage } from '../views/pagination.ts';
import { invalidField } from '../errors.ts';

type Query = QueryOf<'listMemories'>;

export const listMemories: Handler<'listMemories'> = async (call) => {
  const query = call.query;
  if (query.q !== undefined) return search(call, query, query.q);
  const filter = defined({ now: nowOf(call), namespace: query.namespace });
  const { items, nextCursor } = await readPage(
    query,
    (page) => storeOf(call).listMemories(filter, page),
    byCreation,
  );
  return { memories: items.map(presentMemory), nextCursor };
};

/** Results are sorted by rank and have one page. */
async function search(call: ApiRequest, { namespace, cursor, limit }: Query, query: string) {
  if (namespace === undefined) throw invalidField('namespace', 'Required for a search');
  if (cursor !== undefined)
    throw invalidField('cursor', 'Not allowed with a search, which has one page');
  const { engine } = call.context.control;
  const options = { namespace, query, limit, wordFloor: 0 };
  const { memories } = await findMemories(engine, call.caller.tenantId, options);
  return { memories: memories.map(presentRanked), nextCursor: null };
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

/** Succeeds if the memory does not exist. */
export const deleteMemory: Handler<'deleteMemory'> = async (call) => {
  await storeOf(call).deleteMemory(call.params.id);
};

/** Memories deleted per commit. */
const clearBatch = 100;

export const clearMemories: Handler<'clearMemories'> = async (call) => {
  const { namespace } = call.query;
  const store = storeOf(call);
  while ((await store.clearMemories(namespace, clearBatch)) === clearBatch);
};

function nowOf(call: ApiRequest): number {
  return call.context.control.engine.clock.now();
}

function presentRanked(memory: RankedMemory) {
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
    expiresAt: isoOrUndefined(expiresAt),
  };
}
