/** `/v1/memories`: memories of runs and callers. */
import { z } from 'zod';
import { foundBy, memorySources, memoryTextSchema, namespaceSchema } from '../schemas/memories.ts';
import { idSchema, timeSchema } from '../schemas/values.ts';
import {
  listErrors,
  idParam,
  listOf,
  keyErrors,
  pageQuery,
  bodyErrors,
  type Route,
} from './route.ts';

const tenYears = 10 * 365 * 24 * 60 * 60;

export const memoriesQuerySchema = z.strictObject({
  ...pageQuery,
  namespace: namespaceSchema.optional().describe('Default: all namespaces'),
  q: z
    .string()
    .min(1)
    .max(1_000)
    .optional()
    .describe('Search the namespace; the best matches come first, on one page'),
});

export const clearMemoriesQuerySchema = z.strictObject({
  namespace: namespaceSchema.describe('The namespace whose memories are deleted'),
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
  /** The fraction of the query that matched, from 0 to 1; set in a search only. */
  score: z.number().optional(),
  /** The semantic similarity, up to 1, if it was found that way. */
  similarity: z.number().optional(),
  foundBy: z.enum(foundBy).optional(),
});

export const memoryRoutes = {
  listMemories: {
    method: 'GET',
    path: '/v1/memories',
    summary: 'List memories, newest first, or search them, best match first',
    scopes: ['read'],
    query: memoriesQuerySchema,
    output: listOf('memories', memorySchema),
    errors: listErrors,
  },
  addMemory: {
    method: 'POST',
    path: '/v1/memories',
    summary: 'Add a memory to a namespace',
    scopes: ['runs'],
    body: memoryBodySchema,
    requiredFields: { fields: ['namespace', 'text'] },
    status: 201,
    output: memorySchema,
    errors: [...keyErrors, ...bodyErrors],
  },
  deleteMemory: {
    method: 'DELETE',
    path: '/v1/memories/:id',
    summary: 'Delete a memory',
    scopes: ['runs'],
    params: idParam,
    responseType: 'none',
    errors: [...keyErrors, 'not_found'],
  },
  clearMemories: {
    method: 'DELETE',
    path: '/v1/memories',
    summary: 'Delete all memories of a namespace',
    scopes: ['runs'],
    query: clearMemoriesQuerySchema,
    responseType: 'none',
    errors: [...keyErrors, 'invalid_request'],
  },
} as const satisfies Record<string, Route>;
