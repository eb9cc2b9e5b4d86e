import { z } from 'zod';
import { toolCallIdSchema } from './ids.ts';

/** zod drops a key named `__proto__` silently, which would make a rule wider than it was written. */
const ownParameters = z.unknown().superRefine((value, context) => {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, '__proto__')) return;
  context.addIssue({ code: 'custom', path: ['__proto__'], message: 'Not a parameter' });
});

/** A record, also to whoever writes one. */
function recordOf<Value extends z.ZodType>(value: Value) {
  type Given = Record<string, z.input<Value>>;
  const schema: z.ZodType<Record<string, z.output<Value>>> = ownParameters.pipe(
    z.record(z.string(), value),
  );
  return schema as z.ZodType<Record<string, z.output<Value>>, Given>;
}

/** A tool's exact name, and a glob for each parameter that it constrains or one call to the letter. */
export const toolPermissionSchema = z.strictObject({
  tool: z.string().min(1),
  params: recordOf(z.string()).optional(),
  /** These arguments, nothing more and nothing less; no pattern is one here. */
  exact: recordOf(z.json()).optional(),
});
export type ToolPermission = z.infer<typeof toolPermissionSchema>;

export const denialSchema = z.strictObject({
  toolCallId: toolCallIdSchema,
  reason: z.string().optional(),
});

export const permissionsSchema = z.strictObject({
  allowlist: z.array(toolPermissionSchema).optional(),
  allowOnce: z.array(toolPermissionSchema).optional(),
  deny: z.array(denialSchema).optional(),
  denylist: z.array(toolPermissionSchema).optional(),
  /** Nobody is there: whatever a person would be asked about is denied. */
  headless: z.boolean().optional(),
});
export type Permissions = z.infer<typeof permissionsSchema>;

const rules = z.array(toolPermissionSchema).max(500);

/** Standing rules of a tenant. */
export const policyRulesSchema = z.strictObject({
  allow: rules.default([]),
  deny: rules.default([]),
  ask: rules.default([]),
});
export type PolicyRules = z.infer<typeof policyRulesSchema>;

const consent = z.strictObject({ approved: z.literal(true), always: z.boolean().optional() });
const refusal = z.strictObject({ approved: z.literal(false), reason: z.string().optional() });

/** A person's answer to whether a call may run. */
export type PermissionResponse = z.infer<typeof consent> | z.infer<typeof refusal>;

/** A person's answer to an approval. `input`: other arguments for the call, or the answer to a question. */
export const relayResponseSchema = z.discriminatedUnion('approved', [
  consent.extend({ input: z.json().optional() }),
  refusal,
]);
export type RelayResponse = z.infer<typeof relayResponseSchema>;
