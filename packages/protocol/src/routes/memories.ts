/** `/v1/memories`: what runs and callers have left to be recalled. */
import { z } from 'zod';
import { idSchema } from '../schemas/ids.ts';
import { foundBy, memorySources, memoryTextSchema, namespaceSchema } from '../schemas/memories.ts';
import {
  aList,
  idParam,
  listOf,
  needsKey,
  pageQuery,
  readsBody,
  type Route,
  timeSchema,
} from './route.ts';

const tenYears = 10 * 365 * 24 * 60 * 60;

export const memoriesQuerySchema = z.strictObject({
  ...pageQuery,
  namespace: namespaceSchema.optional().describe('Left out: the memories of all namespaces'),
  q: z
    .string()
    .min(1)
    .max(1_000)
    .optional()
    .describe('Words to look for in the namespace: the best come first, on one page'),
});

export const clearMemoriesQuerySchema = z.strictObject({
  namespace: namespaceSchema.describe('All of its memories are deleted'),
});

export const memoryBodySchema = z.strictObject({
  namespace: namespaceSchema,
  text: memoryTextSchema,
  ttlSeconds: z.int().min(1).max(tenYears).optional(),
});

export const memorySchema = z.object({
  id: idSchema,
  namespace: z.string(),
  text: z.string(),
  runId: idSchema.optional(),
  source: z.enum(memorySources),
  createdAt: timeSchema,
  expiresAt: timeSchema.optional(),
  /** How much of what was looked for it speaks of, from 0 to 1; there only in a search. */
  score: z.number().optional(),
  /** How alike its meaning is, up to 1, where it was found by that. */
  similarity: z.number().optional(),
  foundBy: z.enum(foundBy).optional(),
});

export const memoryRoutes = {
  listMemories: {
    method: 'GET',
    path: '/v1/memories',
    summary: 'List memories, newest first, or search them, best first',
    auth: 'key',
    scopes: ['runs'],
    query: memoriesQuerySchema,
    answer: 'json',
    output: listOf('memories', memorySchema),
    errors: aList,
  },
  addMemory: {
    method: 'POST',
    path: '/v1/memories',
    summary: 'Add a memory to a namespace',
    auth: 'key',
    scopes: ['runs'],
    body: memoryBodySchema,
    requires: { fields: ['namespace', 'text'], message: 'namespace and text are required' },
    answer: 'json',
    status: 201,
    output: memorySchema,
    errors: [...needsKey, ...readsBody],
  },
  deleteMemory: {
    method: 'DELETE',
    path: '/v1/memories/:id',
    summary: 'Delete a memory',
    auth: 'key',
    scopes: ['runs'],
    params: idParam,
    answer: 'none',
    errors: [...needsKey, 'not_found'],
  },
  clearMemories: {
    method: 'DELETE',
    path: '/v1/memories',
    summary: 'Delete all memories of a namespace',
    auth: 'key',
    scopes: ['runs'],
    query: clearMemoriesQuerySchema,
    answer: 'none',
    errors: [...needsKey, 'invalid_request'],
  },
} as const satisfies Record<string, Route>;
