/** A `fetch` with scripted responses that records its requests. */
import type { Fetch } from '../../src/http.ts';

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly signal: AbortSignal;
}

type Answer = Response | Error | Promise<Response>;

export class FakeServer {
  readonly requests: RecordedRequest[] = [];
  #answer: (request: RecordedRequest, index: number) => Answer;

  constructor(answer: (request: RecordedRequest, index: number) => Answer = () => json(200, {})) {
    this.#answer = answer;
  }

  /** Responds with one after the other; the last one repeats. */
  static respondingWith(...answers: readonly (() => Answer)[]): FakeServer {
    return new FakeServer((_, index) =>
      (answers[index] ?? answers.at(-1) ?? (() => json(200, {})))(),
    );
  }

  answer(answer: (request: RecordedRequest, index: number) => Answer): void {
    this.#answer = answer;
  }

  readonly fetch: Fetch = async (url, init) => {
    const { pathname, searchParams } = new URL(url);
    const request: RecordedRequest = {
      method: init.method ?? 'GET',
      path: pathname,
      query: Object.fromEntries(searchParams),
      headers: Object.fromEntries(new Headers(init.headers)),
      body: typeof init.body === 'string' ? (JSON.parse(init.body) as unknown) : undefined,
      signal: init.signal as AbortSignal,
    };
    this.requests.push(request);
    const answered = Promise.resolve(this.#answer(request, this.requests.length - 1));
    const aborted = new Promise<never>((_, reject) => {
      const onAbort = () => reject(request.signal.reason as Error);
      if (request.signal.aborted) onAbort();
      request.signal.addEventListener('abort', onAbort);
    });
    const answer = await Promise.race([answered, aborted]);
    if (answer instanceof Error) throw answer;
    return answer;
  };

  /** `METHOD path` of every request. */
  get lines(): string[] {
    return this.requests.map(({ method, path }) => `${method} ${path}`);
  }
}

export const options = { baseUrl: 'http://relay.test', apiKey: 'relay_live_test' };

export function json(
  status: number,
  body?: unknown,
  headers: Record<string, string> = {},
): Response {
  const text = body === undefined ? null : JSON.stringify(body);
  return new Response(text, {
    status,
    headers: { 'content-type': 'application/json', ...headers },
  });
}

export function refusal(
  status: number,
  code: string,
  headers: Record<string, string> = {},
): Response {
  return json(status, { error: `It is ${code}`, code }, headers);
}

/** An event stream that a test writes, ends or breaks. */
export class FakeStream {
  readonly response: Response;
  closed = false;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(headers: Record<string, string> = {}) {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        this.closed = true;
      },
    });
    this.response = new Response(body, {
      headers: { 'content-type': 'text/event-stream', ...headers },
    });
  }

  raw(text: string): this {
    if (!this.closed) this.#controller?.enqueue(new TextEncoder().encode(text));
    return this;
  }

  frame(id: number, data: object): this {
    return this.raw(`id: ${id}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  end(): this {
    if (!this.closed) this.#controller?.close();
    this.closed = true;
    return this;
  }

  break(): this {
    if (!this.closed) this.#controller?.error(new TypeError('terminated'));
    this.closed = true;
    return this;
  }
}

/** A stream of these frames that then ends as a broken connection does. */
export function streamOf(...frames: readonly [number, object][]): Response {
  const stream = new FakeStream({ 'x-run-id': 'run-1' });
  for (const [id, data] of frames) stream.frame(id, data);
  return stream.end().response;
}

export const done = (output = 'Hello') => ({
  type: 'done',
  status: 'completed',
  output,
  usage: { input_tokens: 1, output_tokens: 2 },
});

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Runs all pending microtasks and immediates. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
