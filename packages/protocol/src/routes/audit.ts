/** `/v1/audit`: who did what, when and why, and whether that is still all of it. */
import { z } from 'zod';
import { auditActions } from '../schemas/audit.ts';
import { idSchema } from '../schemas/ids.ts';
import { deciderSchema } from '../schemas/approvals.ts';
import { aList, listOf, needsKey, pageQuery, type Route, seqSchema, timeSchema } from './route.ts';

const hashSchema = z.string().regex(/^[0-9a-f]{64}$/, 'Must be 64 hexadecimal digits');

export const auditQuerySchema = z.strictObject({
  ...pageQuery,
  since: timeSchema.optional(),
  until: timeSchema.optional(),
  action: z.enum(auditActions).optional(),
  /** The id of a key, a grant, or whoever else did it. */
  actor: z.string().min(1).max(256).optional(),
  runId: idSchema.optional(),
});

const hasBoth = { message: 'seq and hash belong together', path: ['hash'] };

/** A head that was put aside earlier must still be part of the trail. */
export const auditVerifyQuerySchema = z
  .strictObject({ seq: seqSchema.pipe(z.int().min(1)).optional(), hash: hashSchema.optional() })
  .refine(({ seq, hash }) => (seq === undefined) === (hash === undefined), hasBoth);

export const auditEntrySchema = z.object({
  id: idSchema,
  seq: z.int(),
  at: timeSchema,
  who: deciderSchema,
  action: z.enum(auditActions),
  what: z.record(
    z.string(),
    z.union([z.string(), z.number(), z.boolean(), z.null(), z.array(z.string())]),
  ),
  why: z.string().optional(),
  hash: z.string(),
});

const headSchema = z.object({
  seq: z.int(),
  hash: z.string(),
  sealedAt: timeSchema.optional(),
});

const verdictSchema = z.object({
  ok: z.boolean(),
  /** How many entries are what they were. */
  entries: z.int(),
  head: headSchema,
  firstBad: z.object({ seq: z.int(), problem: z.string() }).optional(),
});

export const auditRoutes = {
  listAudit: {
    method: 'GET',
    path: '/v1/audit',
    summary: 'List audit entries, newest first',
    auth: 'key',
    scopes: ['admin'],
    query: auditQuerySchema,
    answer: 'json',
    output: listOf('entries', auditEntrySchema),
    errors: aList,
  },
  auditHead: {
    method: 'GET',
    path: '/v1/audit/head',
    summary: 'Read the head of the audit trail, to verify against it later',
    auth: 'key',
    scopes: ['admin'],
    answer: 'json',
    output: headSchema,
    errors: needsKey,
  },
  verifyAudit: {
    method: 'GET',
    path: '/v1/audit/verify',
    summary: 'Check whether an audit entry was changed, removed, moved or added',
    auth: 'key',
    scopes: ['admin'],
    query: auditVerifyQuerySchema,
    answer: 'json',
    output: verdictSchema,
    errors: aList,
  },
} as const satisfies Record<string, Route>;
