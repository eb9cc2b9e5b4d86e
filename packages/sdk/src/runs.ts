import type {
  CancelRunsBody,
  ForkBody,
  Run,
  RunBody,
  RunsQuery,
  RunTool,
  StoredEvent,
  Utterance,
} from '@relay/protocol/wire';
import { RelayApiError } from './errors.ts';
import type { FollowOptions } from './frames.ts';
import { at, type CallOptions, type Http } from './http.ts';
import { type ForkOptions, forkRun, resumeRun } from './lineage.ts';
import { Listing, listOf, type Page } from './listing.ts';
import { type OnApproval, ApprovalWatcher } from './approval-watcher.ts';
import { RunHandle, type Watcher } from './run-handle.ts';
import type { ClientTool } from './tool.ts';
import { ToolWorker } from './tool-worker.ts';
import { uuid } from './uuid.ts';

/** The body of `POST /v1/runs`, in which functions stand among the tools. */
export interface NewRun extends Omit<RunBody, 'tools'> {
  readonly tools?: readonly (RunTool | ClientTool)[];
}

export interface FollowRunOptions extends FollowOptions {
  /** Stops the following and the functions. It never cancels the run. */
  readonly signal?: AbortSignal | undefined;
  /** Asked about each open approval while the run is followed. */
  readonly onApproval?: OnApproval | undefined;
}

export interface CreateRunOptions extends FollowRunOptions {
  /** Left out: a random one, so that a repeated request starts no second run. */
  readonly idempotencyKey?: string | undefined;
}

export interface StreamRunOptions extends FollowRunOptions {
  /** Only events behind this `seq` are handed out. */
  readonly after?: number | undefined;
  /** Functions to run for this run: calls without a result yet are taken up, however old. */
  readonly tools?: readonly ClientTool[] | undefined;
}

export interface EventsPage extends Page<StoredEvent> {
  readonly run: Run;
}

export interface EventsQuery {
  readonly after?: number;
  /** How many a page, at most 5,000. */
  readonly limit?: number;
}

/** `/v1/runs`. */
export class Runs {
  readonly #http: Http;
  readonly #taken = new Set<string>();

  constructor(http: Http) {
    this.#http = http;
  }

  /** Starts a run. Read the handle to follow it. */
  async create(body: NewRun, options: CreateRunOptions = {}): Promise<RunHandle> {
    const { idempotencyKey = uuid(), signal } = options;
    const tools = body.tools ?? [];
    const first = await this.#http.stream('POST', '/v1/runs', {
      body: body.tools === undefined ? body : { ...body, tools: tools.map(declared) },
      headers: { 'idempotency-key': idempotencyKey },
      signal,
      repeatable: true,
    });
    const id = first.headers.get('x-run-id');
    if (id === null) throw new RelayApiError('unexpected_answer', 'The answer names no run');
    return this.#handle(id, tools.filter(isClientTool), {
      ...options,
      first,
      replayed: first.headers.get('idempotent-replayed') === 'true',
    });
  }

  /**
   * Says something to an agent, which has all the tenant's tools unless it was given its own, and
   * follows its run like any other. It continues the conversation that is named.
   */
  async converse(body: Utterance, options: CreateRunOptions = {}): Promise<RunHandle> {
    const { idempotencyKey = uuid(), signal } = options;
    const first = await this.#http.stream('POST', '/api/chat', {
      body,
      headers: { 'idempotency-key': idempotencyKey },
      signal,
      repeatable: true,
    });
    const id = first.headers.get('x-run-id');
    // It speaks other words than a handle reads, and nothing is lost by leaving it.
    await first.body?.cancel();
    if (id === null) throw new RelayApiError('unexpected_answer', 'The answer names no run');
    const replayed = first.headers.get('idempotent-replayed') === 'true';
    return this.#handle(id, [], { ...options, replayed });
  }

  /** A handle of a run that is there already, from its beginning or behind `after`. */
  stream(id: string, options: StreamRunOptions = {}): RunHandle {
    return this.#handle(id, options.tools ?? [], options);
  }

  get(id: string, options: CallOptions = {}): Promise<Run> {
    return this.#http.json('GET', at`/v1/runs/${id}`, options);
  }

  /** Newest first. */
  list(query: RunsQuery = {}, options: CallOptions = {}): Listing<Run> {
    return listOf(this.#http, '/v1/runs', { name: 'runs', query, ...options });
  }

  /** The journal in the words of the catalogue, oldest first. */
  events(id: string, query: EventsQuery = {}, options: CallOptions = {}): RunEvents {
    return new RunEvents(async (cursor) => {
      const asked = cursor === undefined ? query : { ...query, after: Number(cursor) };
      const path = at`/v1/runs/${id}/events`;
      type Answer = { run: Run; events: StoredEvent[]; nextCursor: string | null };
      const answer = await this.#http.json<Answer>('GET', path, {
        query: { after: asked.after, limit: asked.limit },
        ...options,
      });
      return { run: answer.run, items: answer.events, nextCursor: answer.nextCursor };
    });
  }

  cancel(id: string, options: CallOptions = {}): Promise<Run> {
    return this.#http.json('POST', at`/v1/runs/${id}/cancel`, { repeatable: true, ...options });
  }

  /** Cancels all runs of an agent, of labels, or of the tenant. */
  cancelAll(body: CancelRunsBody, options: CallOptions = {}): Promise<{ canceled: number }> {
    return this.#http.json('POST', '/v1/runs/cancel', { body, repeatable: true, ...options });
  }

  /** Takes up a run that was left behind. */
  resume(id: string, options: CallOptions = {}): Promise<Run> {
    return resumeRun(this.#http, id, options);
  }

  /** A new run with the same past. */
  fork(id: string, body: ForkBody = {}, options: ForkOptions = {}): Promise<Run> {
    return forkRun(this.#http, id, { body, ...options });
  }

  #handle(id: string, tools: readonly ClientTool[], options: HandleOptions): RunHandle {
    const { onApproval, signal } = options;
    const http = this.#http;
    const taken = this.#taken;
    const watchers = (fail: (error: unknown) => void): Watcher[] => [
      ...(tools.length === 0 ? [] : [new ToolWorker({ http, runId: id, tools, signal, taken })]),
      ...(onApproval === undefined
        ? []
        : [new ApprovalWatcher({ http, onApproval, signal, fail })]),
    ];
    return new RunHandle({ ...options, http, id, watchers });
  }
}

interface HandleOptions extends StreamRunOptions {
  readonly first?: Response;
  readonly replayed?: boolean;
}

/** The events of a journal; a page also shows the run. */
export class RunEvents extends Listing<StoredEvent> {
  readonly #load: (cursor: string | undefined) => Promise<EventsPage>;

  constructor(load: (cursor: string | undefined) => Promise<EventsPage>) {
    super(load);
    this.#load = load;
  }

  override page(cursor?: string): Promise<EventsPage> {
    return this.#load(cursor);
  }
}

function isClientTool(tool: RunTool | ClientTool): tool is ClientTool {
  return 'declaration' in tool;
}

function declared(tool: RunTool | ClientTool): RunTool {
  return isClientTool(tool) ? tool.declaration : tool;
}
