/**
 * A handle of a session's journal: its events, and waiting for one of them.
 *
 * It has a position, the `seq` of the last event that was yielded or waited for. What reads it begins after
 * that position, so that waits one after the other miss nothing. Each has a connection of its own.
 */
import {
  type AgentSessionEventType,
  type AgentStatus,
  canObserve,
  type Session,
  type SessionEvent,
  type SessionEventOf,
  type StoredSessionEvent,
} from '@relay/protocol/wire';
import { RelayApiError } from '../errors.ts';
import { type CallOptions, type Http, pathOf } from '../http.ts';
import { type FollowOptions, framesOf } from '../streaming/frames.ts';
import { anyOf } from '../timing.ts';

export interface FollowSessionOptions extends FollowOptions, CallOptions {
  /** The events after this `seq`. Default: those after the session was read; of an id, all. */
  readonly after?: number | undefined;
}

/** `status.idle` and the like are `status.changed` with that status. */
type EventNamed<Type extends AgentSessionEventType> = SessionEventOf<
  Type extends SessionEvent['type'] ? Type : 'status.changed'
>;

/** The type of an event and any of its fields, of which all must be equal. */
export type EventCondition<Type extends AgentSessionEventType = AgentSessionEventType> = {
  readonly type: Type;
} & Partial<Omit<EventNamed<Type>, 'type'>>;

export type EventPredicate = (event: StoredSessionEvent) => boolean;

export interface WaitOptions extends FollowOptions, CallOptions {
  /** Default: as long as it takes. */
  readonly timeoutMs?: number;
}

export interface PredicateOptions extends WaitOptions {
  /** The types of the events that the predicate is called with. */
  readonly types: readonly AgentSessionEventType[];
}

export class SessionHandle implements AsyncIterable<StoredSessionEvent> {
  readonly id: string;
  readonly #http: Http;
  readonly #options: FollowSessionOptions;
  #position: number;

  constructor(http: Http, session: string | Session, options: FollowSessionOptions = {}) {
    const isId = typeof session === 'string';
    this.id = isId ? session : session.id;
    this.#http = http;
    this.#options = options;
    this.#position = options.after ?? (isId ? 0 : session.lastSeq);
  }

  /** The `seq` of the last event that was yielded or waited for. */
  get lastSeq(): number {
    return this.#position;
  }

  /** The events until the session is released. Leaving the loop stops reading. */
  async *[Symbol.asyncIterator](): AsyncGenerator<StoredSessionEvent, void> {
    for await (const event of this.#events(this.#position, this.#options)) {
      this.#position = Math.max(this.#position, event.seq);
      yield event;
    }
  }

  /**
   * The next event that fits. It throws `capability_missing` without waiting if the session declares no
   * event that could fit, `request_timeout` after `timeoutMs`, and `session_conflict` if the session is
   * released meanwhile.
   */
  waitFor<Type extends AgentSessionEventType>(
    condition: EventCondition<Type>,
    options?: WaitOptions,
  ): Promise<EventNamed<Type> & { readonly seq: number; readonly at: string }>;
  waitFor(predicate: EventPredicate, options: PredicateOptions): Promise<StoredSessionEvent>;
  async waitFor(
    condition: EventCondition | EventPredicate,
    options: WaitOptions & Partial<PredicateOptions> = {},
  ): Promise<StoredSessionEvent> {
    const { name, types, fits } = readCondition(condition, options.types);
    const { timeoutMs } = options;
    const after = this.#position;
    const timeout = new AbortController();
    const timer =
      timeoutMs === undefined ? undefined : setTimeout(() => timeout.abort(), timeoutMs);
    const signal = anyOf(timeout.signal, options.signal, this.#options.signal);
    try {
      await this.#requireObservable(types, signal);
      for await (const event of this.#events(after, { ...this.#options, ...options, signal })) {
        if (!fits(event)) continue;
        this.#position = Math.max(this.#position, event.seq);
        return event;
      }
    } catch (error) {
      if (!timeout.signal.aborted) throw error;
      const message = `The session ${this.id} had no ${name} that fits within ${timeoutMs} ms`;
      throw new RelayApiError('request_timeout', message, { cause: error });
    } finally {
      clearTimeout(timer);
    }
    const message = `The session ${this.id} was released, and had no ${name} that fits`;
    throw new RelayApiError('session_conflict', message);
  }

  async #requireObservable(
    types: readonly AgentSessionEventType[],
    signal: AbortSignal,
  ): Promise<void> {
    if (types.length === 0) return;
    const path = pathOf`/v1/sessions/${this.id}`;
    const { capabilities, identity } = await this.#http.json<Session>('GET', path, { signal });
    if (types.some((type) => canObserve(capabilities, type))) return;
    const { emits } = capabilities.events;
    const asked = types.join(' or ');
    const declared = emits.length === 0 ? 'nothing' : emits.join(', ');
    throw new RelayApiError(
      'capability_missing',
      `The session @${identity.handle} does not declare ${asked}; its events.emits has ${declared}`,
      { details: { path: 'events.emits', asked, offered: emits }, retryable: false },
    );
  }

  async *#events(
    after: number,
    { signal, ...follow }: FollowOptions & CallOptions,
  ): AsyncGenerator<StoredSessionEvent, void> {
    const open = (after: number, signal: AbortSignal) =>
      this.#http.stream('GET', pathOf`/v1/sessions/${this.id}/stream`, {
        headers: { 'last-event-id': String(after) },
        signal,
        maxRetries: 0,
      });
    for await (const { id, data } of framesOf({
      open,
      after,
      signal: anyOf(signal),
      ...follow,
    })) {
      const event = { ...(JSON.parse(data) as SessionEvent & { at: string }), seq: Number(id) };
      yield event;
      if (event.type === 'session.released') return;
    }
  }
}

/** Statuses that a session declares by name; Relay itself writes the others. */
const declarable: ReadonlySet<AgentStatus> = new Set<AgentStatus>([
  'idle',
  'active',
  'blocked',
  'waiting',
]);

interface Condition {
  /** For messages. */
  readonly name: string;
  /** One of them must be observable. Empty: Relay itself writes the event. */
  readonly types: readonly AgentSessionEventType[];
  readonly fits: EventPredicate;
}

function readCondition(
  condition: EventCondition | EventPredicate,
  types: readonly AgentSessionEventType[] = [],
): Condition {
  if (typeof condition === 'function') {
    if (types.length === 0) {
      throw new TypeError('waitFor with a function requires `types`: those of the events it fits');
    }
    const wanted = types.map((type) => wantedOf({ type }));
    return {
      name: types.join(' or '),
      types,
      fits: (event) => wanted.some((each) => contains(event, each)) && condition(event),
    };
  }
  const wanted = wantedOf(condition);
  return {
    name: condition.type,
    types: observedBy(wanted),
    fits: (event) => contains(event, wanted),
  };
}

function observedBy({ type, status }: Wanted): readonly AgentSessionEventType[] {
  if (status === undefined) return [type];
  return declarable.has(status) ? [`status.${status}` as AgentSessionEventType] : [];
}

interface Wanted {
  readonly type: AgentSessionEventType;
  readonly status?: AgentStatus;
}

/** `{ type: 'status.idle' }` is `{ type: 'status.changed', status: 'idle' }`. */
function wantedOf({ type, ...fields }: EventCondition): Wanted {
  if (type === 'status.changed' || !type.startsWith('status.')) return { type, ...fields };
  const status = type.slice('status.'.length) as AgentStatus;
  return { ...fields, type: 'status.changed', status };
}

function contains(actual: unknown, wanted: unknown): boolean {
  if (typeof wanted !== 'object' || wanted === null) return Object.is(actual, wanted);
  if (typeof actual !== 'object' || actual === null) return false;
  return Object.entries(wanted).every(
    ([name, value]) => value === undefined || contains((actual as never)[name], value),
  );
}
