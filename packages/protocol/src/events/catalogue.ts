/**
 * The catalogue of all journal events.
 *
 * An event is named `noun.past-verb`: it records what has happened. A change that an older reader could
 * misread gets a new version. Everything that a surface shows is a pure function of these events.
 */
import { z } from 'zod';
import { idSchema, toolCallIdSchema } from '../schemas/values.ts';
import { foundBy } from '../schemas/memories.ts';
import {
  attachmentPartSchema,
  contentSchema,
  messageModes,
  messageSchema,
  providerDataSchema,
  receivedMessageSchema,
  senderSchema,
} from '../schemas/messages.ts';
import {
  approvalKinds,
  deciderSchema,
  earlierDenialSchema,
  previewSchema,
  outcomeAnswers,
  permissionsSchema,
} from '../schemas/permissions.ts';
import {
  agentEnds,
  endedStatuses,
  finishReasons,
  functionSchema,
  limitNames,
  limitsSchema,
  reasoningEfforts,
  runErrorSchema,
  surfaces,
  usageSchema,
} from '../schemas/runs.ts';

const agent = { agentId: idSchema, parentId: idSchema.optional() };
/** Resolved file paths, keyed by parameter. */
const resolvedPaths = z.record(z.string(), z.string());
const call = { ...agent, toolCallId: toolCallIdSchema, name: z.string() };
const approval = { ...agent, approvalId: idSchema, toolCallId: toolCallIdSchema };
/** Of an approval that was requested before; journals of earlier versions do not repeat its call. */
const openApproval = {
  ...approval,
  kind: z.enum(approvalKinds).optional(),
  tool: z.string().optional(),
};
const json = z.json();
const answer = {
  /** The JSON Schema of the last answer. */
  outputSchema: z.record(z.string(), json).optional(),
  reasoning: z.enum(reasoningEfforts).optional(),
};
/** An agent's profile, journaled so that a later change of the configuration does not affect a run. */
const profile = {
  ...answer,
  system: z.string().optional(),
  tools: z.array(z.string()),
  handoffs: z.array(z.string()).optional(),
};

/** A summary at each change of state, so that readers need not add up deltas. */
export const progressSchema = z.object({
  partialOutput: z.string(),
  toolsInvoked: z.array(z.string()),
});
export type Progress = z.infer<typeof progressSchema>;

/**
 * The evidence for a run's answer, as specification 001 requires it. Every number is counted;
 * `confidence` is the share of tool calls that succeeded.
 */
export const trustSchema = z.object({
  toolsInvoked: z.array(z.string()),
  toolFailures: z.int(),
  evidenceCitations: z.array(
    z.object({ toolCallId: toolCallIdSchema, tool: z.string(), source: z.string().optional() }),
  ),
  evidenceHash: z.string(),
  confidence: z.number().nullable(),
  missingEvidence: z.array(z.string()),
  verificationSteps: z.array(z.string()),
  retryAttempts: z.int(),
  durationMs: z.number(),
});
export type Trust = z.infer<typeof trustSchema>;

/** The rule that decided a call without an approval. */
export const ruleRefSchema = z.object({
  list: z.enum([
    'deny',
    'denylist',
    'allowlist',
    'allowOnce',
    'grants',
    'builtin',
    'allow',
    'ask',
    'needsApproval',
    'headless',
  ]),
  index: z.int(),
  source: z.enum(['request', 'grant', 'builtin', 'program', 'policy']),
  id: z.string().optional(),
  /** The rule is a grant with limited uses, and this call consumed one. */
  counted: z.literal(true).optional(),
  /** With `needsApproval`: why the tool demands a person for this call. Not set: for each call. */
  reason: z.string().optional(),
});
export type RuleRef = z.infer<typeof ruleRefSchema>;

export const catalogue = {
  'run.created': event(1, {
    surface: z.enum(surfaces),
    agent: z.string(),
    model: z.string(),
    conversationId: idSchema,
    correlationId: z.string(),
    /** Instructions for this run only; not part of the conversation. */
    system: z.string().optional(),
    messages: z.array(messageSchema),
    /** The session whose turn the run is. */
    sessionId: idSchema.optional(),
    /** Those of `messages` that were delivered to the session. */
    received: z.array(receivedMessageSchema).optional(),
    /** Number of earlier runs of the conversation that precede `messages`; null: none are included. */
    history: z.int().nullable(),
    tools: z.array(z.string()),
    /** The function tools among `tools`. */
    functions: z.array(functionSchema).optional(),
    permissions: permissionsSchema,
    maxIterations: z.int(),
    limits: limitsSchema.optional(),
    ...answer,
    /** Agents that the root agent may hand off to. */
    handoffs: z.array(z.string()).optional(),
    context: z.record(z.string(), json).optional(),
    labels: z.record(z.string(), z.string()),
    parentRunId: idSchema.optional(),
    workflowId: z.string().optional(),
    /** The namespace that the run reads memories from and stores its own in. */
    memory: z.object({ namespace: z.string() }).optional(),
    /** The transcript starts with that of this run, up to this `seq`. */
    forkedFrom: z.object({ runId: idSchema, seq: z.int() }).optional(),
    /** The caller's span; the node that ends the run links its trace to it. */
    traceparent: z.string().optional(),
  }),
  'run.started': event(1, { progress: progressSchema }),
  'run.suspended': event(1, { progress: progressSchema, approvalIds: z.array(idSchema) }),
  'run.resumed': event(1, { progress: progressSchema }),
  'run.errored': event(1, { agentId: idSchema.optional(), error: runErrorSchema }),
  'run.summarized': event(1, { trust: trustSchema }),
  'run.ended': event(1, {
    status: z.enum(endedStatuses),
    output: z.string(),
    usage: usageSchema,
    error: runErrorSchema.optional(),
    /** The agent that answered; unset if the run never started. */
    agent: z.string().optional(),
    /** The limit that the root agent had reached when it gave its last answer. */
    limit: z.enum(limitNames).optional(),
    /** How the root agent's last answer ended; unset if there is none, or the provider did not say. */
    finishReason: z.enum(finishReasons).optional(),
  }),

  /** `spawned` holds the profile of a sub-agent; the root agent's is in `run.created`. */
  'agent.started': event(1, {
    ...agent,
    name: z.string(),
    model: z.string(),
    spawned: z
      .object({
        /** The parent's call that spawned it, and its index among the agents of that call. */
        toolCallId: toolCallIdSchema,
        nth: z.int(),
        task: z.string(),
        maxIterations: z.int().optional(),
        ...profile,
      })
      .optional(),
  }),
  'agent.handed-off': event(1, { ...agent, from: z.string(), to: z.string() }),
  'agent.switched': event(1, { ...agent, name: z.string(), model: z.string(), ...profile }),
  'agent.ended': event(1, {
    ...agent,
    reason: z.enum(agentEnds),
    iterations: z.int(),
    usage: usageSchema,
    /** Set for the root agent. */
    progress: progressSchema.optional(),
    /** How its last answer ended. */
    finishReason: z.enum(finishReasons).optional(),
    /** The result of a sub-agent for its parent. */
    output: z.string().optional(),
    error: runErrorSchema.optional(),
  }),
  /** The agent gets one more turn, without tools, to give its answer. */
  'limit.reached': event(1, { ...agent, limit: z.enum(limitNames) }),
  /**
   * A summary replaces these messages in the model's context; the journal keeps them. They are counted
   * in two parts, because other runs of the conversation may have ended in between: `ofHistory`
   * messages from before this run, and `ofRun` of its own.
   */
  'context.compacted': event(1, {
    ...agent,
    model: z.string(),
    summary: z.string(),
    ofHistory: z.int(),
    ofRun: z.int(),
    /** The number of earlier compactions; if it differs, this one does not apply. */
    generation: z.int(),
    usage: usageSchema,
  }),
  /** The memories found before the first turn, once per run, as the model reads them. */
  'memory.recalled': event(1, {
    ...agent,
    namespace: z.string(),
    memories: z.array(
      z.object({
        id: idSchema,
        text: z.string(),
        score: z.number(),
        similarity: z.number().optional(),
        foundBy: z.enum(foundBy).optional(),
      }),
    ),
    /** Set if semantic search was used: its model, and why it failed if it did. */
    meaning: z.object({ model: z.string(), failed: z.string().optional() }).optional(),
  }),
  /** Between two turns of the root agent: its next model call reads the message. */
  'message.added': event(1, {
    ...agent,
    ...receivedMessageSchema.shape,
    mode: z.enum(messageModes),
    from: senderSchema,
    /** The channel that it was sent to; unset for a direct message. */
    channel: z.string().optional(),
    content: contentSchema,
  }),
  /** Stored together with the end of a completed run. */
  'memory.stored': event(1, { ...agent, namespace: z.string(), memoryId: idSchema }),

  'turn.started': event(1, {
    ...agent,
    turn: z.int(),
    textId: idSchema,
    reasoningId: idSchema,
    /** Set for the turns of the root agent after its first. */
    progress: progressSchema.optional(),
  }),
  'turn.completed': event(1, {
    ...agent,
    turn: z.int(),
    finishReason: z.enum([...finishReasons, 'tool_calls', 'other']),
    usage: usageSchema,
    /** The model that answered, as the provider names it. */
    responseModel: z.string().optional(),
    /**
     * The model answered without the reasoning of some earlier turns: something before it had changed,
     * such as the instructions, the tools or the key.
     */
    reasoningDropped: z.literal(true).optional(),
    providerData: providerDataSchema.optional(),
  }),
  /** A partial answer is superseded: everything of it after the seq `after` is void. */
  'turn.discarded': event(1, {
    ...agent,
    turn: z.int(),
    textId: idSchema,
    after: z.int(),
    reason: z.enum(['crash', 'retry', 'limit', 'guardrail', 'schema', 'message']),
    /** The code of the error because of which the turn was discarded, such as `provider_failed`. */
    code: z.string().optional(),
    /** The provider failed, and is called again after this time. `attempt` is the number of the failed call. */
    retry: z.object({ attempt: z.int(), delayMs: z.int() }).optional(),
    /** What the discarded turn cost, if the model had finished it. */
    usage: usageSchema.optional(),
  }),
  'text.appended': event(1, { ...agent, textId: idSchema, text: z.string() }),
  'reasoning.appended': event(1, { ...agent, reasoningId: idSchema, text: z.string() }),

  'tool.called': event(1, {
    ...call,
    /** The provider's id, if it was not unique within the run. */
    providerCallId: z.string().optional(),
    /** A function tool: a client runs it once it has started. */
    via: z.enum(['client']).optional(),
    input: json,
  }),
  /** The intent, stored before the side effect starts, with exactly the input that is executed (E2). */
  'tool.started': event(1, {
    ...call,
    input: json,
    idempotencyKey: z.string(),
    rule: ruleRefSchema.optional(),
    approvalId: idSchema.optional(),
    /** What produces the result, if not the tool's own code. */
    via: z.enum(['agent', 'handoff', 'client']).optional(),
    /** Until when a client may post the result. */
    resultBy: z.iso.datetime().optional(),
    resolvedPaths: resolvedPaths.optional(),
    /** Of the preview that an approver was shown. */
    previewDigest: z.string().optional(),
  }),
  'tool.progressed': event(1, { ...call, progressId: idSchema, content: z.string() }),
  'tool.completed': event(1, {
    ...call,
    context: z.string().optional(),
    result: json.optional(),
    /** Images and files of the result, for models that can read them. */
    attachments: z.array(attachmentPartSchema).optional(),
    durationMs: z.number().optional(),
    approvalId: idSchema.optional(),
  }),
  'tool.failed': event(1, {
    ...call,
    error: z.string(),
    code: z.string(),
    durationMs: z.number().optional(),
    /** The call was a client's to run. */
    via: z.enum(['client']).optional(),
  }),
  'tool.denied': event(1, {
    ...call,
    status: z.enum(['denied', 'expired']),
    reason: z.string().optional(),
    rule: ruleRefSchema.optional(),
    approvalId: idSchema.optional(),
  }),

  'approval.requested': event(1, {
    ...approval,
    kind: z.enum(approvalKinds),
    tool: z.string(),
    params: json,
    /** Covered by the digest. */
    resolvedPaths: resolvedPaths.optional(),
    /** Its own digest is covered by the digest. */
    preview: previewSchema.optional(),
    digest: z.string(),
    /** A question of a running tool: its index within the call, and the JSON Schema of its answer. */
    question: z
      .object({
        nth: z.int(),
        prompt: z.string().min(1).max(10_000),
        schema: z.record(z.string(), json),
      })
      .optional(),
    agentPath: z.array(z.string()),
    /** Of a tool of an MCP server: the approval holds for this definition alone. */
    definitionDigest: z.string().optional(),
    earlierDenial: earlierDenialSchema.optional(),
    /** The rule that demands a person, whatever allows the call: "always" does not change that. */
    rule: ruleRefSchema.optional(),
    expiresAt: z.iso.datetime(),
    /** When `approval.expiring` is due. */
    warnsAt: z.iso.datetime().optional(),
  }),
  /** The approval is still pending shortly before it expires. */
  'approval.expiring': event(1, { ...openApproval, expiresAt: z.iso.datetime() }),
  'approval.decided': event(1, {
    ...approval,
    approved: z.boolean(),
    always: z.boolean().optional(),
    reason: z.string().optional(),
    /** The arguments as changed by the approver, and their digest; the call runs with these. */
    input: json.optional(),
    resolvedPaths: resolvedPaths.optional(),
    preview: previewSchema.optional(),
    digest: z.string().optional(),
    /** The answer to an approval of kind `outcome`; `output` comes with `completed`. */
    outcome: z.enum(outcomeAnswers).optional(),
    output: json.optional(),
    /** The answer to a question. */
    answer: json.optional(),
    by: deciderSchema,
  }),
  'approval.expired': event(1, openApproval),
  'approval.closed': event(1, { ...openApproval, reason: z.string() }),
} as const;

function event<Shape extends z.ZodRawShape>(version: number, shape: Shape) {
  return { version, schema: z.object(shape) };
}

export type EventType = keyof typeof catalogue;

type EventData = {
  [Type in EventType]: { type: Type } & z.infer<(typeof catalogue)[Type]['schema']>;
};

/** An event as it is appended; the journal adds `seq` and `at`. */
export type EventOf<Type extends EventType> = EventData[Type];
export type RunEvent = EventOf<EventType>;

export type Stored<Event extends RunEvent = RunEvent> = Event & { seq: number; at: string };
export type StoredEvent = Stored;

export const eventTypes = Object.keys(catalogue) as EventType[];

/** Validates an event read from outside this process. */
export function parseEvent(value: { type: string }): RunEvent {
  const declared = Object.hasOwn(catalogue, value.type)
    ? catalogue[value.type as EventType]
    : undefined;
  if (declared === undefined) throw new TypeError(`Unknown event type ${value.type}`);
  const { type, ...data } = value;
  return { type, ...declared.schema.parse(data) } as RunEvent;
}
