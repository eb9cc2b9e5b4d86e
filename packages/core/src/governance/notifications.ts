/** What webhooks are told: that something happened and where to look, never what a call contains. */
import type { StoredEvent, WebhookEvent } from '@relay/protocol';
import type { Notice, ApprovalDecision, ApprovalRecord, RunIdentity } from '../ports/index.ts';

export function noticesOfEvents(run: RunIdentity, events: readonly StoredEvent[]): Notice[] {
  return events.flatMap((event) => noticeOf(run, event));
}

function noticeOf(run: RunIdentity, event: StoredEvent): Notice[] {
  switch (event.type) {
    case 'approval.requested': {
      const {
        approvalId: id,
        kind,
        tool,
        toolCallId,
        agentId,
        agentPath,
        digest,
        expiresAt,
      } = event;
      const approval = { id, kind, tool, toolCallId, agentId, agentPath, digest, expiresAt };
      return [notice('approval.requested', id, of(run, event, { approval }))];
    }
    case 'approval.expiring': {
      const { approvalId: id, toolCallId, agentId, expiresAt } = event;
      const approval = { id, toolCallId, agentId, expiresAt };
      return [notice('approval.expiring', id, of(run, event, { approval }))];
    }
    case 'approval.expired': {
      const { approvalId: id, toolCallId, agentId } = event;
      return [
        notice('approval.expired', id, of(run, event, { approval: { id, toolCallId, agentId } })),
      ];
    }
    case 'run.ended':
      return [notice('run.ended', run.id, of(run, event, { more: { status: event.status } }))];
    default:
      return [];
  }
}

interface Said {
  readonly at: number;
  readonly run: RunIdentity;
  readonly approval?: object;
  readonly more?: object;
}

function of(run: RunIdentity, { at }: StoredEvent, said: Pick<Said, 'approval' | 'more'>): Said {
  return { at: Date.parse(at), run, ...said };
}

export function noticeOfDecision(
  run: RunIdentity,
  approval: ApprovalRecord,
  { status, at, by }: Pick<ApprovalDecision, 'status' | 'at' | 'by'>,
): Notice {
  const { id, kind, tool, toolCallId, agentId, digest } = approval;
  const told = { id, kind, tool, toolCallId, agentId, digest, status, decidedBy: by };
  return notice('approval.decided', id, { at, run, approval: told });
}

function notice(event: WebhookEvent, about: string, said: Said): Notice {
  const id = `${event}:${about}`;
  const { at, run, approval, more } = said;
  const payload = JSON.stringify({
    id,
    type: event,
    at: new Date(at).toISOString(),
    run: { id: run.id, agent: run.agent, conversationId: run.conversationId, ...more },
    ...(approval === undefined ? {} : { approval }),
  });
  return { id, event, at, payload };
}
