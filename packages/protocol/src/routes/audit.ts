/** `/v1/audit`: who did what, when and why, with proof that the trail is complete. */
import { z } from 'zod';
import { auditActions } from '../schemas/names.ts';
import { deciderSchema } from '../schemas/permissions.ts';
import { idSchema, seqSchema, timeSchema } from '../schemas/values.ts';
import { listErrors, listOf, keyErrors, pageQuery, type Route } from './route.ts';

const hashSchema = z.string().regex(/^[0-9a-f]{64}$/, 'Must be 64 hexadecimal digits');

export const auditQuerySchema = z.strictObject({
  ...pageQuery,
  since: timeSchema.optional(),
  until: timeSchema.optional(),
  action: z.enum(auditActions).optional(),
  /** The id of the actor, such as a key or a grant. */
  actor: z.string().min(1).max(256).optional(),
  runId: idSchema.optional(),
});

const hasBoth = { message: 'Set both seq and hash, or neither', path: ['hash'] };

/** `seq` and `hash` are a head saved earlier, which must still be part of the trail. */
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

export const auditExportQuerySchema = z.strictObject({
  after: z
    .string()
    .regex(/^\d{1,15}\.[0-9a-f]{64}$/, 'Must be the cursor of a head')
    .optional()
    .describe('The cursor of the last head: the export continues after it'),
  limit: seqSchema
    .pipe(z.int().min(1))
    .optional()
    .describe('The maximum number of entries. Default: all'),
});

/** A line is an entry or, at last, the signed head. `text` is what the hash of an entry covers. */
export const auditLineSchema = z.discriminatedUnion('type', [
  auditEntrySchema.extend({ type: z.literal('entry'), text: z.string() }),
  z.object({
    type: z.literal('head'),
    tenantId: z.string(),
    after: z.object({ seq: z.int(), hash: z.string() }),
    seq: z.int(),
    hash: z.string(),
    at: timeSchema,
    cursor: z.string(),
    problem: z.object({ seq: z.int(), problem: z.string() }).optional(),
    publicKey: z.string(),
    signature: z.string(),
  }),
]);

const verdictSchema = z.object({
  ok: z.boolean(),
  /** The number of entries that were verified. */
  entries: z.int(),
  head: headSchema,
  firstBad: z.object({ seq: z.int(), problem: z.string() }).optional(),
});

export const auditRoutes = {
  listAudit: {
    method: 'GET',
    path: '/v1/audit',
    summary: 'List audit entries, newest first',
    scopes: ['admin'],
    query: auditQuerySchema,
    output: listOf('entries', auditEntrySchema),
    errors: listErrors,
  },
  auditHead: {
    method: 'GET',
    path: '/v1/audit/head',
    summary: 'Get the head of the audit trail, to verify against it later',
    scopes: ['admin'],
    output: headSchema.extend({
      publicKey: z.string().describe('In PEM: verifies the heads of exports'),
    }),
    errors: keyErrors,
  },
  exportAudit: {
    method: 'GET',
    path: '/v1/audit/export',
    summary: 'Export the audit trail as JSON lines, oldest first; the last line is a signed head',
    scopes: ['admin'],
    query: auditExportQuerySchema,
    responseType: 'lines',
    errors: [...listErrors, 'cursor_past_end'],
  },
  verifyAudit: {
    method: 'GET',
    path: '/v1/audit/verify',
    summary: 'Verify that no audit entry was changed, removed, moved or inserted',
    scopes: ['admin'],
    query: auditVerifyQuerySchema,
    output: verdictSchema,
    errors: listErrors,
  },
} as const satisfies Record<string, Route>;
