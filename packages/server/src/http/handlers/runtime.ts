/** `/api/chat`: a conversation, its approvals and its resumption. */
import {
  answerApproval,
  pendingApprovalOf,
  type ApprovalRecord,
  resumeSerializedAgentRun,
  type RunRecord,
} from '@relay/core';
import {
  type apiChatBodySchema,
  dialects,
  isEnded,
  RelayError,
  type ApprovalKind,
  type resumeBodySchema,
  type RunStatus,
  runtimeStatus,
  type toolApprovalBodySchema,
} from '@relay/protocol';
import type { z } from 'zod';
import { notFound } from '../errors.ts';
import { statusNow } from './approvals.ts';
import { findRun, storeOf } from './find.ts';
import type { Call, Handler } from './handler.ts';
import {
  chooseAgent,
  chooseModel,
  choosePermissions,
  chooseTools,
  findReplay,
  openingFor,
  startAndFollow,
} from './start.ts';
import { collectUntilIdle } from '../../streaming/collect-until-idle.ts';
import { streamOut } from '../../streaming/stream-run.ts';

export const startApiChat: Handler = async (call) => {
  const { runtime: dialect } = dialects;
  const replay = await findReplay(call);
  if (replay !== undefined) return streamOut(call, { dialect, ...replay });
  const body = call.body as z.infer<typeof apiChatBodySchema>;
  const agent = chooseAgent(call, body.agent);
  const { conversationId } = body;
  const { run, batches } = await startAndFollow(call, {
    surface: 'runtime',
    ...openingFor(call, agent, body),
    model: await chooseModel(
      call,
      body.model ?? agent.model,
      'model is required: the server has no default',
    ),
    messages: [{ role: 'user', content: body.message }],
    prompt: 'continues',
    tools: chooseTools(call, agent.tools),
    permissions: choosePermissions(call, body.permissions),
    ...(conversationId === undefined ? {} : { conversationId }),
  });
  return streamOut(call, { dialect, run, batches });
};

export const approveTool: Handler = async (call) => {
  const body = call.body as z.infer<typeof toolApprovalBodySchema>;
  const run = await findRun(call, body.runId);
  const approval = await pendingApproval(call, run, body);
  const approved = body.action === 'approve';
  const outcome = await answerApproval(call.context.control, call.caller.tenantId, {
    approvalId: approval.id,
    approved,
    always: approved && body.always === true,
    reason: body.reason ?? null,
    ...(body.input === undefined ? {} : { input: body.input }),
    by: call.caller.as,
  });
  if (outcome.kind === 'contradicted' || outcome.kind === 'missing') {
    const status = outcome.kind === 'missing' ? 'closed' : statusNow(outcome.approval);
    throw new RelayError('approval_conflict', `This tool call is already ${status}`);
  }
  if (outcome.kind === 'repeated') {
    const { status } = await findRun(call, run.id);
    return { ok: true, status: statusOf(status), events: [] };
  }
  const still = await collectUntilIdle(call, run, { after: run.lastSeq, decided: approval.id });
  return { ok: true, status: statusOf(still.status), events: still.frames };
};

export const resumeChat: Handler = async (call) => {
  const { runId } = call.body as z.infer<typeof resumeBodySchema>;
  const ref = { tenantId: call.caller.tenantId, runId };
  const resumed = await resumeSerializedAgentRun(call.context.control, ref);
  if (resumed === undefined) throw notFound('run');
  const still = await collectUntilIdle(call, resumed.run, { after: resumed.after });
  return { ok: true, runId, status: statusOf(still.status), events: still.frames };
};

interface Wanted {
  readonly toolCallId: string;
  readonly action: 'approve' | 'reject';
  readonly kind?: ApprovalKind | undefined;
}

/** What the run's own output says is pending, or else the last request about that call. */
async function pendingApproval(
  call: Call,
  run: RunRecord,
  wanted: Wanted,
): Promise<ApprovalRecord> {
  const { toolCallId, action, kind } = wanted;
  const named = await namedByOutput(call, run, wanted);
  const found = named ?? (await latestApproval(call, run, wanted));
  if (found === undefined) {
    throw new RelayError(
      'approval_state_missing',
      `The run ${run.id} has no approval for the tool call ${toolCallId}`,
    );
  }
  if (found.kind === 'permission' || kind === found.kind || action === 'reject') return found;
  // Sent again after a crash, an approval must not become one to run the tool a second time.
  return (await latestApproval(call, run, { ...wanted, kind: 'permission' })) ?? found;
}

async function namedByOutput(
  call: Call,
  run: RunRecord,
  { toolCallId, kind }: Wanted,
): Promise<ApprovalRecord | undefined> {
  const { toolCallId: pending, approvalId = '' } = pendingApprovalOf(run) ?? {};
  if (pending !== toolCallId) return undefined;
  const approval = await storeOf(call).readApproval(approvalId);
  const isMeant = approval?.runId === run.id && (kind ?? approval.kind) === approval.kind;
  return isMeant ? approval : undefined;
}

async function latestApproval(
  call: Call,
  run: RunRecord,
  { toolCallId, kind }: Wanted,
): Promise<ApprovalRecord | undefined> {
  const store = storeOf(call);
  const filter = kind === undefined ? { runId: run.id } : { runId: run.id, kind };
  const limit = 200;
  let page = await store.listApprovals(filter, { limit });
  for (;;) {
    const found = page.find((approval) => approval.toolCallId === toolCallId);
    const last = page.at(-1);
    if (found !== undefined || last === undefined || page.length < limit) return found;
    page = await store.listApprovals(filter, {
      limit,
      before: { at: last.requestedAt, id: last.id },
    });
  }
}

function statusOf(status: RunStatus): string {
  return isEnded(status) ? runtimeStatus[status] : status;
}
