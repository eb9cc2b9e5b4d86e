/** What webhooks are told: that something happened and where to look, never what a call contains. */
import type { StoredEvent, WebhookEvent } from '@relay/protocol';
import type { Notice, RelayDecision, RelayRecord, RunIdentity } from '../ports/index.ts';

export function noticesOfEvents(run: RunIdentity, events: readonly StoredEvent[]): Notice[] {
  return events.flatMap((event) => noticeOf(run, event));
}

function noticeOf(run: RunIdentity, event: StoredEvent): Notice[] {
  switch (event.type) {
    case 'relay.raised': {
      const { relayId: id, kind, tool, toolCallId, agentId, agentPath, digest, expiresAt } = event;
      const relay = { id, kind, tool, toolCallId, agentId, agentPath, digest, expiresAt };
      return [notice('relay.raised', id, of(run, event, { relay }))];
    }
    case 'relay.expiring': {
      const { relayId: id, toolCallId, agentId, expiresAt } = event;
      const relay = { id, toolCallId, agentId, expiresAt };
      return [notice('relay.expiring', id, of(run, event, { relay }))];
    }
    case 'relay.expired': {
      const { relayId: id, toolCallId, agentId } = event;
      return [notice('relay.expired', id, of(run, event, { relay: { id, toolCallId, agentId } }))];
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
  readonly relay?: object;
  readonly more?: object;
}

function of(run: RunIdentity, { at }: StoredEvent, said: Pick<Said, 'relay' | 'more'>): Said {
  return { at: Date.parse(at), run, ...said };
}

export function noticeOfDecision(
  run: RunIdentity,
  relay: RelayRecord,
  { status, at, by }: Pick<RelayDecision, 'status' | 'at' | 'by'>,
): Notice {
  const { id, kind, tool, toolCallId, agentId, digest } = relay;
  const told = { id, kind, tool, toolCallId, agentId, digest, status, decidedBy: by };
  return notice('relay.decided', id, { at, run, relay: told });
}

function notice(event: WebhookEvent, about: string, said: Said): Notice {
  const id = `${event}:${about}`;
  const { at, run, relay, more } = said;
  const payload = JSON.stringify({
    id,
    type: event,
    at: new Date(at).toISOString(),
    run: { id: run.id, agent: run.agent, conversationId: run.conversationId, ...more },
    ...(relay === undefined ? {} : { relay }),
  });
  return { id, event, at, payload };
}
