/** `/api/chat`: a conversation, its approvals and its resumption. */
import {
  pendingApprovalsOf,
  type ApprovalRecord,
  resumeSerializedAgentRun,
  type RunRecord,
} from '@relay/core';
import {
  defined,
  dialects,
  isEnded,
  RelayError,
  type ApprovalKind,
  type Frame,
  type OutcomeAnswer,
  type RunStatus,
  runtimeStatus,
} from '@relay/protocol';
import { notFound } from '../../errors.ts';
import { readAll } from '../../views/pagination.ts';
import { decide, statusNow } from '../governance/approvals.ts';
import { type ApiRequest, findRun, type Handler, type ResultOf, storeOf } from '../handler.ts';
import { buildSpec, modelRequired, startAndFollow, toolsOfAgent } from './start.ts';
import { collectUntilIdle } from './wait-until-idle.ts';
import { runHeader, streamRun } from '../../../streaming/stream-run.ts';

export const startApiChat: Handler<'startApiChat'> = async (call) => {
  const { run, batches } = await startAndFollow(call, () =>
    buildSpec(call, {
      ...call.body,
      surface: 'runtime',
      messages: [{ role: 'user', content: call.body.message }],
      prompt: 'append',
      tools: (agent) => ({ tools: toolsOfAgent(call, agent.tools) }),
      modelRequired,
    }),
  );
  void streamRun(call, { dialect: dialects.runtime, run, batches });
};

export const approveTool: Handler<'approveTool'> = async (call) => {
  const body = call.body;
  const run = await findRun(call, body.runId);
  const approval = await pendingApproval(call, run, body);
  const { action, outcome: answer, input, output, digest } = body;
  const approved = action === undefined ? undefined : action === 'approve';
  const outcome = await decide(call, {
    approvalId: approval.id,
    ...defined({ approved, outcome: answer, input, output, digest }),
    always: body.always === true,
    reason: body.reason ?? null,
  });
  if (outcome.kind === 'conflict' || outcome.kind === 'missing') {
    const status = outcome.kind === 'missing' ? 'closed' : statusNow(outcome.approval);
    throw new RelayError('approval_conflict', `This tool call is already ${status}`);
  }
  if (outcome.kind === 'duplicate' || outcome.kind === 'voted') {
    const { status } = await findRun(call, run.id);
    return { ok: true, status: statusOf(status), events: [] };
  }
  const { status, frames } = await collectUntilIdle(call, run, {
    after: run.lastSeq,
    decided: approval.id,
  });
  return { ok: true, status: statusOf(status), events: frames };
};

export const resumeChat: Handler<'resumeChat'> = async (call) => {
  const { runId } = call.body;
  const ref = { tenantId: call.caller.tenantId, runId };
  const resumed = await resumeSerializedAgentRun(call.context.control, ref);
  if (resumed === undefined) throw notFound('run');
  const { after } = resumed;
  const { status, frames } = await collectUntilIdle(call, resumed.run, { after });
  const pending = status === 'waiting' ? await requestsUpTo(call, runId, after) : [];
  return { ok: true, runId, status: statusOf(status), events: [...pending, ...frames] };
};

/** The requests up to the checkpoint that the run still waits for, as its stream has shown them. */
async function requestsUpTo(call: ApiRequest, runId: string, to: number): Promise<Frame[]> {
  const run = await findRun(call, runId);
  const frames: Frame[] = [];
  for (const { seq } of pendingApprovalsOf(run)) {
    if (seq === undefined || seq > to) continue;
    const [event] = await storeOf(call).readEvents(runId, { after: seq - 1, limit: 1 });
    if (event?.type !== 'approval.requested') continue;
    const frame = dialects.runtime.project(event, runHeader(run));
    if (frame !== undefined) frames.push(frame);
  }
  return frames;
}

interface ApprovalQuery {
  readonly toolCallId: string;
  readonly action?: 'approve' | 'reject' | undefined;
  readonly outcome?: OutcomeAnswer | undefined;
  readonly kind?: ApprovalKind | undefined;
  readonly approvalId?: string | undefined;
}

/**
 * The approval that the run's output names as pending, else what was decided about the call before. An
 * approval that the output does not name is missing.
 */
async function pendingApproval(
  call: ApiRequest,
  run: RunRecord,
  query: ApprovalQuery,
): Promise<ApprovalRecord> {
  const { toolCallId, action, kind, approvalId } = query;
  if (approvalId !== undefined) {
    const named = await storeOf(call).readApproval(approvalId);
    if (named?.runId === run.id && named.toolCallId === toolCallId) return named;
    throw approvalMissing(run, toolCallId);
  }
  const inOutput = await approvalInOutput(call, run, query);
  const found = inOutput ?? (await latestApproval(call, run, query, isDecided));
  if (found === undefined) throw approvalMissing(run, toolCallId);
  if (statusNow(found) === 'pending') await rejectRepeatedStart(call, run, query, found);
  if (found.kind === 'permission' || kind === found.kind || action !== 'approve') return found;
  // Approving is no answer to an open question about the outcome, and is refused as such.
  if (found.kind === 'outcome' && statusNow(found) === 'pending') return found;
  // Later it repeats the approval of the call.
  return (await latestApproval(call, run, { ...query, kind: 'permission' }, isDecided)) ?? found;
}

function approvalMissing({ id }: RunRecord, toolCallId: string): RelayError {
  return new RelayError(
    'approval_state_missing',
    `The run ${id} has no approval for the tool call ${toolCallId}`,
  );
}

/** A client that got no response because of a crash repeats its request: that must not start the call again. */
async function rejectRepeatedStart(
  call: ApiRequest,
  run: RunRecord,
  query: ApprovalQuery,
  { id, kind }: ApprovalRecord,
): Promise<void> {
  const { toolCallId, action, outcome } = query;
  const starts = kind === 'outcome' ? outcome === 'rerun' : action === 'approve';
  if (!starts || kind === 'question') return;
  const earlier = await latestApproval(call, run, { toolCallId, kind }, isDecided);
  // It may be the same approval, decided meanwhile by a request that was sent at the same time.
  if (earlier?.status !== 'approved' || earlier.id === id) return;
  throw new RelayError(
    'approval_conflict',
    `This answer was given before, and the tool call ${toolCallId} is asked about again. To give it again, set approvalId: ${id}`,
    { details: [{ path: 'approvalId', message: 'Required: this answer was given before' }] },
  );
}

async function approvalInOutput(
  call: ApiRequest,
  run: RunRecord,
  query: ApprovalQuery,
): Promise<ApprovalRecord | undefined> {
  for (const { toolCallId, approvalId } of pendingApprovalsOf(run)) {
    if (toolCallId !== query.toolCallId) continue;
    const approval =
      approvalId === undefined
        ? await latestApproval(call, run, query)
        : await storeOf(call).readApproval(approvalId);
    const matches = approval?.runId === run.id && (query.kind ?? approval.kind) === approval.kind;
    if (matches) return approval;
  }
  return undefined;
}

const isDecided = ({ status }: ApprovalRecord) => status !== 'pending';

async function latestApproval(
  call: ApiRequest,
  run: RunRecord,
  { toolCallId, kind }: ApprovalQuery,
  isWanted: (approval: ApprovalRecord) => boolean = () => true,
): Promise<ApprovalRecord | undefined> {
  const filter = defined({ runId: run.id, kind });
  const approvals = readAll((page) => storeOf(call).listApprovals(filter, page));
  for await (const approval of approvals) {
    if (approval.toolCallId === toolCallId && isWanted(approval)) return approval;
  }
  return undefined;
}

function statusOf(status: RunStatus): ResultOf<'resumeChat'>['status'] {
  return isEnded(status) ? runtimeStatus[status] : status;
}
