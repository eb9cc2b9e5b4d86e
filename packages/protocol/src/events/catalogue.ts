/**
 * The catalogue: every event that a journal can hold, declared once.
 *
 * An event is named `noun.past-verb`, because it says what has happened and cannot be refused any
 * more. A change that an older reader could misread gets a new version. Everything that any surface
 * shows is a pure function of these.
 */
import { z } from 'zod';
import { functionSchema } from '../schemas/functions.ts';
import { idSchema, toolCallIdSchema } from '../schemas/ids.ts';
import { foundBy } from '../schemas/memories.ts';
import { messageSchema } from '../schemas/messages.ts';
import { permissionsSchema } from '../schemas/permissions.ts';
import { providerDataSchema } from '../schemas/provider-data.ts';
import { deciderSchema, approvalKinds } from '../schemas/approvals.ts';
import { limitNames, limitsSchema } from '../schemas/limits.ts';
import {
  agentEnds,
  endedStatuses,
  reasoningEfforts,
  runErrorSchema,
  surfaces,
  usageSchema,
} from '../schemas/runs.ts';

const agent = { agentId: idSchema, parentId: idSchema.optional() };
/** Real paths by the parameters that lead there. */
const resolvedPaths = z.record(z.string(), z.string());
const call = { ...agent, toolCallId: toolCallIdSchema, name: z.string() };
const approval = { ...agent, approvalId: idSchema, toolCallId: toolCallIdSchema };
const json = z.json();
/** What a model is asked for besides words. */
const answer = {
  /** The JSON Schema that the last answer has to fit. */
  outputSchema: z.record(z.string(), json).optional(),
  reasoning: z.enum(reasoningEfforts).optional(),
};
/** What an agent works by: journaled, so that a later change of the configuration changes no run. */
const profile = {
  ...answer,
  system: z.string().optional(),
  tools: z.array(z.string()),
  handoffs: z.array(z.string()).optional(),
};

/** What a watcher is told at each change of state, so that no reader has to add up deltas. */
export const progressSchema = z.object({
  partialOutput: z.string(),
  toolsInvoked: z.array(z.string()),
});
export type Progress = z.infer<typeof progressSchema>;

/** What a run's answer rests on. Every figure is counted, none is estimated. */
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

/** Which rule let a call through without asking anyone. */
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
    'headless',
  ]),
  index: z.int(),
  source: z.enum(['request', 'grant', 'builtin', 'program', 'policy']),
  id: z.string().optional(),
  /** It is a grant of so many calls, and this is one of them. */
  counted: z.literal(true).optional(),
});
export type RuleRef = z.infer<typeof ruleRefSchema>;

export const catalogue = {
  'run.created': event(1, {
    surface: z.enum(surfaces),
    agent: z.string(),
    model: z.string(),
    conversationId: idSchema,
    correlationId: z.string(),
    /** Instructions for this run alone: they are not part of the conversation. */
    system: z.string().optional(),
    messages: z.array(messageSchema),
    /** How many ended runs of the conversation come before `messages`; null: `messages` is all. */
    history: z.int().nullable(),
    tools: z.array(z.string()),
    /** Those of `tools` that are the caller's own functions. */
    functions: z.array(functionSchema).optional(),
    permissions: permissionsSchema,
    maxIterations: z.int(),
    limits: limitsSchema.optional(),
    ...answer,
    /** Agents that the first one may hand the conversation to. */
    handoffs: z.array(z.string()).optional(),
    context: z.record(z.string(), json).optional(),
    labels: z.record(z.string(), z.string()),
    parentRunId: idSchema.optional(),
    workflowId: z.string().optional(),
    /** Whose memories the run may read, and where it leaves its own. */
    memory: z.object({ namespace: z.string() }).optional(),
    /** False: its agents have no tools that work in the tenant's folder. */
    workspace: z.literal(false).optional(),
    /** The transcript begins with that of this run, up to this place in its journal. */
    forkedFrom: z.object({ runId: idSchema, seq: z.int() }).optional(),
    /** The caller's span: whichever node ends the run links its trace to it. */
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
    /** What the first agent had reached when it gave its last answer. */
    limit: z.enum(limitNames).optional(),
  }),

  /** Only a sub-agent brings its own profile; the first agent's is in `run.created`. */
  'agent.started': event(1, {
    ...agent,
    name: z.string(),
    model: z.string(),
    spawned: z
      .object({
        /** The parent's call that it works for, and its place among those spawned by that call. */
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
    /** What a sub-agent brings back to its parent. */
    output: z.string().optional(),
    error: runErrorSchema.optional(),
  }),
  /** From here on the agent has one more turn, without tools, to answer with what there is. */
  'limit.reached': event(1, { ...agent, limit: z.enum(limitNames) }),
  /**
   * What the model reads no longer begins with these messages but with a summary of them; the
   * journal keeps them. Counted in two parts, because other runs of the conversation may have ended
   * in between: `ofHistory` messages from before this run, `ofRun` of its own.
   */
  'context.compacted': event(1, {
    ...agent,
    model: z.string(),
    summary: z.string(),
    ofHistory: z.int(),
    ofRun: z.int(),
    /** How many compactions had come before; another count means that it does not apply. */
    generation: z.int(),
    usage: usageSchema,
  }),
  /** What was looked up before the first turn, as the model reads it; looked up once a run. */
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
    /** There if meaning was asked: which model compared, and if it did not, why. */
    meaning: z.object({ model: z.string(), failed: z.string().optional() }).optional(),
  }),
  /** What a completed run leaves behind is stored with its end. */
  'memory.stored': event(1, { ...agent, namespace: z.string(), memoryId: idSchema }),

  'turn.started': event(1, { ...agent, turn: z.int(), textId: idSchema, reasoningId: idSchema }),
  'turn.completed': event(1, {
    ...agent,
    turn: z.int(),
    finishReason: z.enum(['stop', 'tool-calls', 'length', 'content-filter', 'other']),
    usage: usageSchema,
    providerData: providerDataSchema.optional(),
  }),
  /** A partial answer that a crash or a retry superseded: everything after `after` is void. */
  'turn.discarded': event(1, {
    ...agent,
    turn: z.int(),
    textId: idSchema,
    after: z.int(),
    reason: z.enum(['crash', 'retry', 'limit', 'guardrail', 'schema']),
    /** What it cost all the same, where the model had finished. */
    usage: usageSchema.optional(),
  }),
  'text.appended': event(1, { ...agent, textId: idSchema, text: z.string() }),
  'reasoning.appended': event(1, { ...agent, reasoningId: idSchema, text: z.string() }),

  'tool.called': event(1, {
    ...call,
    /** What the provider called it, where that was not unique within the run. */
    providerCallId: z.string().optional(),
    /** It is the caller's own function: a client shall run it once it has started. */
    via: z.enum(['client']).optional(),
    input: json,
  }),
  /** The intent: stored before the side effect starts, with exactly what is executed. */
  'tool.started': event(1, {
    ...call,
    input: json,
    idempotencyKey: z.string(),
    rule: ruleRefSchema.optional(),
    approvalId: idSchema.optional(),
    /** Not a tool's own code but a sub-agent, a handoff or a client brings the result. */
    via: z.enum(['agent', 'handoff', 'client']).optional(),
    /** Until when a client may bring it. */
    resultBy: z.iso.datetime().optional(),
    /** Where its path parameters lead, links followed. */
    resolvedPaths: resolvedPaths.optional(),
  }),
  'tool.progressed': event(1, { ...call, progressId: idSchema, content: z.string() }),
  'tool.completed': event(1, {
    ...call,
    context: z.string().optional(),
    result: json.optional(),
    durationMs: z.number().optional(),
    approvalId: idSchema.optional(),
  }),
  'tool.failed': event(1, {
    ...call,
    error: z.string(),
    code: z.string(),
    durationMs: z.number().optional(),
    /** A client had it, and brought no result. */
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
    /** Where path parameters of the call lead, links followed: the digest covers it. */
    resolvedPaths: resolvedPaths.optional(),
    digest: z.string(),
    /** What a tool asks while it runs, its place among the questions of the call, and the answer's shape. */
    question: z
      .object({
        nth: z.int(),
        prompt: z.string().min(1).max(10_000),
        schema: z.record(z.string(), json),
      })
      .optional(),
    agentPath: z.array(z.string()),
    expiresAt: z.iso.datetime(),
    /** When `approval.expiring` is due. */
    warnsAt: z.iso.datetime().optional(),
  }),
  /** Nobody has answered yet, and little time is left. */
  'approval.expiring': event(1, { ...approval, expiresAt: z.iso.datetime() }),
  'approval.decided': event(1, {
    ...approval,
    approved: z.boolean(),
    always: z.boolean().optional(),
    reason: z.string().optional(),
    /** The arguments as whoever decided has changed them, and their digest: this is what runs. */
    input: json.optional(),
    resolvedPaths: resolvedPaths.optional(),
    digest: z.string().optional(),
    output: json.optional(),
    /** What a person answered to a question. */
    answer: json.optional(),
    by: deciderSchema,
  }),
  'approval.expired': event(1, approval),
  'approval.closed': event(1, { ...approval, reason: z.string() }),
} as const;

function event<Shape extends z.ZodRawShape>(version: number, shape: Shape) {
  return { version, schema: z.object(shape) };
}

export type EventType = keyof typeof catalogue;

type EventData = {
  [Type in EventType]: { type: Type } & z.infer<(typeof catalogue)[Type]['schema']>;
};

/** An event as it is appended; the journal adds its place and time. */
export type EventOf<Type extends EventType> = EventData[Type];
export type RunEvent = EventOf<EventType>;

/** An event as it stands in a journal. */
export type Stored<Event extends RunEvent = RunEvent> = Event & { seq: number; at: string };
export type StoredEvent = Stored;

export const eventTypes = Object.keys(catalogue) as EventType[];

/** Checks an event against its declaration; used wherever bytes come from outside. */
export function parseEvent(value: { type: string }): RunEvent {
  const declared = Object.hasOwn(catalogue, value.type)
    ? catalogue[value.type as EventType]
    : undefined;
  if (declared === undefined) throw new TypeError(`Unknown event type ${value.type}`);
  const { type, ...data } = value;
  return { type, ...declared.schema.parse(data) } as RunEvent;
}
