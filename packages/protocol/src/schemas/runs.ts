import { z } from 'zod';
import { defined } from '../defined.ts';
import { problemWith } from '../json-schema/check.ts';
import { idSchema, toolNameForm } from './values.ts';

export const runStatuses = [
  'queued',
  'running',
  'waiting',
  'completed',
  'failed',
  'canceled',
] as const;
export type RunStatus = (typeof runStatuses)[number];

export const endedStatuses = ['completed', 'failed', 'canceled'] as const;
/** Why an agent stopped. */
export const agentEnds = ['completed', 'failed', 'canceled', 'limit'] as const;
export type AgentEnd = (typeof agentEnds)[number];

export type EndedStatus = (typeof endedStatuses)[number];

export function isEnded(status: RunStatus): status is EndedStatus {
  return (endedStatuses as readonly RunStatus[]).includes(status);
}

/** The API that started a run. */
export const surfaces = ['chat', 'runtime', 'runs'] as const;
export type Surface = (typeof surfaces)[number];

export const usageSchema = z.object({
  inputTokens: z.int().nonnegative(),
  outputTokens: z.int().nonnegative(),
  /** Of the input, what the provider read from its cache, and what it wrote there. */
  cachedInputTokens: z.int().nonnegative().optional(),
  cacheWriteTokens: z.int().nonnegative().optional(),
  /** Of the output, what was reasoning. */
  reasoningTokens: z.int().nonnegative().optional(),
  /** Set only if every model used has a price. */
  costUsd: z.number().nonnegative().optional(),
});
export type Usage = z.infer<typeof usageSchema>;

export const noUsage: Usage = { inputTokens: 0, outputTokens: 0 };

const details = ['cachedInputTokens', 'cacheWriteTokens', 'reasoningTokens'] as const;

export function addUsage(a: Usage, b: Usage): Usage {
  const sum: Usage = {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
  };
  for (const detail of details) {
    const [one, other] = [a[detail], b[detail]];
    if (one !== undefined || other !== undefined) sum[detail] = (one ?? 0) + (other ?? 0);
  }
  const costUsd = sumOfCosts(a, b);
  return costUsd === undefined ? sum : { ...sum, costUsd };
}

/** Usage as `/v1/runs` writes it. */
export const wireUsageSchema = z.object({
  input_tokens: z.int(),
  output_tokens: z.int(),
  cached_input_tokens: z.int().optional(),
  cache_write_tokens: z.int().optional(),
  reasoning_tokens: z.int().optional(),
});
export type WireUsage = z.infer<typeof wireUsageSchema>;

export function wireUsage(usage: Usage): WireUsage {
  return defined({
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    cached_input_tokens: usage.cachedInputTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
  });
}

/** No usage costs nothing, also without a price. */
function sumOfCosts(a: Usage, b: Usage): number | undefined {
  if (isNothing(a)) return b.costUsd;
  if (isNothing(b)) return a.costUsd;
  return a.costUsd === undefined || b.costUsd === undefined ? undefined : a.costUsd + b.costUsd;
}

function isNothing(usage: Usage): boolean {
  return usage.inputTokens === 0 && usage.outputTokens === 0 && usage.costUsd === undefined;
}

/**
 * How the root agent's last answer ended: whole (`stop`), cut at the token limit (`length`), refused by
 * the model, blocked by the provider's filter, or cut because the context window was full.
 */
export const finishReasons = [
  'stop',
  'length',
  'refusal',
  'content_filter',
  'context_exceeded',
] as const;
export type FinishReason = (typeof finishReasons)[number];

export const reasoningEfforts = [
  'none',
  'minimal',
  'low',
  'medium',
  'high',
  'xhigh',
  'max',
] as const;
export type ReasoningEffort = (typeof reasoningEfforts)[number];

export const runErrorSchema = z.object({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
  /** The guardrail that refused the input or the output. */
  guardrail: z
    .object({ name: z.string(), side: z.enum(['input', 'output']), reason: z.string() })
    .optional(),
});
export type RunError = z.infer<typeof runErrorSchema>;

export const checkpointKinds = [
  'resume_request',
  'tool_completion',
  'approval_pending',
  'final_result',
] as const;
export type CheckpointKind = (typeof checkpointKinds)[number];

/** The envelope in `runs.serialized_state`. It refers to the journal and never copies it. */
export const checkpointEnvelopeSchema = z.object({
  version: z.literal(1),
  serializedRunState: z.string(),
  checkpoint: z.object({
    kind: z.enum(checkpointKinds),
    at: z.iso.datetime(),
    runId: idSchema,
    correlationId: z.string(),
    tool: z.object({ name: z.string(), toolCallId: z.string() }).optional(),
    note: z.string().optional(),
  }),
});
export type CheckpointEnvelope = z.infer<typeof checkpointEnvelopeSchema>;

/** `iterations` is counted per agent, every other limit for the whole run. */
export const limitNames = [
  'iterations',
  'tokens',
  'cost',
  'toolCalls',
  'time',
  'depth',
  'subAgents',
] as const;
export type LimitName = (typeof limitNames)[number];

/** Limits of a run besides `maxIterations`. An omitted limit has its default, if there is one. */
export const limitsSchema = z.strictObject({
  /** Input and output tokens of all agents. */
  tokens: z.int().min(1).optional(),
  /** US dollars, by the configured prices; every model must have one. */
  costUsd: z.number().positive().optional(),
  toolCalls: z.int().min(0).optional(),
  /** Wall-clock time since the start, including time spent waiting for approvals. */
  timeMs: z.int().min(1).optional(),
  /** Nesting depth of sub-agents; 0 disables them. */
  depth: z.int().min(0).max(20).optional(),
  subAgents: z.int().min(0).max(1000).optional(),
});
export type Limits = z.infer<typeof limitsSchema>;

/** A function tool: the caller's own function, which runs in the caller's process. */
export const functionSchema = z.strictObject({
  name: z.string().regex(toolNameForm, 'Must be 1 to 64 letters, digits, "_" or "-"'),
  description: z.string().max(8192).optional(),
  inputSchema: z.record(z.string(), z.json()),
  /** How long to wait for the client's result. Default: set by the server. */
  timeoutMs: z
    .int()
    .min(1)
    .max(24 * 60 * 60 * 1000)
    .optional(),
  /** A person must approve each call, whatever allows it. Default: the caller's code runs unasked. */
  needsApproval: z.boolean().optional(),
  /** What parameters are, which decides how rules match them. Default: text. */
  kinds: z.record(z.string(), z.enum(['command', 'path', 'url', 'text'])).optional(),
  /** Parameters that a rule with any parameters must name if the call has them. */
  sensitive: z.array(z.string()).max(100).optional(),
});
export type FunctionTool = z.infer<typeof functionSchema>;

/** The JSON Schema that a caller sets for the last answer, checked before the run starts. */
export const outputSchemaSchema = z.record(z.string(), z.json()).superRefine((schema, context) => {
  const message = problemWith(schema);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});
