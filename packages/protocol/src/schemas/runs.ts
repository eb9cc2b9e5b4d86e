import { z } from 'zod';
import { idSchema } from './ids.ts';

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

/** Which front door a run came in by. */
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
  /** There only if every model that was used has a price. */
  costUsd: z.number().nonnegative().optional(),
});
export type Usage = z.infer<typeof usageSchema>;

export const noUsage: Usage = { inputTokens: 0, outputTokens: 0 };

/** What providers say of tokens beyond their number, if they do. */
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

/** Usage as the surface `runs` writes it. */
export const wireUsageSchema = z.object({
  input_tokens: z.int(),
  output_tokens: z.int(),
  cached_input_tokens: z.int().optional(),
  cache_write_tokens: z.int().optional(),
  reasoning_tokens: z.int().optional(),
});

export function wireUsage(usage: Usage): z.infer<typeof wireUsageSchema> {
  const { cachedInputTokens, cacheWriteTokens, reasoningTokens } = usage;
  return {
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    ...(cachedInputTokens === undefined ? {} : { cached_input_tokens: cachedInputTokens }),
    ...(cacheWriteTokens === undefined ? {} : { cache_write_tokens: cacheWriteTokens }),
    ...(reasoningTokens === undefined ? {} : { reasoning_tokens: reasoningTokens }),
  };
}

/** Of what was not used at all the cost is known without a price. */
function sumOfCosts(a: Usage, b: Usage): number | undefined {
  if (isNothing(a)) return b.costUsd;
  if (isNothing(b)) return a.costUsd;
  return a.costUsd === undefined || b.costUsd === undefined ? undefined : a.costUsd + b.costUsd;
}

function isNothing(usage: Usage): boolean {
  return usage.inputTokens === 0 && usage.outputTokens === 0 && usage.costUsd === undefined;
}

/** How much a model is to think before it answers, where it can. */
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

/** Why a run ended badly, as it is stored and shown. */
export const runErrorSchema = z.object({
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
});
export type RunError = z.infer<typeof runErrorSchema>;

export const checkpointKinds = [
  'resume_request',
  'tool_completion',
  'approval_pending',
  'final_result',
] as const;
export type CheckpointKind = (typeof checkpointKinds)[number];

/** The envelope in `runs.serialized_state`: it points into the journal and never copies it. */
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
