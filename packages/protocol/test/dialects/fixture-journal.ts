/**
 * One run with every event type of the catalogue, for the golden tests of the dialects.
 *
 * Whatever no reader of a dialect may see carries the mark `hidden`, so that a leak shows.
 */
import type { RunEvent, StoredEvent } from '../../src/events/catalogue.ts';
import type { Dialect, RunHeader } from '../../src/dialects/dialect.ts';

function id(n: number): string {
  return `01963a5c-7890-7abc-8ef0-${String(n).padStart(12, '0')}`;
}

export const runId = id(1);
export const conversationId = id(2);
export const rootId = id(3);
export const subId = id(4);
export const firstTextId = id(5);
export const textId = id(6);
export const reasoningId = id(7);
export const progressId = id(8);
export const subTextId = id(9);
export const subReasoningId = id(10);
export const bashApprovalId = id(11);
export const fetchApprovalId = id(12);
export const noteApprovalId = id(13);
export const subApprovalId = id(14);

export const hidden = 'hidden';
export const header: RunHeader = { runId, conversationId, correlationId: 'req-7' };

const root = { agentId: rootId };
const sub = { agentId: subId, parentId: rootId };
const rule = { list: 'allowlist', index: 0, source: 'request', id: 'hidden-rule' } as const;
const by = { type: 'key', id: 'hidden-key-id', name: 'hidden-key-name' } as const;
const approval = { digest: 'hidden-digest', agentPath: ['hidden-path'] };
const expiresAt = '2026-03-02T10:00:00.000Z';
export const earlierDenial = {
  at: '2026-03-01T09:59:00.000Z',
  by: { type: 'key', id: 'key-1', name: 'Ann' },
  reason: 'Not now',
} as const;
export const messageId = id(21);
export const sender = { type: 'session', id: id(20), name: 'ada' } as const;
const failure = { code: 'provider_failed', message: 'The model is overloaded', retryable: true };

const sum = { ...root, toolCallId: 'call_sum', name: 'calculator' };
const bash = { ...root, toolCallId: 'call_bash', name: 'bash' };
const fetch = { ...root, toolCallId: 'call_fetch~2', name: 'fetch' };
const note = { ...root, toolCallId: 'call_note', name: 'send_note' };
const look = { ...sub, toolCallId: 'call_look', name: 'look_up' };

function approvalOf(
  call: { agentId: string; parentId?: string; toolCallId: string },
  approvalId: string,
) {
  const { agentId, parentId, toolCallId } = call;
  return { agentId, ...(parentId === undefined ? {} : { parentId }), approvalId, toolCallId };
}

const script: readonly RunEvent[] = [
  {
    type: 'run.created',
    surface: 'runs',
    agent: 'assistant',
    model: 'demo',
    conversationId,
    correlationId: 'req-7',
    system: 'hidden-instructions',
    messages: [{ role: 'user', content: 'hidden-prompt' }],
    history: null,
    tools: ['calculator', 'bash', 'fetch', 'send_note'],
    permissions: { allowlist: [{ tool: 'bash', params: { command: 'hidden-pattern' } }] },
    maxIterations: 10,
    context: { token: 'hidden-secret' },
    labels: { team: 'hidden-label' },
  },
  { type: 'run.started', progress: { partialOutput: '', toolsInvoked: [] } },
  { type: 'agent.started', ...root, name: 'assistant', model: 'demo' },
  { type: 'turn.started', ...root, turn: 1, textId: firstTextId, reasoningId: id(15) },
  { type: 'text.appended', ...root, textId: firstTextId, text: 'Let me' },
  {
    type: 'turn.discarded',
    ...root,
    turn: 1,
    textId: firstTextId,
    after: 4,
    reason: 'retry',
  },
  { type: 'turn.started', ...root, turn: 1, textId, reasoningId },
  { type: 'reasoning.appended', ...root, reasoningId, text: 'A product.' },
  { type: 'text.appended', ...root, textId, text: '23' },
  { type: 'text.appended', ...root, textId, text: ' *' },
  { type: 'tool.called', ...sum, input: { a: 23, b: 47, op: '*' } },
  { type: 'tool.called', ...bash, input: { command: 'rm -rf ./temp' } },
  {
    type: 'tool.called',
    ...fetch,
    providerCallId: 'hidden-provider-id',
    input: { url: 'https://example.com' },
  },
  { type: 'tool.called', ...note, input: { to: 'ann', text: 'hi' } },
  {
    type: 'turn.completed',
    ...root,
    turn: 1,
    finishReason: 'tool_calls',
    usage: { inputTokens: 234, outputTokens: 12 },
  },
  {
    type: 'approval.requested',
    ...approvalOf(bash, bashApprovalId),
    ...approval,
    kind: 'permission',
    tool: 'bash',
    params: { command: 'rm -rf ./temp' },
    expiresAt,
  },
  {
    type: 'approval.requested',
    ...approvalOf(fetch, fetchApprovalId),
    ...approval,
    kind: 'permission',
    tool: 'fetch',
    params: { url: 'https://example.com' },
    expiresAt,
  },
  {
    type: 'approval.requested',
    ...approvalOf(note, noteApprovalId),
    ...approval,
    kind: 'permission',
    tool: 'send_note',
    params: { to: 'ann', text: 'hi' },
    earlierDenial,
    expiresAt,
  },
  {
    type: 'tool.started',
    ...sum,
    input: { a: 23, b: 47, op: '*' },
    idempotencyKey: 'hidden-idempotency-key',
    rule,
  },
  { type: 'tool.progressed', ...sum, progressId, content: 'halfway' },
  { type: 'tool.completed', ...sum, context: '23 * 47 = 1081', result: 1081, durationMs: 987_654 },
  {
    type: 'run.suspended',
    progress: { partialOutput: '23 *', toolsInvoked: ['calculator'] },
    approvalIds: [bashApprovalId, fetchApprovalId, noteApprovalId],
  },
  { type: 'run.resumed', progress: { partialOutput: '23 *', toolsInvoked: ['calculator'] } },
  {
    type: 'approval.decided',
    ...approvalOf(bash, bashApprovalId),
    approved: true,
    always: true,
    input: { command: 'rm -rf ./tmp' },
    digest: 'hidden-digest',
    by,
  },
  {
    type: 'tool.started',
    ...bash,
    input: { command: 'rm -rf ./tmp' },
    idempotencyKey: 'hidden-idempotency-key',
    approvalId: bashApprovalId,
  },
  {
    type: 'tool.failed',
    ...bash,
    error: 'No such folder',
    code: 'tool_failed',
    durationMs: 987_654,
  },
  { type: 'approval.expired', ...approvalOf(fetch, fetchApprovalId) },
  {
    type: 'tool.denied',
    ...fetch,
    status: 'expired',
    reason: 'Nobody answered in time',
    approvalId: fetchApprovalId,
  },
  {
    type: 'approval.decided',
    ...approvalOf(note, noteApprovalId),
    approved: false,
    reason: 'Not now',
    by,
  },
  {
    type: 'tool.denied',
    ...note,
    status: 'denied',
    reason: 'Not now',
    rule,
    approvalId: noteApprovalId,
  },
  { type: 'agent.handed-off', ...root, from: 'assistant', to: 'researcher' },
  {
    type: 'agent.switched',
    ...root,
    name: 'researcher',
    model: 'demo',
    system: 'hidden-instructions',
    tools: ['agent'],
  },
  {
    type: 'context.compacted',
    ...root,
    model: 'demo',
    summary: 'hidden-summary',
    ofHistory: 0,
    ofRun: 1,
    generation: 0,
    usage: { inputTokens: 0, outputTokens: 0 },
  },
  {
    type: 'agent.started',
    ...sub,
    name: 'helper',
    model: 'demo',
    spawned: { toolCallId: 'call_sub', nth: 1, task: 'hidden-task', tools: ['look_up'] },
  },
  { type: 'turn.started', ...sub, turn: 1, textId: id(16), reasoningId: id(17) },
  { type: 'text.appended', ...sub, textId: id(16), text: 'sub lost' },
  { type: 'turn.discarded', ...sub, turn: 1, textId: id(16), after: 35, reason: 'crash' },
  { type: 'turn.started', ...sub, turn: 1, textId: subTextId, reasoningId: subReasoningId },
  { type: 'reasoning.appended', ...sub, reasoningId: subReasoningId, text: 'sub thought' },
  { type: 'text.appended', ...sub, textId: subTextId, text: 'sub text' },
  { type: 'tool.called', ...look, input: { word: 'relay' } },
  {
    type: 'turn.completed',
    ...sub,
    turn: 1,
    finishReason: 'tool_calls',
    usage: { inputTokens: 5, outputTokens: 6 },
  },
  { type: 'limit.reached', ...sub, limit: 'tokens' },
  {
    type: 'approval.requested',
    ...approvalOf(look, subApprovalId),
    ...approval,
    agentPath: ['researcher', 'helper'],
    kind: 'outcome',
    tool: 'look_up',
    params: { word: 'relay' },
    expiresAt,
  },
  { type: 'approval.expiring', ...approvalOf(look, subApprovalId), expiresAt },
  { type: 'run.errored', error: failure },
  { type: 'approval.closed', ...approvalOf(look, subApprovalId), reason: failure.message },
  { type: 'tool.failed', ...look, error: failure.message, code: 'provider_failed' },
  {
    type: 'agent.ended',
    ...sub,
    reason: 'failed',
    iterations: 1,
    usage: { inputTokens: 5, outputTokens: 6 },
    output: 'hidden-output',
    error: { ...failure, message: 'hidden-failure' },
  },
  {
    type: 'memory.recalled',
    ...root,
    namespace: 'hidden-namespace',
    memories: [{ id: id(18), text: 'hidden-memory', score: 0.5 }],
  },
  { type: 'memory.stored', ...root, namespace: 'hidden-namespace', memoryId: id(19) },
  {
    type: 'message.added',
    ...root,
    messageId,
    deliveryId: id(22),
    mode: 'immediate',
    from: sender,
    channel: 'ops',
    content: 'Look at the logs first',
  },
  {
    type: 'agent.ended',
    ...root,
    reason: 'failed',
    iterations: 1,
    usage: { inputTokens: 234, outputTokens: 12 },
  },
  {
    type: 'run.summarized',
    trust: {
      toolsInvoked: ['calculator', 'bash'],
      toolFailures: 2,
      evidenceCitations: [{ toolCallId: 'call_sum', tool: 'calculator' }],
      evidenceHash: 'e5a1',
      confidence: 1 / 3,
      missingEvidence: [],
      verificationSteps: [],
      retryAttempts: 1,
      durationMs: 1200,
    },
  },
  {
    type: 'run.ended',
    status: 'failed',
    output: '23 *',
    usage: { inputTokens: 239, outputTokens: 18 },
    agent: 'researcher',
    error: failure,
    finishReason: 'length',
  },
];

const at = '2026-03-01T10:00:00.000Z';

/** An event in its place. */
export function placed<Event extends RunEvent>(event: Event, seq = 1): Event & StoredEvent {
  return { ...event, seq, at } as Event & StoredEvent;
}

export const journal: readonly StoredEvent[] = script.map((event, index) =>
  placed(event, index + 1),
);

/** A frame as it goes over the wire, where a field that is undefined does not exist. */
export function onTheWire(frame: unknown): unknown {
  return frame === undefined ? undefined : (JSON.parse(JSON.stringify(frame)) as unknown);
}

/** The frames of the whole journal, each with the `seq` that is its SSE id. */
export function framesOf(dialect: Dialect): (readonly [seq: number, frame: unknown])[] {
  return journal.flatMap((event) => {
    const frame = onTheWire(dialect.project(event, header));
    return frame === undefined ? [] : [[event.seq, frame] as const];
  });
}

/** The same value, in which nothing can be changed. */
export function deepFreeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) deepFreeze(part);
    Object.freeze(value);
  }
  return value;
}
