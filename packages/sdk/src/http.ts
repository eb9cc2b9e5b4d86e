/** HTTP requests: authentication, JSON, timeouts, errors and retries. */
import { defined } from '@relay/protocol/wire';
import { errorFrom, RelayApiError } from './errors.ts';
import { anyOf, backoff, sleep } from './timing.ts';

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface HttpOptions {
  /** The URL of the server, such as `http://127.0.0.1:4000`. */
  readonly baseUrl: string;
  /** Default: no `authorization` header, as for `/chat` on the same machine, or in the console. */
  readonly apiKey?: string | undefined;
  /** Default: the platform's `fetch`. */
  readonly fetch?: Fetch | undefined;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Maximum number of retries of a repeatable request. Default: 3. */
  readonly maxRetries?: number | undefined;
  /**
   * How long requests are retried, beyond `maxRetries`, while the server cannot be reached or shuts down, as
   * during a restart. Not used if `maxRetries` is 0. Default: 10 s.
   */
  readonly unreachableTimeoutMs?: number | undefined;
  /** How long to wait for a response. Default: 60 s. */
  readonly timeoutMs?: number | undefined;
}

/** Several values are separated by commas. */
export type Query = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>;

export interface RequestOptions {
  readonly query?: Query;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Whether the request is safe to retry. Default: true for every method but POST. */
  readonly repeatable?: boolean;
  /** Default: the client's. */
  readonly maxRetries?: number | undefined;
  /** Default: the client's. */
  readonly timeoutMs?: number | undefined;
}

/** Options of a single call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

interface ReadOptions<Result> extends RequestOptions {
  readonly read: (response: Response) => Result | Promise<Result>;
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A retry that would have to wait longer is given up. */
const maxRetryDelayMs = 60_000;
/** A server that restarts is down for a few seconds. */
const maxUnreachableDelayMs = 1_000;

export class Http {
  readonly #options: HttpOptions;
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: Fetch;
  readonly #maxRetries: number;
  readonly #unreachableTimeoutMs: number;
  readonly #timeoutMs: number;

  constructor(options: HttpOptions) {
    const { apiKey } = options;
    this.#options = options;
    this.#base = options.baseUrl.replace(/\/+$/, '');
    this.#headers = {
      ...defined({ authorization: apiKey === undefined ? undefined : `Bearer ${apiKey}` }),
      ...options.headers,
    };
    this.#fetch = options.fetch ?? ((url, init) => fetch(url, init));
    this.#maxRetries = options.maxRetries ?? 3;
    this.#unreachableTimeoutMs = options.unreachableTimeoutMs ?? 10_000;
    this.#timeoutMs = options.timeoutMs ?? 60_000;
  }

  /** The same server with another key, such as a session token. */
  withKey(apiKey: string): Http {
    return new Http({ ...this.#options, apiKey });
  }

  /** The response as JSON; `undefined` without a body. */
  json<Result>(method: Method, path: string, options: RequestOptions = {}): Promise<Result> {
    return this.#send(method, path, {
      ...options,
      read: async (response) => {
        const text = await response.text();
        return (text === '' ? undefined : parseJson(text, response)) as Result;
      },
    });
  }

  /** The response of an event stream, or a 204 if no frame will follow. */
  stream(method: Method, path: string, options: RequestOptions = {}): Promise<Response> {
    const headers = { accept: 'text/event-stream', ...options.headers };
    return this.#send(method, path, { ...options, headers, read: expectStream });
  }

  /** The lines of a response, read as they arrive. */
  async *lines(path: string, options: RequestOptions = {}): AsyncGenerator<string, void> {
    const body = await this.#send('GET', path, { ...options, read: (response) => response.body });
    let rest = '';
    for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      yield* lines;
    }
    if (rest !== '') yield rest;
  }

  async #send<Result>(method: Method, path: string, options: ReadOptions<Result>): Promise<Result> {
    const { signal, repeatable = method !== 'POST', maxRetries = this.#maxRetries } = options;
    const url = `${this.#base}${path}${queryString(options.query ?? {})}`;
    const hasBody = options.body !== undefined;
    const init = defined({
      method,
      headers: {
        ...this.#headers,
        ...defined({ 'content-type': hasBody ? 'application/json' : undefined }),
        ...options.headers,
      },
      // Serialized once, so that every retry sends the same bytes.
      body: hasBody ? JSON.stringify(options.body) : undefined,
    });
    const deadline = Date.now() + (maxRetries > 0 ? this.#unreachableTimeoutMs : 0);
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#sendOnce(url, init, options);
      } catch (error) {
        if (!(error instanceof RelayApiError) || !isRetryable(error, repeatable)) throw error;
        const delay = backoff(attempt, error.retryAfterMs);
        const short = Math.max(Math.min(delay, maxUnreachableDelayMs), error.retryAfterMs ?? 0);
        const isInTime = isUnreachable(error) && Date.now() + short <= deadline;
        if (!isInTime && (attempt >= maxRetries || delay > maxRetryDelayMs)) throw error;
        await sleep(isInTime ? short : delay, signal);
      }
    }
  }

  async #sendOnce<Result>(
    url: string,
    init: RequestInit,
    { signal, read, timeoutMs = this.#timeoutMs }: ReadOptions<Result>,
  ): Promise<Result> {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), timeoutMs);
    try {
      const response = await this.#fetch(url, { ...init, signal: anyOf(timeout.signal, signal) });
      if (!response.ok) throw await errorFrom(response);
      return await read(response);
    } catch (error) {
      if (error instanceof RelayApiError) throw error;
      if (signal?.aborted === true) throw signal.reason;
      const reason = timeout.signal.aborted
        ? `no response within ${timeoutMs} ms`
        : reasonOf(error);
      throw new RelayApiError('network_error', `${init.method} ${url} failed: ${reason}`, {
        cause: error,
        failedRequest: { url, reason, timedOut: timeout.signal.aborted },
      });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A rate-limited request had no effect; any other may have had one. */
function isRetryable(error: RelayApiError, repeatable: boolean): boolean {
  if (error.code === 'rate_limited') return true;
  // The request started a run, so a retry would get the same response.
  if (error.runId !== undefined || error.code === 'budget_exceeded') return false;
  return (repeatable || isNotSent(error)) && error.retryable;
}

function isUnreachable({ code, failedRequest, cause }: RelayApiError): boolean {
  if (code === 'shutting_down') return true;
  // A name that does not exist is most likely mistyped, and a timeout has taken long enough.
  return failedRequest !== undefined && !failedRequest.timedOut && codeOf(cause) !== 'ENOTFOUND';
}

/** No connection was made. Browsers do not say so. */
function isNotSent({ cause }: RelayApiError): boolean {
  return codeOf(cause) === 'ECONNREFUSED';
}

function codeOf(error: unknown): string | undefined {
  return (error as { cause?: { code?: string } } | undefined)?.cause?.code;
}

/** Not retried: a proxy that responds with a page would do so again. */
async function expectStream(response: Response): Promise<Response> {
  const { status, headers, body } = response;
  if (status === 204) return response;
  if (headers.get('content-type')?.startsWith('text/event-stream') === true) return response;
  await body?.cancel();
  throw new RelayApiError('unexpected_response', 'The response is not an event stream', {
    status,
  });
}

function parseJson(text: string, { status }: Response): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = 'The response is not JSON';
    throw new RelayApiError('unexpected_response', message, { status, cause });
  }
}

function textOf(value: NonNullable<Query[string]>): string {
  return Array.isArray(value) ? value.join(',') : String(value);
}

function queryString(query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : `${encodeURIComponent(name)}=${encodeURIComponent(textOf(value))}`,
  );
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

/** Node's fetch has the reason of a failure in its cause. */
function reasonOf(error: unknown): string {
  const { cause } = (error ?? {}) as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? messageOf(error);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A path with encoded parts, such as pathOf`/v1/runs/${id}`. */
export function pathOf(strings: TemplateStringsArray, ...parts: readonly string[]): string {
  const safe = parts.map((part) => {
    if (/^\.{0,2}$/.test(part)) throw new TypeError(`"${part}" is not an id`);
    return encodeURIComponent(part);
  });
  return String.raw({ raw: strings }, ...safe);
}

/** A random UUID. `crypto.randomUUID` is missing on pages that were served over plain HTTP. */
export function uuid(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
