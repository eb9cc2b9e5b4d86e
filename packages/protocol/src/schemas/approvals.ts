import { z } from 'zod';

export const approvalKinds = ['permission', 'question', 'outcome'] as const;
export type ApprovalKind = (typeof approvalKinds)[number];

export const approvalStatuses = ['pending', 'approved', 'denied', 'expired', 'closed'] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

/** Where a grant holds. */
export const grantScopes = ['run', 'conversation', 'tenant'] as const;
export type GrantScope = (typeof grantScopes)[number];

/** Who decided: a person's key, a standing rule, the clock, or Relay itself. */
export const deciderSchema = z.object({
  type: z.enum(['key', 'rule', 'timeout', 'system']),
  id: z.string(),
  name: z.string(),
});
export type Decider = z.infer<typeof deciderSchema>;
