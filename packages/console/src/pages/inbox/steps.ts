/** What happened before a call, from the journal of its run. */
import type { Approval, Message, Run, Stored, StoredEvent } from '@relay/protocol/wire';
import { summaryOf } from '../../call/summary.ts';

export interface Step {
  readonly seq: number;
  /** The tool that was called; undefined for text. */
  readonly tool?: string;
  /** What was said, or the arguments of the call in one line. */
  readonly text: string;
  /** What became of the call. */
  readonly state?: 'completed' | 'failed' | 'denied' | 'open';
  /** Who said it: the agent, or the sender of a message to it. */
  readonly from?: string;
}

const maxSteps = 6;

/** The last things that the agent said and did before the call, oldest first. */
export function lastSteps(
  events: readonly StoredEvent[],
  { agentId, toolCallId }: Pick<Approval, 'agentId' | 'toolCallId'>,
): Step[] {
  const steps = new Map<string, Step>();
  const settle = (id: string, state: 'completed' | 'failed' | 'denied') => {
    const step = steps.get(id);
    if (step !== undefined) steps.set(id, { ...step, state });
  };
  for (const event of events) {
    if (!('agentId' in event) || (agentId !== undefined && event.agentId !== agentId)) continue;
    if (event.type === 'tool.called' && event.toolCallId === toolCallId) break;
    switch (event.type) {
      case 'text.appended': {
        const before = steps.get(event.textId);
        const text = (before?.text ?? '') + event.text;
        steps.set(event.textId, { seq: before?.seq ?? event.seq, text });
        break;
      }
      case 'turn.discarded':
        steps.delete(event.textId);
        break;
      case 'message.added':
        steps.set(event.messageId, {
          seq: event.seq,
          text: textOf(event.content),
          from: event.from.name,
        });
        break;
      case 'tool.called':
        steps.set(event.toolCallId, {
          seq: event.seq,
          tool: event.name,
          text: summaryOf(event.input),
          state: 'open',
        });
        break;
      case 'tool.completed':
        settle(event.toolCallId, 'completed');
        break;
      case 'tool.failed':
        settle(event.toolCallId, 'failed');
        break;
      case 'tool.denied':
        settle(event.toolCallId, 'denied');
        break;
      default:
    }
  }
  return [...steps.values()]
    .filter(({ tool, text }) => tool !== undefined || text.trim() !== '')
    .slice(-maxSteps);
}

/** The evidence about a call that was started before a crash or a stop of the server. */
export interface Evidence {
  readonly startedAt: readonly string[];
  /** The journal entry of the last start. */
  readonly seq: number | undefined;
  /** What the tool reported before it stopped. */
  readonly progress: string | undefined;
}

export function evidenceOf(
  events: readonly StoredEvent[],
  toolCallId: string | undefined,
): Evidence {
  const ofCall = events.filter((event) => 'toolCallId' in event && event.toolCallId === toolCallId);
  const starts = ofCall.filter((event) => event.type === 'tool.started') as Stored<
    Extract<StoredEvent, { type: 'tool.started' }>
  >[];
  const progress = ofCall.findLast((event) => event.type === 'tool.progressed');
  return {
    startedAt: starts.map(({ at }) => at),
    seq: starts.at(-1)?.seq,
    progress: progress?.type === 'tool.progressed' ? progress.content : undefined,
  };
}

/** What the user asked for: the last text of a user in the input of the run. */
export function requestOf({ input }: Pick<Run, 'input'>): string | undefined {
  if (input === null || typeof input === 'string') return input ?? undefined;
  const message = input.findLast(({ role }) => role === 'user');
  return message === undefined ? undefined : textOf(message.content);
}

function textOf(content: Message['content'] | undefined): string {
  if (content === undefined || content === null) return '';
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join('\n');
}
