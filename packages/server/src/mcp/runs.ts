/**
 * The tools for runs. A call waits for a bounded time until the run ends or waits for a person, and then says
 * how to go on. The run does not depend on the call: a client that disconnects ends the wait alone.
 */
import type { InputRequiredResult } from '@modelcontextprotocol/server';
import { type RunRecord, unreadMessages } from '@relay/core';
import {
  defined,
  escapeMisleading,
  isEnded,
  RelayError,
  type ResponseOf,
  type RunStatus,
  type StoredEvent,
} from '@relay/protocol';
import { z } from 'zod';
import { invalidField } from '../http/errors.ts';
import { type ApiRequest, findRun, storeOf } from '../http/handlers/handler.ts';
import { specOf } from '../http/handlers/runs/runs.ts';
import { startRun } from '../http/handlers/runs/start.ts';
import { waitUntilIdle } from '../http/handlers/runs/wait-until-idle.ts';
import { check } from '../http/validate.ts';
import { listOf, type ToolAnswer } from './answer.ts';
import { type Arguments, callRoute, type Exchange, inputOf, textsOf } from './call-route.ts';
import { answerIn, askUser, decideQuestion, type UserAnswered } from './questions.ts';

type Answer = Promise<ToolAnswer | InputRequiredResult>;

/** Below the 60 seconds after which many clients give up. */
const defaultWaitMs = 25_000;
const waitSchema = z.looseObject({ waitMs: z.int().min(0).max(60_000).optional() });

function withoutWait(args: Arguments): Arguments {
  const { waitMs: _, ...rest } = args;
  return rest;
}

function waitOf(args: Arguments, byDefault = defaultWaitMs): number {
  return check(waitSchema, args).waitMs ?? byDefault;
}

export async function runStart(call: ApiRequest, args: Arguments, exchange: Exchange): Answer {
  const waitMs = waitOf(args);
  const answered = answerIn(exchange);
  if (answered !== undefined) return continueRun(call, exchange, answered, waitMs);
  const started = await start(call, withoutWait(args), exchange);
  return waitFor(call, exchange, { ...started, waitMs });
}

/** By the one start path. An agent that names no tools has those of the tenant, as for `/api/chat`. */
async function start(
  call: ApiRequest,
  body: Arguments,
  { idempotencyKey }: Exchange,
): Promise<Pick<Waiting, 'id' | 'isNew'>> {
  const request = { ...call, ...inputOf('startRun', { body }), idempotencyKey };
  const { id, replayed } = await startRun(request, () => specOf(request, ({ tools }) => tools));
  return { id, isNew: !replayed };
}

export async function runGet(call: ApiRequest, args: Arguments, exchange: Exchange): Answer {
  const waitMs = waitOf(args, 0);
  const { id } = inputOf('getRun', { params: withoutWait(args) }).params;
  const answered = answerIn(exchange);
  if (answered !== undefined && answered.asked.runId !== id) {
    throw invalidField('id', 'Not the run of this question');
  }
  if (answered !== undefined) return continueRun(call, exchange, answered, waitMs);
  return waitFor(call, exchange, { id, waitMs });
}

/** A message to a run that has ended continues its conversation with a new run. */
export async function runMessage(call: ApiRequest, args: Arguments, exchange: Exchange): Answer {
  const waitMs = waitOf(args);
  const { id: given, ...body } = withoutWait(args);
  const { id } = inputOf('getRun', { params: { id: given } }).params;
  const answered = answerIn(exchange);
  if (answered !== undefined) return continueRun(call, exchange, answered, waitMs);
  try {
    const message = await callRoute(call, 'messageRun', { params: { id }, body });
    return await waitFor(call, exchange, { id, waitMs, messageId: message.id });
  } catch (error) {
    if (!(error instanceof RelayError && error.code === 'run_ended')) throw error;
  }
  const { agent, model, conversationId } = await findRun(call, id);
  const input = body['text'];
  const next = await start(call, { input, agent, model, conversationId }, exchange);
  return waitFor(call, exchange, { ...next, waitMs });
}

/** Not waited for: tools get some time to finish. */
export async function runCancel(call: ApiRequest, args: Arguments): Promise<ToolAnswer> {
  const { id, status } = await callRoute(call, 'cancelRun', { params: args });
  if (isEnded(status)) return { text: `Run ${id} ${status}`, data: { id, status } };
  const next = 'It is being canceled: run_get shows when it has ended';
  return { text: `Run ${id} ${status}\n${next}`, data: { id, status, next } };
}

interface Waiting {
  readonly id: string;
  readonly waitMs: number;
  /** Nothing of it was seen before. */
  readonly isNew?: boolean;
  /** The question that was decided, and the run before that. */
  readonly decided?: { readonly approvalId: string; readonly run: RunRecord };
  /** The user was asked already, and did not answer. */
  readonly isDismissed?: boolean;
  /** What the caller sent to the run. */
  readonly messageId?: string;
}

async function waitFor(call: ApiRequest, exchange: Exchange, waiting: Waiting): Answer {
  const { id, waitMs, isNew = false, decided, isDismissed = false } = waiting;
  const run = decided?.run ?? (await findRun(call, id));
  const progress = progressOf(exchange);
  progress(`Run ${id}`);
  const status = await waitUntilIdle(call, run, {
    after: isNew ? 0 : run.lastSeq,
    timeoutMs: waitMs,
    onEvents: (events) => events.map(describe).forEach(progress),
    ...defined({ decided: decided?.approvalId }),
  });
  const mayAsk = status === 'waiting' && waitMs > 0 && !isDismissed;
  const question = mayAsk ? await askUser(call, exchange, id) : undefined;
  return question ?? answerOf(call, waiting, status);
}

/** Goes on with the answer of the user, to the question that the state of the call names. */
async function continueRun(
  call: ApiRequest,
  exchange: Exchange,
  { asked, answer }: UserAnswered,
  waitMs: number,
): Answer {
  const { runId: id, approvalId } = asked;
  const run = await findRun(call, id);
  const isDecided = await decideQuestion(call, asked, answer);
  return waitFor(call, exchange, {
    id,
    waitMs,
    isDismissed: answer.kind === 'dismissed',
    ...defined({ decided: isDecided ? { approvalId, run } : undefined }),
  });
}

/** Notifications for a client that asked for them; others get none. */
function progressOf({ client }: Exchange): (message: string | undefined) => void {
  const progressToken = client._meta?.progressToken;
  let progress = 0;
  return (message) => {
    if (progressToken === undefined || message === undefined) return;
    progress += 1;
    const params = { progressToken, progress, message };
    // The client may be gone.
    client.notify({ method: 'notifications/progress', params }).catch(() => undefined);
  };
}

function describe(event: StoredEvent): string | undefined {
  switch (event.type) {
    case 'turn.started':
      return `Turn ${event.turn}`;
    case 'tool.started':
      return `Runs ${event.name}`;
    default:
      return undefined;
  }
}

const maxOutputChars = 20_000;
const maxLastChars = 500;

/**
 * As short as a model needs it: the result, or what the run waits for. What to do next is in both forms of the
 * answer, because a client gives its model only one of them.
 */
async function answerOf(
  call: ApiRequest,
  { id, messageId }: Waiting,
  status: RunStatus,
): Promise<ToolAnswer> {
  const { output, error, conversationId, finishReason } = await callRoute(call, 'getRun', {
    params: { id },
  });
  const isOver = isEnded(status);
  const unread = await unreadMessages(storeOf(call), id);
  const isUnread = messageId !== undefined && unread.includes(messageId);
  const waitsFor = status === 'waiting' ? await openApprovals(call, id) : undefined;
  const lastText = isOver ? undefined : await lastTextOf(call, id);
  const shown = output === undefined ? undefined : shorten(output, maxOutputChars);
  const next = nextStep(status, waitsFor, isUnread);
  const data = {
    id,
    status,
    conversationId,
    ...defined({ output: shown, error, lastText, waitsFor, messageId, next }),
    ...defined({
      unread: unread.length > 0 ? unread.length : undefined,
      finishReason: finishReason === 'stop' ? undefined : finishReason,
    }),
  };
  const why = error === undefined ? '' : `: ${error.code}: ${error.message}`;
  const lines = [
    `Run ${id} ${status}${why}`,
    next,
    ...(waitsFor ?? []).map(({ kind, approvalId, text }) => `${kind} ${approvalId}: ${text}`),
    shown ?? lastText,
  ];
  const text = lines.filter((line) => line !== undefined).join('\n');
  const isError = status === 'failed' || status === 'canceled' ? true : undefined;
  return { text, data, ...defined({ isError }) };
}

/** What the caller can do about it, if anything. */
function nextStep(
  status: RunStatus,
  waitsFor: readonly OpenApproval[] | undefined,
  isUnread: boolean,
): string | undefined {
  if (isEnded(status)) {
    return isUnread
      ? 'It ended before it read your message: call run_message again to continue'
      : undefined;
  }
  if (status !== 'waiting') return 'Wait for it: run_get with waitMs';
  return waitsFor?.length === 0
    ? 'It waits for the program that started it'
    : 'Only a person can decide: relay approvals show APPROVAL_ID. Then run_get';
}

interface OpenApproval {
  readonly approvalId: string;
  readonly kind: Approval['kind'];
  readonly tool: string;
  readonly text: string;
}

async function openApprovals(call: ApiRequest, runId: string): Promise<OpenApproval[]> {
  const query = { runId, status: 'pending', limit: '20' };
  const { approvals } = await callRoute(call, 'listApprovals', { query });
  return approvals.map(({ id: approvalId, ...approval }) => ({
    approvalId,
    kind: approval.kind,
    tool: approval.tool,
    text: shownText(approval),
  }));
}

type Approval = ResponseOf<'getApproval'>;

/** What approvers see of it first, with misleading characters made visible. */
function shownText({
  prompt,
  display,
}: Pick<Approval, 'prompt'> & { readonly display: Pick<Approval['display'], 'text'> }): string {
  const text = prompt === undefined ? display.text : escapeMisleading(prompt);
  return shorten(text, maxLastChars);
}

/** Read-only. */
export async function approvalsList(call: ApiRequest, args: Arguments): Promise<ToolAnswer> {
  const query = { limit: '20', ...textsOf(args), status: 'pending' };
  const { approvals, nextCursor } = await callRoute(call, 'listApprovals', { query });
  const shown = approvals.map(({ id, kind, tool, runId, expiresAt, ...approval }) => ({
    id,
    kind,
    tool,
    ...defined({ runId }),
    expiresAt,
    text: shownText(approval),
  }));
  return listOf('approvals', shown, nextCursor, ({ id, kind, runId, expiresAt, text }) => {
    const of = runId === undefined ? '' : ` of run ${runId}`;
    return `[${id}] ${kind}${of} until ${expiresAt}:\n${text}`;
  });
}

const lastEvents = 200;

/** The end of what the root agent has written last. */
async function lastTextOf(call: ApiRequest, id: string): Promise<string | undefined> {
  const { lastSeq } = await findRun(call, id);
  const range = { after: Math.max(0, lastSeq - lastEvents), limit: lastEvents };
  const texts = (await storeOf(call).readEvents(id, range)).flatMap((event) =>
    event.type === 'text.appended' && event.parentId === undefined ? [event] : [],
  );
  const textId = texts.at(-1)?.textId;
  const text = texts.flatMap((each) => (each.textId === textId ? [each.text] : [])).join('');
  return text === '' ? undefined : text.slice(-maxLastChars);
}

function shorten(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  return `${text.slice(0, maxChars)}… (${text.length - maxChars} more characters)`;
}
