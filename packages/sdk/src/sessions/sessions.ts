/** `/v1/sessions`: live participants that receive messages. */
import type {
  AttachBody,
  AttachedSession,
  Session,
  SessionBody,
  SessionChanges,
  SessionsQuery,
  StoredSessionEvent,
} from '@relay/protocol/wire';
import { type CallOptions, type Http, pathOf } from '../http.ts';
import { Listing, listOf, type Page } from '../listing.ts';
import { type FollowSessionOptions, SessionHandle } from './session-handle.ts';

/** Events per request, unless the query has a `limit`. */
const eventsPerPage = 1000;

export interface SessionEventsPage extends Page<StoredSessionEvent> {
  readonly session: Session;
}

/** The events of a journal; a page also has the session. */
export type SessionEvents = Listing<StoredSessionEvent, SessionEventsPage>;

export interface SessionEventsQuery {
  readonly after?: number;
  /** Page size, at most 5,000. */
  readonly limit?: number;
}

type Command = 'release' | 'pause' | 'resume' | 'flush';

export class Sessions {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  /** Starts a session of a harness that Relay runs, such as `native`, or a person's (`human`). */
  create(body: SessionBody, options: CallOptions = {}): Promise<Session> {
    return this.#http.json('POST', '/v1/sessions', { body, ...options });
  }

  /** The `token` is returned only here. `serve` does the rest of what a program has to do. */
  attach(body: AttachBody, options: CallOptions = {}): Promise<AttachedSession> {
    return this.#http.json('POST', '/v1/sessions/attach', { body, ...options });
  }

  /** Newest first. With a session token, other sessions have only what a `SessionSummary` has. */
  list(query: SessionsQuery = {}, options: CallOptions = {}): Listing<Session> {
    return listOf(this.#http, '/v1/sessions', { name: 'sessions', query, ...options });
  }

  /** With a session token, another session has only what a `SessionSummary` has. */
  get(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#http.json('GET', pathOf`/v1/sessions/${id}`, options);
  }

  /** The journal of a session, oldest first. */
  events(id: string, query: SessionEventsQuery = {}, options: CallOptions = {}): SessionEvents {
    return new Listing(async (cursor) => {
      type Body = { session: Session; events: StoredSessionEvent[]; nextCursor: string | null };
      const path = pathOf`/v1/sessions/${id}/events`;
      const { session, events, nextCursor } = await this.#http.json<Body>('GET', path, {
        query: {
          after: cursor === undefined ? query.after : Number(cursor),
          // Without a limit the response is the whole journal.
          limit: query.limit ?? eventsPerPage,
        },
        ...options,
      });
      return { session, items: events, nextCursor };
    });
  }

  /** A handle that follows the journal: of a session, from where it was read; of an id, from its start. */
  stream(session: string | Session, options: FollowSessionOptions = {}): SessionHandle {
    return new SessionHandle(this.#http, session, options);
  }

  update(id: string, body: SessionChanges, options: CallOptions = {}): Promise<Session> {
    return this.#http.json('PATCH', pathOf`/v1/sessions/${id}`, { body, ...options });
  }

  /** Stops the current turn; the session stays. Not retried: a second attempt could stop the next turn. */
  cancel(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#http.json('POST', pathOf`/v1/sessions/${id}/cancel`, options);
  }

  /** Ends the session: its turn is canceled, and what it did not consume fails as `released`. */
  release(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#command(id, 'release', options);
  }

  /** Acts after the running model call or tool. */
  pause(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#command(id, 'pause', options);
  }

  resume(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#command(id, 'resume', options);
  }

  /** Delivers the messages of the mode `manual`. */
  flush(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#command(id, 'flush', options);
  }

  /** Removes the session with its journal and its deliveries. Requires the scope `admin`. */
  async drop(id: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', pathOf`/v1/sessions/${id}`, options);
  }

  /** Repeating a command that takes effect already changes nothing. */
  #command(id: string, command: Command, options: CallOptions): Promise<Session> {
    const path = `${pathOf`/v1/sessions/${id}`}/${command}`;
    return this.#http.json('POST', path, { repeatable: true, ...options });
  }
}
