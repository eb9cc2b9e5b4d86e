/** Schemas as the OpenAPI document has them: what is a thing of its own has a name and one place. */
import { z } from 'zod';
import { messageSchema } from '../schemas/messages.ts';
import {
  permissionsSchema,
  policyRulesSchema,
  toolPermissionSchema,
} from '../schemas/permissions.ts';
import { deciderSchema } from '../schemas/approvals.ts';
import { approvalSchema } from '../routes/approvals.ts';
import { auditEntrySchema } from '../routes/audit.ts';
import { credentialSchema } from '../routes/credentials.ts';
import { grantSchema } from '../routes/grants.ts';
import { keySchema } from '../routes/keys.ts';
import { memorySchema } from '../routes/memories.ts';
import { policySchema } from '../routes/policy.ts';
import { runSchema } from '../routes/runs.ts';
import { tenantSchema } from '../routes/tenant.ts';
import { webhookSchema } from '../routes/webhooks.ts';
import { checkpointEnvelopeSchema, runErrorSchema, wireUsageSchema } from '../schemas/runs.ts';

export type Schema = Record<string, unknown>;

const named = {
  Approval: approvalSchema,
  AuditEntry: auditEntrySchema,
  Checkpoint: checkpointEnvelopeSchema,
  Credential: credentialSchema,
  Decider: deciderSchema,
  Grant: grantSchema,
  Key: keySchema,
  Memory: memorySchema,
  Message: messageSchema,
  Permissions: permissionsSchema,
  Policy: policySchema,
  PolicyRules: policyRulesSchema,
  Rule: toolPermissionSchema,
  Run: runSchema,
  RunError: runErrorSchema,
  Tenant: tenantSchema,
  Usage: wireUsageSchema,
  Webhook: webhookSchema,
} as const satisfies Record<string, z.ZodType>;

for (const [id, schema] of Object.entries(named)) {
  z.globalRegistry.add(schema, { ...z.globalRegistry.get(schema), id });
}

/** Converts schemas, and gathers what they refer to by name. */
export class OpenApiSchemas {
  /** JSON of any shape refers to itself. */
  readonly #found = new Map<string, Schema>([['Json', pointingHere(z.toJSONSchema(z.json()))]]);

  of(schema: z.ZodType, io: 'input' | 'output'): Schema {
    const { $defs = {}, ...rest } = z.toJSONSchema(schema, {
      io,
      unrepresentable: 'any',
    });
    for (const [name, found] of Object.entries($defs)) {
      if (name in named) this.#found.set(name, pointingHere(found));
    }
    return pointingHere(rest);
  }

  get components(): Record<string, Schema> {
    return Object.fromEntries([...this.#found].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** References lead to the document's own places; what has no name there is JSON of any shape. */
function pointingHere(schema: Schema): Schema {
  const own = { ...schema, $schema: undefined, id: undefined };
  return JSON.parse(JSON.stringify(own), (key, value: unknown) => {
    if (key !== '$ref' || typeof value !== 'string') return value;
    const [name = ''] = value.match(/\w+$/) ?? [];
    return `#/components/schemas/${name in named ? name : 'Json'}`;
  }) as Schema;
}
