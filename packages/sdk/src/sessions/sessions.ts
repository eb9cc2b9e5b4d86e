/** `/v1/sessions`: live participants that receive messages. */
import {
  type AttachBody,
  type AttachedSession,
  defined,
  type ForkSession,
  type Session,
  type SessionBody,
  type SessionChanges,
  type SessionSnapshot,
  type SessionsQuery,
  type StoredSessionEvent,
} from '@relay/protocol/wire';
import { type CallOptions, type Http, pathOf } from '../http.ts';
import { Listing, listOf, type Page } from '../listing.ts';
import { RelayApiError } from '../errors.ts';
import { actions } from './actions.ts';
import { capabilitiesOf, type ServeOptions } from './declaration.ts';
import { RemoteSession } from './remote-session.ts';
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

  /**
   * Attaches this program and handles what the session receives, until it is closed or released. Resolves
   * when its stream is open.
   */
  async serve(options: ServeOptions): Promise<RemoteSession> {
    const { handle, identity, takeover } = options;
    const body: AttachBody = {
      handle,
      identity: { name: handle, kind: 'program', ...identity },
      capabilities: capabilitiesOf(options),
      ...defined({ takeover }),
    };
    const { session, token } = await this.#attachAgain(body, options);
    const http = this.#http.withKey(token);
    const served = await opened(new RemoteSession({ ...options, session, token, http }));
    try {
      await registerActions(http, session.id, options);
    } catch (error) {
      await served.close();
      throw error;
    }
    return served;
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

  /**
   * A new session that continues from this one, at a position between two turns. Not retried: a second
   * attempt would find the handle taken.
   */
  fork(id: string, body: ForkSession, options: CallOptions = {}): Promise<Session> {
    return this.#http.json('POST', pathOf`/v1/sessions/${id}/fork`, { body, ...options });
  }

  /** Keeps the state of the session; `create` with `fromSnapshot` continues from it. */
  snapshot(id: string, options: CallOptions = {}): Promise<SessionSnapshot> {
    return this.#http.json('POST', pathOf`/v1/sessions/${id}/snapshot`, options);
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

  /** With the token of an earlier process, unless its session has ended. */
  async #attachAgain(body: AttachBody, { token, signal }: ServeOptions): Promise<AttachedSession> {
    if (token !== undefined) {
      try {
        return await new Sessions(this.#http.withKey(token)).attach(body, { signal });
      } catch (error) {
        if (!(error instanceof RelayApiError) || error.code !== 'unauthorized') throw error;
      }
    }
    return this.attach(body, { signal });
  }

  /** Repeating a command that takes effect already changes nothing. */
  #command(id: string, command: Command, options: CallOptions): Promise<Session> {
    const path = `${pathOf`/v1/sessions/${id}`}/${command}`;
    return this.#http.json('POST', path, { repeatable: true, ...options });
  }
}

/** Those of an earlier process of the session are replaced. */
async function registerActions(
  http: Http,
  sessionId: string,
  { actions: given = {}, signal }: ServeOptions,
): Promise<void> {
  const registry = actions(http);
  for (const [name, { run: _, ...action }] of Object.entries(given)) {
    const register = () =>
      registry.register({ ...action, name, handler: { sessionId } }, { signal });
    await register().catch(async (error: unknown) => {
      if (!(error instanceof RelayApiError) || error.code !== 'action_name_taken') throw error;
      // Refused for an action of another session.
      const isRemoved = await registry.remove(name, { signal }).then(
        () => true,
        () => false,
      );
      if (!isRemoved) throw error;
      await register();
    });
  }
}

/** Throws if the stream cannot be opened. */
async function opened(session: RemoteSession): Promise<RemoteSession> {
  const ended = session.closed.then(({ error }) => {
    throw (
      error ?? new RelayApiError('session_conflict', 'The session ended before its stream began')
    );
  });
  await Promise.race([session.opened, ended]);
  return session;
}
