/** `/v1/memories`: list, search, add, delete and clear. */
import { findMemories, type MemoryRecord, type RankedMemory } from '@relay/core';
import {
  type clearMemoriesQuerySchema,
  type memoriesQuerySchema,
  type memoryBodySchema,
  RelayError,
} from '@relay/protocol';
import type { z } from 'zod';
import { storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { iso } from '../views/run.ts';

type Query = z.infer<typeof memoriesQuerySchema>;

export const listMemories: Handler = async (call) => {
  const query = call.query as Query;
  if (query.q !== undefined) return search(call, query, query.q);
  const { namespace, limit } = query;
  const filter = { now: nowOf(call), ...(namespace === undefined ? {} : { namespace }) };
  const found = await storeOf(call).listMemories(filter, pageOf(query));
  const { items, nextCursor } = cutPage(found, limit, ({ createdAt: at, id }) => ({ at, id }));
  return { memories: items.map(presentMemory), nextCursor };
};

/** What was found has an order of its own: there is one page of it. */
async function search(call: Call, { namespace, cursor, limit }: Query, query: string) {
  if (namespace === undefined) throw wrong('namespace', 'Is needed to search');
  if (cursor !== undefined) throw wrong('cursor', 'A search has one page');
  const { engine } = call.context.control;
  const question = { namespace, query, limit, wordFloor: 0 };
  const { memories } = await findMemories(engine, call.caller.tenantId, question);
  return { memories: memories.map(presentFound), nextCursor: null };
}

export const addMemory: Handler = async (call) => {
  const { namespace, text, ttlSeconds } = call.body as z.infer<typeof memoryBodySchema>;
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
  call.context.control.engine.embedders?.remembered(call.caller.tenantId);
  call.reply.code(201);
  return presentMemory(memory);
};

/** One that is gone, or was never there, is as deleted as it can be. */
export const deleteMemory: Handler = async (call) => {
  await storeOf(call).deleteMemory((call.params as { id: string }).id);
  call.reply.code(204);
  return undefined;
};

/** How many are deleted in one commit. */
const piece = 100;

export const clearMemories: Handler = async (call) => {
  const { namespace } = call.query as z.infer<typeof clearMemoriesQuerySchema>;
  const store = storeOf(call);
  while ((await store.clearMemories(namespace, piece)) === piece);
  call.reply.code(204);
  return undefined;
};

function nowOf(call: Call): number {
  return call.context.control.engine.clock.now();
}

function wrong(path: string, message: string): RelayError {
  return new RelayError('invalid_request', `${path}: ${message}`, { details: [{ path, message }] });
}

function presentFound(memory: RankedMemory) {
  const { score, similarity, foundBy } = memory;
  const likeness = similarity === undefined ? {} : { similarity };
  return { ...presentMemory(memory), score, ...likeness, foundBy };
}

function presentMemory(memory: MemoryRecord) {
  const { id, namespace, text, runId, source, createdAt, expiresAt } = memory;
  return {
    id,
    namespace,
    text,
    ...(runId === null ? {} : { runId }),
    source,
    createdAt: iso(createdAt),
    ...(expiresAt === null ? {} : { expiresAt: iso(expiresAt) }),
  };
}
