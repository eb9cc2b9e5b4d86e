/** The frames of each stream as schemas, for the OpenAPI document. */
import { z } from 'zod';
import { ruleRefSchema, trustSchema } from '../events/catalogue.ts';
import { sessionEventSchema } from '../events/session-events.ts';
import { attachmentPartSchema, contentSchema, senderSchema } from '../schemas/messages.ts';
import { approvalStatuses } from '../schemas/names.ts';
import {
  approvalKinds,
  displaySchema,
  earlierDenialSchema,
  outcomeAnswers,
} from '../schemas/permissions.ts';
import {
  agentEnds,
  endedStatuses,
  finishReasons,
  limitNames,
  runErrorSchema,
  usageSchema,
  wireUsageSchema,
} from '../schemas/runs.ts';

const text = z.string();
const finishReason = z.enum(finishReasons).optional();
/** Set for sub-agents only. */
const subAgent = { agentId: text.optional() };
const handoff = z.strictObject({ type: z.literal('handoff'), from: text, to: text });
const agentSwitch = z.strictObject({ type: z.literal('agent_switch'), agentName: text });
const rulePlace = ruleRefSchema.pick({ list: true, index: true, source: true }).optional();

/** Of a question, of a sub-agent, of what a call leads to, of a repeated call, and of a rule that demands a person. */
const approval = {
  kind: z.enum(approvalKinds),
  prompt: text.optional(),
  schema: z.record(text, z.json()).optional(),
  agentPath: z.array(text).readonly().optional(),
  resolvedPaths: z.record(text, text).optional(),
  display: displaySchema.optional(),
  earlierDenial: earlierDenialSchema.optional(),
  rule: ruleRefSchema.optional(),
};
const attachments = z.array(attachmentPartSchema).readonly().optional();

export const runsFrameSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('run'), id: text, conversationId: text, agent: text }),
  handoff,
  agentSwitch,
  z.strictObject({ type: z.literal('token'), text }),
  z.strictObject({
    type: z.literal('reset'),
    after: z.int(),
    retry: z.strictObject({ attempt: z.int(), delayMs: z.int(), code: text.optional() }).optional(),
  }),
  z.strictObject({
    type: z.literal('message'),
    id: text,
    from: senderSchema,
    channel: text.optional(),
    content: contentSchema,
  }),
  z.strictObject({
    type: z.literal('tool_call'),
    id: text,
    name: text,
    input: z.json(),
    resultBy: text.optional(),
    ...subAgent,
  }),
  z.strictObject({
    type: z.literal('tool_result'),
    id: text,
    output: z.json(),
    attachments,
    rule: rulePlace,
    ...subAgent,
  }),
  z.strictObject({
    type: z.literal('approval_requested'),
    id: text,
    toolCallId: text,
    tool: text,
    params: z.json(),
    agentId: text,
    parentId: text.optional(),
    ...approval,
  }),
  z.strictObject({ type: z.literal('approval_expiring'), id: text, expiresAt: text }),
  z.strictObject({
    type: z.literal('approval_resolved'),
    id: text,
    status: z.enum(approvalStatuses).exclude(['pending']),
    executedParams: z.json().optional(),
    outcome: z.enum(outcomeAnswers).optional(),
  }),
  z.strictObject({
    type: z.literal('error'),
    error: text,
    code: text,
    retryable: z.boolean(),
    guardrail: runErrorSchema.shape.guardrail,
  }),
  z.strictObject({
    type: z.literal('done'),
    status: z.enum(endedStatuses),
    output: text,
    outputTruncated: z.literal(true).optional(),
    usage: wireUsageSchema,
    agent: text.optional(),
    limit: z.enum(limitNames).optional(),
    finishReason,
  }),
]);

const agent = { runId: text, agentId: text, parentId: text.optional() };

export const chatFrameSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('connected'), sessionId: text, conversationId: text }),
  z.strictObject({ type: z.literal('harness_start'), ...agent }),
  z.strictObject({ type: z.enum(['text', 'reasoning']), id: text, content: text, ...agent }),
  z.strictObject({ type: z.literal('text_discard'), id: text, ...agent }),
  z.strictObject({ type: z.literal('tool_call'), id: text, name: text, input: z.json(), ...agent }),
  z.strictObject({
    type: z.literal('tool_progress'),
    id: text,
    toolCallId: text,
    name: text,
    content: text,
    ...agent,
  }),
  z.strictObject({
    type: z.literal('tool_result'),
    id: text,
    name: text,
    output: z.strictObject({
      context: text.optional(),
      result: z.json().optional(),
      attachments,
      status: z.enum(['denied', 'expired', 'error']).optional(),
      reason: text.optional(),
      error: text.optional(),
      code: text.optional(),
    }),
    rule: rulePlace,
    ...agent,
  }),
  z.strictObject({
    type: z.literal('relay'),
    id: text,
    toolCallId: text,
    tool: text,
    params: z.json(),
    ...approval,
    ...agent,
  }),
  z.strictObject({
    type: z.literal('relay_resolved'),
    id: text,
    toolCallId: text,
    status: z.literal('approved'),
    executedParams: z.json(),
    ...agent,
  }),
  z.strictObject({ type: z.literal('usage'), ...usageSchema.shape, ...agent }),
  z.strictObject({
    type: z.literal('harness_end'),
    reason: z.enum(agentEnds),
    iterations: z.int(),
    totalUsage: usageSchema,
    finishReason,
    ...agent,
  }),
  z.strictObject({
    type: z.literal('error'),
    runId: text,
    agentId: text.optional(),
    message: text,
    code: text,
  }),
]);

const runtimeStatuses = ['succeeded', 'failed', 'canceled'] as const;
const progressStatus = z.enum(['running', 'waiting', ...runtimeStatuses]);

export const runtimeFrameSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text_delta'), content: text }),
  z.strictObject({ type: z.literal('text_reset'), after: z.int() }),
  handoff,
  agentSwitch,
  z.strictObject({
    type: z.literal('tool_approval_requested'),
    name: text,
    args: z.json(),
    toolCallId: text,
    runId: text,
    ...approval,
    ...subAgent,
  }),
  z.strictObject({
    type: z.literal('tool_start'),
    name: text,
    args: z.json(),
    toolCallId: text,
    ...subAgent,
  }),
  z.strictObject({
    type: z.literal('tool_end'),
    name: text,
    result: z.json(),
    status: z.enum(['succeeded', 'failed', 'denied', 'expired', 'error']),
    toolCallId: text,
    ...subAgent,
  }),
  z.strictObject({
    type: z.literal('agent_progress'),
    runId: text,
    status: progressStatus,
    partialOutput: text,
    toolsInvoked: z.array(text),
    runState: progressStatus,
    correlationId: text,
  }),
  z.strictObject({
    type: z.literal('error'),
    error: text,
    code: text,
    retryable: z.boolean(),
    ...runErrorSchema.shape.guardrail.unwrap().partial().shape,
  }),
  z.strictObject({ type: z.literal('agent_summary'), runId: text, trust: trustSchema }),
  z.strictObject({
    type: z.literal('done'),
    runId: text,
    status: z.enum(runtimeStatuses),
    conversationId: text,
    finishReason,
  }),
]);

/** An event of a session's journal; its `seq` is the id of the frame. */
export const sessionFrameSchema = z.intersection(sessionEventSchema, z.object({ at: text }));
