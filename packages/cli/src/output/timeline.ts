/** A run as a timeline: its turns, calls, approvals and sub-agents, with their durations and cost. */
import type { StoredEvent } from '@relay/sdk';
import { cutTo, escapeLine, widthOf } from './escape.ts';
import type { Paint } from './paint.ts';
import { formatTime } from './table.ts';
import { decisionWord, formatDuration, runEventText, usageText } from './run-events.ts';
import { shortId } from './short-id.ts';

const timeWidth = 10;
const shortestReason = 16;

type EventOf<Type extends StoredEvent['type']> = Extract<StoredEvent, { type: Type }>;

/** Receives the events in order, and returns the lines that each adds. */
export class Timeline {
  readonly #paint: Paint;
  readonly #width: number;
  #startedAt: number | undefined;
  readonly #depths = new Map<string, number>();
  readonly #turns = new Map<string, number>();
  readonly #calls = new Map<string, number>();
  readonly #requests = new Map<string, number>();
  readonly #running = new Set<string>();

  constructor(paint: Paint, width = Infinity) {
    this.#paint = paint;
    this.#width = width;
  }

  add(event: StoredEvent): string[] {
    const at = Date.parse(event.at);
    this.#startedAt ??= at;
    const text = this.#text(event, at);
    if (text === undefined) return [];
    const since = `+${formatDuration(at - this.#startedAt)}`.padStart(timeWidth - 2);
    return [`${this.#paint('dim', since)}  ${this.#indent(event)}${text}`];
  }

  #indent(event: StoredEvent): string {
    const depth = 'agentId' in event ? (this.#depths.get(event.agentId ?? '') ?? 0) : 0;
    const inner = /^(tool|approval)\./.test(event.type) ? 1 : 0;
    return '  '.repeat(depth + inner);
  }

  #line(event: StoredEvent): string | undefined {
    const room = this.#width - timeWidth - this.#indent(event).length;
    return runEventText(event, this.#paint, room);
  }

  #text(event: StoredEvent, at: number): string | undefined {
    switch (event.type) {
      case 'agent.started': {
        const parent = this.#depths.get(event.parentId ?? '');
        this.#depths.set(event.agentId, parent === undefined ? 0 : parent + 1);
        return this.#line(event);
      }
      case 'turn.started':
        this.#turns.set(event.agentId, at);
        return undefined;
      case 'turn.completed':
        return this.#turn(event, at);
      case 'tool.called':
        this.#calls.set(event.toolCallId, at);
        return this.#line(event);
      case 'tool.started':
        this.#calls.set(event.toolCallId, at);
        return this.#started(event);
      case 'tool.completed':
        return this.#completed(event, at);
      case 'approval.requested':
        this.#requests.set(event.approvalId, at);
        // A call that has asked runs again after the answer.
        this.#running.delete(event.toolCallId);
        return this.#line(event);
      case 'approval.decided':
        return this.#decided(event, at);
      default:
        return this.#line(event);
    }
  }

  #turn({ agentId, turn, usage, responseModel }: EventOf<'turn.completed'>, at: number): string {
    const ms = at - (this.#turns.get(agentId) ?? at);
    const model = responseModel === undefined ? '' : `, ${escapeLine(responseModel)}`;
    return `turn ${turn}  ${formatDuration(ms)}${this.#paint('dim', `  ${usageText(usage)}${model}`)}`;
  }

  /** The result of the first attempt is not known: the server ended during the call. */
  #started({ toolCallId, name, resultBy }: EventOf<'tool.started'>): string | undefined {
    if (resultBy !== undefined) {
      const until = formatTime(resultBy);
      return this.#paint('dim', `· ${escapeLine(name)} waits for its program until ${until}`);
    }
    const isAgain = this.#running.has(toolCallId);
    this.#running.add(toolCallId);
    return isAgain
      ? this.#paint('yellow', `↻ ${escapeLine(name)} runs again: the server was restarted`)
      : undefined;
  }

  #completed(event: EventOf<'tool.completed'>, at: number): string | undefined {
    const durationMs = event.durationMs ?? at - (this.#calls.get(event.toolCallId) ?? at);
    return this.#line({ ...event, durationMs });
  }

  #decided(event: EventOf<'approval.decided'>, at: number): string {
    const waited = formatDuration(at - (this.#requests.get(event.approvalId) ?? at));
    const by = escapeLine(event.by.name);
    const text = `· ${decisionWord(event)} by ${by} after ${waited} (${shortId(event.approvalId)})`;
    const room = this.#width - timeWidth - this.#indent(event).length - widthOf(text);
    const reason = event.reason === undefined ? '' : `: ${escapeLine(event.reason)}`;
    return this.#paint('dim', `${text}${cutTo(reason, Math.max(shortestReason, room))}`);
  }
}
