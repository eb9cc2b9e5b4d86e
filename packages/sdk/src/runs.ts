import type {
  CancelRunsBody,
  ForkBody,
  Run,
  RunBody,
  RunMessage,
  RunMessageBody,
  RunsQuery,
  RunTool,
  StoredEvent,
  ChatMessageBody,
} from '@relay/protocol/wire';
import { RelayApiError } from './errors.ts';
import { type CallOptions, type Http, pathOf, uuid } from './http.ts';
import { Listing, listOf, type Page } from './listing.ts';
import { type ApprovalHandlers, ApprovalWatcher } from './streaming/approval-watcher.ts';
import { type FollowOptions, framesOf } from './streaming/frames.ts';
import { RunHandle, type Watcher } from './streaming/run-handle.ts';
import { anyOf } from './timing.ts';
import { ToolWorker } from './tools/tool-worker.ts';
import { type ClientTool, declarationOf } from './tools/tool.ts';

/** The body of `POST /v1/runs`, with function tools among the tools. */
export interface NewRun extends Omit<RunBody, 'tools'> {
  readonly tools?: readonly (RunTool | ClientTool)[];
}

export interface FollowRunOptions extends FollowOptions, ApprovalHandlers {
  /** Stops reading and aborts the functions. It never cancels the run. */
  readonly signal?: AbortSignal | undefined;
}

export interface CreateRunOptions extends FollowRunOptions {
  /** Default: random, so that a retry does not start a second run. */
  readonly idempotencyKey?: string | undefined;
  /** How often the request that starts the run is retried. Default: the client's. */
  readonly maxRetries?: number | undefined;
}

export interface StreamRunOptions extends FollowRunOptions {
  /** Only events after this `seq` are yielded. */
  readonly after?: number | undefined;
  /** Function tools for this run; all calls without a result are run, however old. */
  readonly tools?: readonly ClientTool[] | undefined;
}

export interface ForkOptions extends CallOptions {
  /** Default: random, so that a retry does not fork a second time. */
  readonly idempotencyKey?: string | undefined;
}

/** Events of a run per request, unless the query has a `limit`. */
const eventsPerPage = 1000;

export interface EventsPage extends Page<StoredEvent> {
  readonly run: Run;
}

/** The events of a journal; a page also has the run. */
export type RunEvents = Listing<StoredEvent, EventsPage>;

export interface FollowEventsOptions extends FollowOptions {
  readonly after?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface EventsQuery {
  readonly after?: number;
  /** Page size, at most 5,000. */
  readonly limit?: number;
}

/** `/v1/runs`. */
export class Runs {
  readonly #http: Http;
  readonly #activeCalls = new Set<string>();

  constructor(http: Http) {
    this.#http = http;
  }

  /** Starts a run. Iterate the handle to follow it. */
  async create(body: NewRun, options: CreateRunOptions = {}): Promise<RunHandle> {
    const { tools } = body;
    const declared = tools === undefined ? body : { ...body, tools: tools.map(wireTool) };
    const { first, id, replayed } = await this.#start('/v1/runs', declared, options);
    return this.#handle(id, tools?.filter(isClientTool) ?? [], { ...options, first, replayed });
  }

  /**
   * Sends a message to an agent, which has all tools of the tenant unless it is configured with its own.
   * It continues the conversation `conversationId`, if given.
   */
  async sendMessage(body: ChatMessageBody, options: CreateRunOptions = {}): Promise<RunHandle> {
    const { first, id, replayed } = await this.#start('/api/chat', body, options);
    // This stream has another dialect than a handle reads, which opens its own.
    await first.body?.cancel();
    return this.#handle(id, [], { ...options, replayed });
  }

  /** A handle of an existing run, from its start or after the seq `after`. */
  stream(id: string, options: StreamRunOptions = {}): RunHandle {
    return this.#handle(id, options.tools ?? [], options);
  }

  get(id: string, options: CallOptions = {}): Promise<Run> {
    return this.#http.json('GET', pathOf`/v1/runs/${id}`, options);
  }

  /** Newest first. */
  list(query: RunsQuery = {}, options: CallOptions = {}): Listing<Run> {
    return listOf(this.#http, '/v1/runs', { name: 'runs', query, ...options });
  }

  /** The journal events of a run, oldest first. */
  events(id: string, query: EventsQuery = {}, options: CallOptions = {}): RunEvents {
    return new Listing(async (cursor) => {
      const path = pathOf`/v1/runs/${id}/events`;
      type Body = { run: Run; events: StoredEvent[]; nextCursor: string | null };
      const { run, events, nextCursor } = await this.#http.json<Body>('GET', path, {
        query: {
          after: cursor === undefined ? query.after : Number(cursor),
          // Without a limit the response is the whole log.
          limit: query.limit ?? eventsPerPage,
        },
        ...options,
      });
      return { run, items: events, nextCursor };
    });
  }

  /**
   * The journal events of a run after the seq `after`, as they are stored, until it ends. Unlike the
   * events of a handle these are complete, and have the text of all agents.
   */
  async *followEvents(
    id: string,
    options: FollowEventsOptions = {},
  ): AsyncGenerator<StoredEvent, void> {
    const { after = 0, signal, ...follow } = options;
    const open = (from: number, opened: AbortSignal) =>
      this.#http.stream('GET', pathOf`/v1/runs/${id}/events/stream`, {
        headers: { 'last-event-id': String(from) },
        signal: opened,
        maxRetries: 0,
      });
    const source = { open, after, signal: anyOf(signal), ...follow };
    for await (const { data } of framesOf(source)) {
      const event = JSON.parse(data) as StoredEvent;
      yield event;
      if (event.type === 'run.ended') return;
    }
  }

  cancel(id: string, options: CallOptions = {}): Promise<Run> {
    return this.#http.json('POST', pathOf`/v1/runs/${id}/cancel`, { repeatable: true, ...options });
  }

  /** Sends a message to a run that is going on. A call that is made again sends a second one. */
  message(id: string, body: RunMessageBody, options: CallOptions = {}): Promise<RunMessage> {
    return this.#http.json('POST', pathOf`/v1/runs/${id}/messages`, { body, ...options });
  }

  /** Cancels all runs of an agent, with labels, or of the tenant. */
  cancelAll(body: CancelRunsBody, options: CallOptions = {}): Promise<{ canceled: number }> {
    return this.#http.json('POST', '/v1/runs/cancel', { body, repeatable: true, ...options });
  }

  /** Lets a run go on that no server works on, or re-checks a waiting one. */
  resume(id: string, options: CallOptions = {}): Promise<Run> {
    return this.#http.json('POST', pathOf`/v1/runs/${id}/resume`, { repeatable: true, ...options });
  }

  /** Starts a new run from the transcript of this one. */
  fork(id: string, body: ForkBody = {}, options: ForkOptions = {}): Promise<Run> {
    const { idempotencyKey = uuid(), signal } = options;
    return this.#http.json('POST', pathOf`/v1/runs/${id}/fork`, {
      body,
      headers: { 'idempotency-key': idempotencyKey },
      signal,
      repeatable: true,
    });
  }

  async #start(path: string, body: unknown, options: CreateRunOptions) {
    const { idempotencyKey = uuid(), signal, maxRetries } = options;
    const headers = { 'idempotency-key': idempotencyKey };
    const first = await this.#http.stream('POST', path, {
      body,
      headers,
      signal,
      repeatable: true,
      maxRetries,
    });
    const id = first.headers.get('x-run-id');
    if (id === null) {
      await first.body?.cancel();
      throw new RelayApiError('unexpected_response', 'The response has no x-run-id header');
    }
    return { first, id, replayed: first.headers.get('idempotent-replayed') === 'true' };
  }

  #handle(id: string, tools: readonly ClientTool[], options: HandleOptions): RunHandle {
    const { onApproval, onQuestion, onOutcome, signal } = options;
    const http = this.#http;
    const activeCalls = this.#activeCalls;
    const watchers = (fail: (error: unknown) => void): Watcher[] => [
      ...(tools.length === 0
        ? []
        : [new ToolWorker({ http, runId: id, tools, signal, activeCalls })]),
      ...([onApproval, onQuestion, onOutcome].every((handler) => handler === undefined)
        ? []
        : [new ApprovalWatcher({ http, onApproval, onQuestion, onOutcome, signal, fail })]),
    ];
    return new RunHandle({ ...options, http, id, watchers });
  }
}

interface HandleOptions extends StreamRunOptions {
  readonly first?: Response;
  readonly replayed?: boolean;
}

function isClientTool(tool: RunTool | ClientTool): tool is ClientTool {
  return 'execute' in tool;
}

function wireTool(tool: RunTool | ClientTool): RunTool {
  return isClientTool(tool) ? declarationOf(tool) : tool;
}
