/** The notices of webhooks: that something happened and where to read more, never a call's content. */
import {
  defined,
  displayOf,
  type EventOf,
  type OutcomeAnswer,
  type StoredEvent,
  type WebhookEvent,
} from '@relay/protocol';
import type {
  ApprovalDecision,
  ApprovalRecord,
  ApprovalVotes,
  EditedCall,
  NewApproval,
  Notice,
  RunIdentity,
  Vote,
} from '../ports/index.ts';

export function noticesOfEvents(run: RunIdentity, events: readonly StoredEvent[]): Notice[] {
  return events.flatMap((event) => noticeOf(run, event) ?? []);
}

function noticeOf(run: RunIdentity, event: StoredEvent): Notice | undefined {
  const at = () => Date.parse(event.at);
  switch (event.type) {
    case 'approval.requested': {
      const { approvalId: id, kind, tool, toolCallId, agentId, agentPath } = event;
      const { digest, expiresAt } = event;
      const { flags } = displayOf(event);
      const request = { id, kind, tool, toolCallId, agentId, agentPath, digest, expiresAt };
      const approval = flags.length === 0 ? request : { ...request, flags };
      return noticeOfApproval('approval.requested', at(), run, approval);
    }
    case 'approval.expiring': {
      const approval = { ...openApprovalOf(event), expiresAt: event.expiresAt };
      return noticeOfApproval('approval.expiring', at(), run, approval);
    }
    case 'approval.expired':
      return noticeOfApproval('approval.expired', at(), run, openApprovalOf(event));
    case 'run.ended':
      return notice('run.ended', run.id, at(), {
        run: { ...runFields(run), status: event.status },
      });
    default:
      return undefined;
  }
}

function openApprovalOf(event: EventOf<'approval.expiring' | 'approval.expired'>) {
  const { approvalId: id, kind, tool, toolCallId, agentId } = event;
  return { id, ...defined({ kind, tool }), toolCallId, agentId };
}

/** An approval without a run. */
export function noticeOfRequest(approval: NewApproval, flags: readonly string[]): Notice {
  const { requestedAt, expiresAt, agentPath } = approval;
  const request = {
    ...requestOf(approval),
    agentPath,
    expiresAt: new Date(expiresAt).toISOString(),
    ...(flags.length === 0 ? {} : { flags }),
  };
  return noticeOfApproval('approval.requested', requestedAt, undefined, request);
}

/** Of an approval without a run. */
export function noticeOfExpiry(
  event: 'approval.expiring' | 'approval.expired',
  approval: NewApproval,
  at: number,
): Notice {
  const expiresAt = new Date(approval.expiresAt).toISOString();
  const { id, kind, tool, sessionId, invocationId } = approval;
  const expiring = event === 'approval.expiring' ? { expiresAt } : {};
  return noticeOfApproval(event, at, undefined, {
    id,
    kind,
    tool,
    ...defined({ sessionId, invocationId }),
    ...expiring,
  });
}

function requestOf(approval: NewApproval) {
  const { id, kind, tool, toolCallId, agentId, sessionId, invocationId, digest } = approval;
  return { id, kind, tool, ...defined({ toolCallId, agentId, sessionId, invocationId }), digest };
}

export function noticeOfDecision(
  run: RunIdentity | undefined,
  approval: ApprovalRecord,
  decision: Pick<ApprovalDecision, 'status' | 'at' | 'by'> & {
    readonly outcome: OutcomeAnswer | undefined;
    readonly edited: EditedCall | undefined;
  },
): Notice {
  const { status, at, by, outcome, edited } = decision;
  const decided = { ...requestOf(approval), status, decidedBy: by };
  // What was approved, if the approver changed the arguments.
  const executed = defined({ outcome, executedDigest: edited?.digest });
  return noticeOfApproval('approval.decided', at, run, { ...decided, ...executed });
}

/** A vote that is not the last. */
export function noticeOfVote(
  run: RunIdentity | undefined,
  approval: ApprovalRecord,
  { at, by }: Vote,
  { votes, quorum, edited }: ApprovalVotes,
): Notice {
  const voted = { ...requestOf(approval), votedBy: by };
  const executed = defined({ executedDigest: edited?.digest });
  const progress = { ...voted, ...executed, votes: votes.length, quorum };
  // An approval may get several votes.
  const subject = `${approval.id}:${approval.ballot + 1}`;
  return notice('approval.voted', subject, at, { ...runOf(run), approval: progress });
}

function noticeOfApproval(
  type: WebhookEvent,
  at: number,
  run: RunIdentity | undefined,
  approval: { readonly id: string; readonly [field: string]: unknown },
): Notice {
  return notice(type, approval.id, at, { ...runOf(run), approval });
}

function runOf(run: RunIdentity | undefined) {
  return run === undefined ? {} : { run: runFields(run) };
}

function runFields({ id, agent, conversationId }: RunIdentity) {
  return { id, agent, conversationId };
}

function notice(event: WebhookEvent, subject: string, at: number, fields: object): Notice {
  const id = `${event}:${subject}`;
  const payload = { id, type: event, at: new Date(at).toISOString(), ...fields };
  return { id, event, at, payload: JSON.stringify(payload) };
}
