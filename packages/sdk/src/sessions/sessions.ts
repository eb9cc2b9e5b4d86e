/** `/v1/sessions`: live participants that receive messages. */
import {
  type ApiKey,
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
  type TerminalInput,
} from '@relay/protocol/wire';
import { type CallOptions, type Http, pathOf } from '../http.ts';
import { Listing, listOf, type Page } from '../listing.ts';
import { RelayApiError } from '../errors.ts';
import { sleep } from '../timing.ts';
import { actions } from './actions.ts';
import { capabilitiesOf, type ServeOptions } from './declaration.ts';
import { RemoteSession } from './remote-session.ts';
import { type FollowSessionOptions, SessionHandle } from './session-handle.ts';

/** Events per request, unless the query has a `limit`. */
const eventsPerPage = 1000;

/** How long a handle stays in use after the last contact of its program. */
const inUseMs = 30_000;
const attachAgainMs = 2_000;

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
   * when its stream is open; no handler runs before that. A handle that the same owner used within the last
   * 30 seconds is waited for.
   */
  async serve(options: ServeOptions): Promise<RemoteSession> {
    const { handle, identity, takeover } = options;
    const body: AttachBody = {
      handle,
      identity: { name: handle, kind: 'program', ...identity },
      capabilities: capabilitiesOf(options),
      ...defined({ takeover }),
    };
    const { session, token } = await this.#attachWhenFree(body, options);
    const http = this.#http.withKey(token);
    await registerActions(http, session.id, options);
    return opened(new RemoteSession({ ...options, session, token, http }));
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

  /**
   * Types into the terminal of the session, such as `{text: 'ls\r'}`, or changes its size. Requires the scopes
   * `runs` and `approve`. Not retried: a second attempt could type twice.
   */
  async input(id: string, body: TerminalInput, options: CallOptions = {}): Promise<void> {
    await this.#http.json('POST', pathOf`/v1/sessions/${id}/input`, { body, ...options });
  }

  /** Delivers the messages of the mode `manual`. */
  flush(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#command(id, 'flush', options);
  }

  /** Removes the session with its journal and its deliveries. Requires the scope `admin`. */
  async drop(id: string, options: CallOptions = {}): Promise<void> {
    await this.#http.json('DELETE', pathOf`/v1/sessions/${id}`, options);
  }

  /** A handle stays in use for 30 s after its program has ended, and this may be its next process. */
  async #attachWhenFree(body: AttachBody, options: ServeOptions): Promise<AttachedSession> {
    const { signal, handleTimeoutMs = inUseMs + attachAgainMs } = options;
    const { onWaiting = (text: string) => console.error(text) } = options;
    const deadline = Date.now() + handleTimeoutMs;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#attachAgain(body, options);
      } catch (error) {
        const isTaken = error instanceof RelayApiError && error.code === 'handle_taken';
        if (!isTaken || Date.now() + attachAgainMs > deadline) throw error;
        if (attempt === 0) {
          if (!(await this.#isOwn(body, signal).catch(() => false))) throw error;
          onWaiting(`@${body.handle} was in use within the last 30 s; waiting until it is free …`);
        }
        await sleep(attachAgainMs, signal);
      }
    }
  }

  /** Whether the session with the handle belongs to the owner of the key. */
  async #isOwn({ handle, identity }: AttachBody, signal?: AbortSignal): Promise<boolean> {
    const { id, owner = id } = await this.#http.json<ApiKey>('GET', '/v1/keys/current', { signal });
    const harness = identity.kind === 'human' ? 'human' : 'remote';
    for await (const session of this.list({ harness }, { signal })) {
      if (session.identity.handle === handle && session.releasedAt === undefined) {
        return session.owner === owner;
      }
    }
    return false;
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
