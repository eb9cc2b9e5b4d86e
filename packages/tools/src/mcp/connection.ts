/**
 * One connection to an MCP server, from its first word to its end. A connection that has ended is never
 * used again: `link.ts` opens another.
 */
import {
  type CallToolResult,
  Client,
  type InputRequiredResult,
  isInputRequiredResult,
  SdkHttpError,
  type Tool as ListedTool,
  type Transport,
} from '@modelcontextprotocol/client';
import type { ToolContext } from '@relay/core';
import { Progress } from '../workspace/progress.ts';
import { CallsInFlight } from './calls-in-flight.ts';
import { elicit, maxQuestions } from './elicitation.ts';
import type { Sender } from './endpoint-transport.ts';
import { Patience } from './patience.ts';
import { ProgramTransport } from './program-transport.ts';

const maxPages = 8;
const probeMs = 10_000;
const progressBounds = { everyMs: 250, maxChars: 20_000 };
/** What the SDK counts is the whole call; ours counts silence. */
const never = 2 ** 31 - 1;

export interface Connecting {
  /** What the server is called here. */
  readonly name: string;
  readonly version: string;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly open: (sender: () => Sender | undefined) => Transport;
  /** Its tools are not the same any more. */
  readonly changed: () => void;
}

export interface Asked {
  readonly tool: ListedTool;
  readonly input: Record<string, unknown>;
}

/** The server has forgotten the session, and with it never saw the call. */
export class SessionLost extends Error {
  override readonly name = 'SessionLost';
}

interface CallUnderWay extends Sender {
  readonly context: ToolContext;
  readonly patience: Patience;
  readonly signal: AbortSignal;
  readonly runId: string;
  questions: number;
  open: number;
}

export class McpConnection {
  readonly #options: Connecting;
  readonly #calls = new CallsInFlight<CallUnderWay>();
  readonly #ended = Promise.withResolvers<string>();
  #client: Client;
  #transport: Transport;
  #hasExited = false;
  #isOver = false;
  #closing: Promise<void> | undefined;

  private constructor(options: Connecting) {
    this.#options = options;
    this.#transport = this.#newTransport();
    this.#client = this.#newClient();
  }

  /** Rejects with what went wrong; nothing is left behind then. */
  static async open(options: Connecting, signal: AbortSignal): Promise<McpConnection> {
    const connection = new McpConnection(options);
    await connection.#calls.outside(() => connection.#connect(signal));
    return connection;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Why it is over, once it is. */
  get ended(): Promise<string> {
    return this.#ended.promise;
  }

  async #connect(signal: AbortSignal): Promise<void> {
    try {
      await this.#attempt(signal, {});
    } catch (error) {
      // A program of the time before negotiation may end when it is asked what it does not know.
      if (!this.#hasExited || signal.aborted) throw error;
      this.#transport = this.#newTransport();
      this.#client = this.#newClient();
      await this.#attempt(signal, { prior: { kind: 'legacy' } });
    }
    Object.assign(this.#client, { onclose: () => this.#end('It has ended') });
  }

  async #attempt(signal: AbortSignal, how: { prior?: { kind: 'legacy' } }): Promise<void> {
    const { connectTimeoutMs } = this.#options;
    const late = AbortSignal.timeout(connectTimeoutMs);
    const either = AbortSignal.any([signal, late]);
    const transport = this.#transport;
    // The SDK leaves some waits unbounded; closing what is spoken over ends them all.
    const close = () => void transport.close().catch(() => undefined);
    either.addEventListener('abort', close);
    try {
      await this.#client.connect(transport, { timeout: connectTimeoutMs, ...how });
      either.throwIfAborted();
    } catch (error) {
      this.#hasExited = transport instanceof ProgramTransport && transport.hasExited;
      await transport.close().catch(() => undefined);
      const isLate = late.aborted && !signal.aborted;
      const silence = `It did not answer within ${connectTimeoutMs} ms`;
      throw new Error(isLate ? silence : reasonOf(transport, error), { cause: error });
    } finally {
      either.removeEventListener('abort', close);
    }
  }

  #newTransport(): Transport {
    return this.#options.open(() => this.#calls.current);
  }

  #newClient(): Client {
    const { name, version, changed } = this.#options;
    const client = new Client(
      { name: 'relay', version },
      {
        capabilities: { elicitation: { form: {} } },
        versionNegotiation: { mode: 'auto', probe: { timeoutMs: probeMs } },
        // Our own loop knows which call is asked for.
        inputRequired: { autoFulfill: false },
        listMaxPages: maxPages,
        listChanged: { tools: { autoRefresh: false, debounceMs: 300, onChanged: changed } },
        // Results are the server's own business; nothing is compiled from its schemas.
        jsonSchemaValidator: { getValidator: () => (data) => accepted(data) },
      },
    );
    client.setRequestHandler('elicitation/create', async ({ params }, { mcpReq }) => {
      const call = await this.#calls.whose(mcpReq.signal);
      // A question that belongs to nobody is shown to nobody.
      if (call === undefined) return { action: 'cancel' as const };
      return this.#ask(call, { server: name, params, signal: mcpReq.signal });
    });
    return client;
  }

  list(signal: AbortSignal): Promise<readonly ListedTool[]> {
    return this.#calls.outside(async () => {
      const timeout = this.#options.connectTimeoutMs;
      const how = { signal, timeout, cacheMode: 'bypass' } as const;
      try {
        return (await this.#client.listTools({}, how)).tools;
      } catch (error) {
        throw this.#explained(error);
      }
    });
  }

  /** Throws what the model and the log may read: nothing in it is the server's environment. */
  async call(asked: Asked, context: ToolContext): Promise<CallToolResult> {
    const over = new AbortController();
    const stop = new AbortController();
    const signal = AbortSignal.any([context.signal, stop.signal]);
    const { timeoutMs, name } = this.#options;
    const patience = new Patience(timeoutMs, () =>
      stop.abort(new Error(`The MCP server ${name} was silent for ${timeoutMs} ms`)),
    );
    const lost = () =>
      stop.abort(new Error(`The MCP server ${name} hung up before it answered the call`));
    const { runId } = context;
    const counts = { questions: 0, open: 0 };
    const call = { context, runId, patience, signal, over: over.signal, lost, ...counts };
    const progress = new Progress(context.progress, progressBounds);
    try {
      return await this.#calls.run(call, () => this.#exchange(asked, call, progress));
    } catch (error) {
      context.signal.throwIfAborted();
      if (stop.signal.aborted) throw stop.signal.reason;
      throw this.#explained(error);
    } finally {
      patience.end();
      progress.end();
      // What was sent to withdraw the call goes first.
      setTimeout(() => over.abort(), 100).unref();
    }
  }

  /** Until the server has all that it wants to know. */
  async #exchange(asked: Asked, call: CallUnderWay, progress: Progress): Promise<CallToolResult> {
    const { name, inputSchema } = asked.tool;
    const meta = { 'relay/idempotencyKey': call.context.idempotencyKey };
    let more: Record<string, unknown> = {};
    for (;;) {
      const answer: CallToolResult | InputRequiredResult = await this.#client.callTool(
        { name, arguments: asked.input, _meta: meta, ...more },
        {
          signal: call.signal,
          timeout: never,
          allowInputRequired: true,
          toolDefinition: { name, inputSchema },
          onprogress: ({ progress: done, total, message }) => {
            call.patience.renew();
            const share = total === undefined ? `${done}` : `${done}/${total}`;
            progress.add(`${message ?? share}\n`);
          },
        },
      );
      if (!isInputRequiredResult(answer)) return answer;
      more = await this.#answersTo(answer, call);
    }
  }

  /** A server of the present protocol ends the call to ask, and is called again with the answers. */
  async #answersTo(
    { inputRequests = {}, requestState }: InputRequiredResult,
    call: CallUnderWay,
  ): Promise<Record<string, unknown>> {
    const inputResponses: Record<string, unknown> = {};
    // One after the other: a tool that runs again finds its answers by their order.
    for (const [key, { method, params }] of Object.entries(inputRequests)) {
      const { name: server } = this.#options;
      if (method !== 'elicitation/create')
        throw new Error(`It asks for ${method}: nobody has that`);
      inputResponses[key] = await this.#ask(call, { server, params, signal: call.signal });
      call.signal.throwIfAborted();
    }
    return { inputResponses, ...(requestState === undefined ? {} : { requestState }) };
  }

  async #ask(
    call: CallUnderWay,
    asked: { server: string; params: unknown; signal: AbortSignal },
  ): ReturnType<typeof elicit> {
    call.questions += 1;
    if (call.questions > maxQuestions) throw new Error(`It asks more than ${maxQuestions} times`);
    const signal = AbortSignal.any([asked.signal, call.signal]);
    const { context } = call;
    call.open += 1;
    try {
      return await call.patience.whileAsking(() => elicit({ ...asked, context, signal }));
    } finally {
      call.open -= 1;
    }
  }

  #explained(error: unknown): Error {
    const { name } = this.#options;
    const status = error instanceof SdkHttpError ? error.status : undefined;
    if (status === 404 && this.#transport.sessionId !== undefined) {
      this.#end('The server has forgotten the session');
      return new SessionLost(`The MCP server ${name} has forgotten the session`);
    }
    if (isConnectionError(error)) this.#end((error as Error).message);
    const why = error instanceof Error ? error.message : String(error);
    return new Error(`The MCP server ${name}: ${why}`, { cause: error });
  }

  #end(why: string): void {
    this.#isOver = true;
    this.#ended.resolve(reasonOf(this.#transport, new Error(why)));
    void this.close();
  }

  close(): Promise<void> {
    this.#isOver = true;
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#ended.resolve('It was closed');
    await this.#client.close().catch(() => undefined);
    await this.#transport.close().catch(() => undefined);
  }
}

function accepted(data: unknown) {
  return { valid: true as const, data: data as never, errorMessage: undefined };
}

const gone = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ENOTFOUND', 'ETIMEDOUT', 'UND_ERR_SOCKET'];

/** Nobody is there any more. Refusals by the server itself are something else. */
function isConnectionError(error: unknown): boolean {
  const { code, cause } = error as NodeJS.ErrnoException;
  const inner = (cause as NodeJS.ErrnoException | undefined)?.code;
  return [code, inner].some((found) => gone.includes(String(found)));
}

function reasonOf(transport: Transport, error: unknown): string {
  const told = transport instanceof ProgramTransport ? transport.why : undefined;
  return told ?? (error instanceof Error ? error.message : String(error));
}
