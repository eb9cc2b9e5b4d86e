/** What happened in a session, to read from top to bottom: messages, what the agent says and does. */
import type { StoredSessionEvent } from '@relay/sdk';

interface Base {
  readonly seq: number;
  readonly at: string;
}

export type TimelineItem = Base &
  (
    | { readonly kind: 'message'; readonly messageId: string; readonly direction: 'in' | 'out' }
    | {
        readonly kind: 'text';
        readonly role: 'agent' | 'user' | 'system' | 'tool';
        /** Of the message that its chunks make up. */
        readonly id: string;
        readonly text: string;
        readonly isThought: boolean;
      }
    | {
        readonly kind: 'call';
        readonly tool: string;
        readonly run: string | undefined;
        readonly input: unknown;
        readonly state: 'running' | 'completed' | 'failed';
        /** The output, or the error of a call that failed. */
        readonly result: unknown;
        readonly durationMs: number | undefined;
      }
    | { readonly kind: 'file'; readonly path: string; readonly operation: string }
    | { readonly kind: 'note'; readonly text: string; readonly tone: 'plain' | 'failed' }
  );

type ItemOf<Kind extends TimelineItem['kind']> = Extract<TimelineItem, { readonly kind: Kind }>;

/**
 * The final answer of a turn is in the journal twice, as text and as a message that was sent: the message
 * stands for both. `textOf` is undefined for a message that is not known yet.
 */
export function timelineOf(
  events: readonly StoredSessionEvent[],
  textOf: (messageId: string) => string | undefined,
): readonly TimelineItem[] {
  const items: TimelineItem[] = [];
  const shownMessages = new Set<string>();
  const open = new OpenCalls();
  for (const event of events) {
    const { seq, at } = event;
    switch (event.type) {
      case 'delivery.accepted':
      case 'delivery.delivered':
      case 'message.received': {
        const { messageId } = event;
        if (shownMessages.has(messageId)) break;
        shownMessages.add(messageId);
        items.push({ seq, at, kind: 'message', messageId, direction: 'in' });
        break;
      }
      case 'message.sent': {
        const { messageId } = event;
        if (shownMessages.has(messageId)) break;
        shownMessages.add(messageId);
        const index = items.findLastIndex(({ kind }) => kind === 'text');
        const said = items[index];
        const isSaid = said?.kind === 'text' && said.text.trim() === textOf(messageId)?.trim();
        const sent = { seq, at, kind: 'message', messageId, direction: 'out' } as const;
        if (isSaid) items[index] = sent;
        else items.push(sent);
        break;
      }
      case 'transcript.chunk': {
        const { id, role, content, metadata } = event.chunk;
        const last = items.at(-1);
        if (last?.kind === 'text' && last.id === id && last.role === role) {
          items[items.length - 1] = { ...last, text: last.text + content };
        } else if (content !== '') {
          const isThought = metadata?.['thought'] === true;
          items.push({ seq, at, kind: 'text', role, id, text: content, isThought });
        }
        break;
      }
      case 'tool.called': {
        const { tool, run, input } = event;
        const rest = { state: 'running', result: undefined, durationMs: undefined } as const;
        open.add(event, items.length);
        items.push({ seq, at, kind: 'call', tool, run, input, ...rest });
        break;
      }
      case 'tool.completed': {
        const { output: result, durationMs } = event;
        settle(items, open, event, { state: 'completed', result, durationMs });
        break;
      }
      case 'tool.failed':
        settle(items, open, event, {
          state: 'failed',
          result: event.error,
          durationMs: undefined,
        });
        break;
      case 'file.changed':
        items.push({ seq, at, kind: 'file', path: event.path, operation: event.operation });
        break;
      case 'status.changed': {
        const text = statusNote(event);
        if (text === undefined) break;
        const tone = event.status === 'failed' ? 'failed' : 'plain';
        items.push({ seq, at, kind: 'note', text, tone });
        break;
      }
      case 'error':
        items.push({ seq, at, kind: 'note', text: event.error, tone: 'failed' });
        break;
      case 'command.failed': {
        // Beside a tool call it would be said twice.
        if (items.at(-1)?.kind === 'call') break;
        const text = `${event.command}: ${event.error}`;
        items.push({ seq, at, kind: 'note', text, tone: 'failed' });
        break;
      }
      case 'session.forked':
        items.push({ seq, at, kind: 'note', text: 'Forked from another session', tone: 'plain' });
        break;
      case 'session.released': {
        const text = event.reason === undefined ? 'Released' : `Released: ${event.reason}`;
        items.push({ seq, at, kind: 'note', text, tone: 'plain' });
        break;
      }
      case 'action.denied': {
        const text = `The action ${event.action} was denied: ${event.reason}`;
        items.push({ seq, at, kind: 'note', text, tone: 'failed' });
        break;
      }
      case 'action.failed': {
        const text = `The action ${event.action} failed: ${event.error}`;
        items.push({ seq, at, kind: 'note', text, tone: 'failed' });
        break;
      }
      case 'action.invoked':
        items.push({ seq, at, kind: 'note', text: `Action ${event.action}`, tone: 'plain' });
        break;
      case 'action.completed':
      case 'command.completed':
      case 'command.started':
      case 'delivery.deferred':
      case 'delivery.failed':
      case 'log':
      case 'session.resumed':
      case 'session.started':
      case 'terminal.output':
      case 'terminal.screen':
      case 'tool.output':
      case 'usage.updated':
        break;
    }
  }
  return items;
}

interface ToolEvent {
  readonly tool: string;
  readonly run?: string | undefined;
}

/** Events of tools have no id: the oldest open call of the tool in the same run is meant. */
class OpenCalls {
  readonly #indexes = new Map<string, number[]>();

  add(event: ToolEvent, index: number): void {
    const key = this.#key(event);
    this.#indexes.set(key, [...(this.#indexes.get(key) ?? []), index]);
  }

  take(event: ToolEvent): number | undefined {
    return this.#indexes.get(this.#key(event))?.shift();
  }

  #key({ run = '', tool }: ToolEvent): string {
    return `${run} ${tool}`;
  }
}

function settle(
  items: TimelineItem[],
  open: OpenCalls,
  { tool, run, seq, at }: { tool: string; run?: string | undefined; seq: number; at: string },
  end: Pick<ItemOf<'call'>, 'state' | 'result' | 'durationMs'>,
): void {
  const index = open.take({ tool, run });
  const call = index === undefined ? undefined : items[index];
  if (index !== undefined && call?.kind === 'call') items[index] = { ...call, ...end };
  // Its beginning is further up than what was read.
  else items.push({ seq, at, kind: 'call', tool, run, input: undefined, ...end });
}

/** Going to work and back is seen anyway. */
function statusNote({
  status,
  previousStatus,
  reason,
}: Extract<StoredSessionEvent, { type: 'status.changed' }>): string | undefined {
  const because = reason === undefined ? '' : `: ${reason}`;
  switch (status) {
    case 'paused':
      return `Paused${because}`;
    case 'offline':
      return `Offline${because}`;
    case 'failed':
      return `Failed${because}`;
    case 'blocked':
      return reason === undefined ? undefined : `Blocked${because}`;
    case 'active':
    case 'idle':
      if (previousStatus === 'paused') return 'Resumed';
      return previousStatus === 'offline' ? 'Online again' : undefined;
    case 'starting':
    case 'waiting':
    case 'releasing':
    case 'released':
      return undefined;
  }
}

/** What a session does now, from the last events of its journal. */
export interface Activity {
  /** The tool that was called last and has not ended. */
  readonly tool: string | undefined;
  /** Why the session has its status, if the last change of status says so. */
  readonly reason: string | undefined;
}

export function activityOf(events: readonly StoredSessionEvent[]): Activity {
  const open = timelineOf(events, () => undefined).findLast(
    (item) => item.kind === 'call' && item.state === 'running',
  );
  const status = events.findLast(({ type }) => type === 'status.changed');
  const failure = events.findLast(({ type }) => type === 'error');
  const said = status?.type === 'status.changed' ? status.reason : undefined;
  const isFailed = status?.type === 'status.changed' && status.status === 'failed';
  return {
    tool: open?.kind === 'call' ? open.tool : undefined,
    reason: said ?? (isFailed && failure?.type === 'error' ? failure.error : undefined),
  };
}
