/** One request at a time: authentication, JSON, timeouts, errors, and what may be said again. */
import { errorFrom, RelayApiError } from './errors.ts';
import { anyOf, backoff, pause } from './pause.ts';

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface HttpOptions {
  /** Where the server is, such as `http://127.0.0.1:4000`. */
  readonly baseUrl: string;
  /** Left out: no `authorization` is sent, as for `/chat` on the same machine. */
  readonly apiKey?: string | undefined;
  /** Left out: the platform's. */
  readonly fetch?: Fetch | undefined;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** How often a request that may be repeated is. Default: 3. */
  readonly maxRetries?: number | undefined;
  /** How long an answer may take to begin. Default: 60 s. */
  readonly timeoutMs?: number | undefined;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Wish {
  readonly query?: Query;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Saying it twice does nothing twice. Left out: true of everything but POST. */
  readonly repeatable?: boolean;
  /** Left out: as often as the client does. */
  readonly maxRetries?: number;
}

/** What callers may add to a single call. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

interface Reading<Answer> extends Wish {
  readonly read: (response: Response) => Answer | Promise<Answer>;
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** Longer than this nobody is made to wait for a single answer. */
const longestWaitMs = 60_000;

export class Http {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: Fetch;
  readonly #maxRetries: number;
  readonly #timeoutMs: number;

  constructor(options: HttpOptions) {
    const { apiKey } = options;
    this.#base = options.baseUrl.replace(/\/+$/, '');
    this.#headers = {
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      ...options.headers,
    };
    this.#fetch = options.fetch ?? ((url, init) => fetch(url, init));
    this.#maxRetries = options.maxRetries ?? 3;
    this.#timeoutMs = options.timeoutMs ?? 60_000;
  }

  /** The answer as JSON; `undefined` where there is no body. */
  json<Answer>(method: Method, path: string, wish: Wish = {}): Promise<Answer> {
    return this.#attempts(method, path, {
      ...wish,
      read: async (response) => {
        const text = await response.text();
        return (text === '' ? undefined : parsed(text, response)) as Answer;
      },
    });
  }

  /** The answer as a stream of frames that has just begun, or 204 if no frame will ever follow. */
  stream(method: Method, path: string, wish: Wish = {}): Promise<Response> {
    const headers = { accept: 'text/event-stream', ...wish.headers };
    return this.#attempts(method, path, { ...wish, headers, read: streaming });
  }

  async #attempts<Answer>(method: Method, path: string, wish: Reading<Answer>): Promise<Answer> {
    const { signal, repeatable = method !== 'POST', maxRetries = this.#maxRetries } = wish;
    const url = `${this.#base}${path}${queryText(wish.query ?? {})}`;
    const init = {
      method,
      headers: {
        ...this.#headers,
        ...(wish.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...wish.headers,
      },
      // Said once: a repetition has to be the same to the letter.
      ...(wish.body === undefined ? {} : { body: JSON.stringify(wish.body) }),
    };
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#once(url, init, wish);
      } catch (error) {
        const again = error instanceof RelayApiError && mayRepeat(error, repeatable);
        if (!again || attempt >= maxRetries) throw error;
        const ms = backoff(attempt, error.retryAfterMs);
        if (ms > longestWaitMs) throw error;
        await pause(ms, signal);
      }
    }
  }

  async #once<Answer>(
    url: string,
    init: RequestInit,
    { signal, read }: Reading<Answer>,
  ): Promise<Answer> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), this.#timeoutMs);
    try {
      const response = await this.#fetch(url, { ...init, signal: anyOf(late.signal, signal) });
      if (!response.ok) throw await errorFrom(response);
      return await read(response);
    } catch (error) {
      if (error instanceof RelayApiError) throw error;
      if (signal?.aborted === true) throw signal.reason;
      const reason = late.signal.aborted
        ? `no answer within ${this.#timeoutMs} ms`
        : reasonOf(error);
      throw new RelayApiError('network_error', `${init.method} ${url} failed: ${reason}`, {
        cause: error,
        unanswered: { url, reason },
      });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A request that was turned away at the door has done nothing; any other may have. */
function mayRepeat(error: RelayApiError, repeatable: boolean): boolean {
  if (error.code === 'rate_limited') return true;
  // A run was made of it: whoever asks again is told the same.
  if (error.runId !== undefined || error.code === 'budget_exceeded') return false;
  return repeatable && error.retryable;
}

/** Whoever answers with a page instead, such as a proxy, will do so again. */
async function streaming(response: Response): Promise<Response> {
  const { status, headers, body } = response;
  if (status === 204) return response;
  if (headers.get('content-type')?.startsWith('text/event-stream') === true) return response;
  await body?.cancel();
  throw new RelayApiError('unexpected_answer', 'The server did not answer with a stream', {
    status,
  });
}

function parsed(text: string, { status }: Response): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = 'The server answered with something that is not JSON';
    throw new RelayApiError('unexpected_answer', message, { status, cause });
  }
}

function queryText(query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : `${encodeURIComponent(name)}=${encodeURIComponent(value)}`,
  );
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

/** Node's fetch hides the reason of a failure in its cause. */
function reasonOf(error: unknown): string {
  const { cause } = (error ?? {}) as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? messageOf(error);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A path whose parts cannot lead elsewhere: at`/v1/runs/${id}`. */
export function at(strings: TemplateStringsArray, ...parts: readonly string[]): string {
  const safe = parts.map((part) => {
    if (/^\.{0,2}$/.test(part)) throw new TypeError(`"${part}" is no id`);
    return encodeURIComponent(part);
  });
  return String.raw({ raw: strings }, ...safe);
}
