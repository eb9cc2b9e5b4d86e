/** `/v1/actions` and `/v1/invocations`: functions of sessions and services that participants invoke. */
import { z } from 'zod';
import { checkToolSchema } from '../json-schema/check.ts';
import { outputSchemaSchema, runErrorSchema } from '../schemas/runs.ts';
import {
  capabilityPaths,
  handleSchema,
  identityKinds,
  invocationStatuses,
} from '../schemas/sessions.ts';
import {
  idSchema,
  jsonSchema,
  labelFilterSchema,
  timeSchema,
  toolNameForm,
} from '../schemas/values.ts';
import { senderSchema } from '../schemas/messages.ts';

const inputSchemaSchema = z.record(z.string(), z.json()).superRefine((schema, context) => {
  for (const { path, message } of checkToolSchema(schema)) {
    context.addIssue({ code: 'custom', path: path === '' ? [] : [path], message });
  }
});

/** Any one of the selectors suffices. */
const selectorSchema = z.union(
  [
    z.strictObject({ handle: handleSchema }),
    z.strictObject({ kind: z.enum(identityKinds) }),
    z.strictObject({ label: labelFilterSchema }),
    z.strictObject({ capability: z.enum(capabilityPaths) }),
  ],
  'Must have one of handle, kind, label and capability',
);
export type ActionSelector = z.infer<typeof selectorSchema>;

const handlerSchema = z.union(
  [
    z.strictObject({ sessionId: idSchema }),
    z.strictObject({ url: z.url({ protocol: /^https?$/ }).max(2_048) }),
  ],
  'Must have either sessionId or url',
);

export const actionBodySchema = z.strictObject({
  name: z.string().regex(toolNameForm, 'Must be 1 to 64 letters, digits, "_" or "-"'),
  description: z.string().min(1).max(8192),
  inputSchema: inputSchemaSchema,
  outputSchema: outputSchemaSchema.optional(),
  handler: handlerSchema,
  /** Default: everyone in the tenant. */
  availableTo: z.array(selectorSchema).max(64).optional(),
  timeoutMs: z
    .int()
    .min(1)
    .max(24 * 60 * 60 * 1000)
    .optional(),
  /** May be invoked again after a crash. Default: false. */
  idempotent: z.boolean().optional(),
});

export const actionSchema = z.object({
  ...actionBodySchema.shape,
  /** `config`: a function in `relay.config.ts`. */
  handler: z.union([...handlerSchema.options, z.strictObject({ config: z.literal(true) })]),
  idempotent: z.boolean(),
  createdAt: timeSchema,
});

export const invokeBodySchema = z.strictObject({ input: jsonSchema.default({}) });

export const invocationResultBodySchema = z.union(
  [
    z.strictObject({ output: jsonSchema }),
    z.strictObject({ error: z.string().min(1).max(10_000), retryable: z.boolean().optional() }),
  ],
  'Must have either output or error',
);

export const invocationSchema = z.object({
  id: idSchema,
  action: z.string(),
  status: z.enum(invocationStatuses),
  by: senderSchema,
  input: jsonSchema,
  output: jsonSchema.optional(),
  error: runErrorSchema.optional(),
  /** Set while an approval is open, and after it was decided. */
  approvalId: idSchema.optional(),
  createdAt: timeSchema,
  endedAt: timeSchema.optional(),
});
