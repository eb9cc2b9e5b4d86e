/**
 * The journal events of a session: the members of `AgentSessionEvent` in specification 004, with its
 * fields and no other but `fidelity`. The journal adds `seq` and `at`.
 */
import { z } from 'zod';
import { agentStatuses } from '../schemas/names.ts';
import { jsonSchema, timeSchema } from '../schemas/values.ts';

/**
 * A `Date` of the specification. JSON has no dates: the wire and the journal have ISO strings, and a
 * harness in the same process may also emit a `Date`, which is converted here.
 */
const dateSchema = z.preprocess(
  (value) =>
    value instanceof Date && !Number.isNaN(value.getTime()) ? value.toISOString() : value,
  timeSchema,
) as unknown as z.ZodType<string, Date | string>;

const json: z.ZodType = jsonSchema;
const metadata = z.record(z.string(), json).optional();

export const transcriptChunkSchema = z.strictObject({
  id: z.string(),
  at: dateSchema,
  role: z.enum(['agent', 'user', 'system', 'tool']),
  content: z.string(),
  sequence: z.number(),
  metadata,
});
/** As a harness emits it; once stored, `at` is an ISO string. */
export type TranscriptChunk = z.input<typeof transcriptChunkSchema>;

const tool = { run: z.string().optional(), tool: z.string() };
const delivery = { deliveryId: z.string(), messageId: z.string() };
const action = { action: z.string(), invocationId: z.string() };
const retryable = z.boolean().optional();
const durationMs = z.number().optional();
const reason = z.string().optional();

export const sessionEventSchema = z.discriminatedUnion('type', [
  event('status.changed', {
    status: z.enum(agentStatuses),
    previousStatus: z.enum(agentStatuses).optional(),
    reason,
  }),
  event('tool.called', { ...tool, input: json.optional() }),
  event('tool.completed', { ...tool, output: json.optional(), durationMs }),
  event('tool.failed', { ...tool, error: z.string(), retryable }),
  event('tool.output', { ...tool, output: z.string() }),
  event('message.received', { messageId: z.string(), deliveryId: z.string().optional() }),
  event('message.sent', { messageId: z.string() }),
  event('delivery.accepted', delivery),
  event('delivery.delivered', delivery),
  event('delivery.deferred', { ...delivery, availableAt: dateSchema, reason }),
  event('delivery.failed', { ...delivery, reason: z.string(), retryable }),
  event('action.invoked', action),
  event('action.completed', { ...action, durationMs }),
  event('action.failed', { ...action, error: z.string(), retryable }),
  event('action.denied', { ...action, reason: z.string() }),
  event('transcript.chunk', { chunk: transcriptChunkSchema }),
  event('file.changed', {
    path: z.string(),
    operation: z.enum(['create', 'update', 'delete']),
    diff: z.string().optional(),
  }),
  event('command.started', { command: z.string(), cwd: z.string().optional() }),
  event('command.completed', { command: z.string(), exitCode: z.number().optional(), durationMs }),
  event('command.failed', {
    command: z.string(),
    error: z.string(),
    exitCode: z.number().optional(),
  }),
  event('terminal.output', {
    stream: z.enum(['stdout', 'stderr', 'combined']).optional(),
    text: z.string(),
  }),
  event('terminal.screen', {
    text: z.string(),
    rows: z.number().optional(),
    cols: z.number().optional(),
  }),
  /** The totals of the session so far, not what was added. */
  event('usage.updated', {
    tokens: z.number().nonnegative().optional(),
    costUsd: z.number().nonnegative().optional(),
    metadata,
  }),
  event('session.started', { sessionId: z.string() }),
  event('session.released', { sessionId: z.string(), reason }),
  event('session.resumed', { sessionId: z.string() }),
  event('session.forked', { sessionId: z.string(), parentSessionId: z.string() }),
  event('log', { level: z.enum(['debug', 'info', 'warn', 'error']), message: z.string() }),
  event('error', { error: z.string(), code: z.string().optional(), retryable }),
]);

/** As a harness emits it. */
export type AgentSessionEvent = z.input<typeof sessionEventSchema>;
/** As it is stored and sent. */
export type SessionEvent = z.output<typeof sessionEventSchema>;
export type SessionEventOf<Type extends SessionEvent['type']> = Extract<
  SessionEvent,
  { type: Type }
>;
export type StoredSessionEvent = SessionEvent & { seq: number; at: string };

/** `inferred`: the harness concluded it, because the session does not report it. */
function event<Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) {
  return z.strictObject({
    type: z.literal(type),
    ...shape,
    fidelity: z.literal('inferred').optional(),
  });
}
