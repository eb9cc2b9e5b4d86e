/**
 * One connection to an MCP server. A connection that has ended is never used again: the
 * ConnectionSupervisor opens another.
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
import { defined } from '@relay/protocol';
import { Progress } from '../progress.ts';
import { CallsInFlight } from './calls-in-flight.ts';
import { elicit, maxQuestions } from './elicitation.ts';
import type { RequestOwner } from './endpoint-transport.ts';
import { truncate } from './output.ts';
import { ProgramTransport } from './program-transport.ts';

const maxPages = 8;
const probeTimeoutMs = 10_000;
const pingTimeoutMs = 5_000;
/** Error messages of a server may have any length. */
const maxErrorChars = 4_000;
const progressLimits = { everyMs: 250, maxChars: 20_000 };
/** For the model, which may call the tool again. */
const unknownEffect = 'The call may have taken effect: check that before you repeat it';
/** The timeout of the SDK is for the whole call; ours restarts with every message. */
const noTimeoutMs = 2 ** 31 - 1;

export interface ConnectionOptions {
  /** The name of the server in the settings. */
  readonly name: string;
  readonly version: string;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly createTransport: (currentOwner: () => RequestOwner | undefined) => Transport;
  readonly onToolsChanged: () => void;
}

interface ToolRequest {
  readonly tool: ListedTool;
  readonly input: Record<string, unknown>;
}

/** A connection is replaced, without an error, when questions can be attributed only on a new one. */
export type ConnectionEnd = { readonly kind: 'replaced' } | ({ readonly kind: 'failed' } & Failure);

export interface Failure {
  readonly problem: string;
  /** The end of a program's error output. For the log only. */
  readonly output?: string;
}

export class ConnectionFailed extends Error {
  override readonly name = 'ConnectionFailed';
  readonly failure: Failure;

  constructor(failure: Failure, cause: unknown) {
    super(failure.problem, { cause });
    this.failure = failure;
  }
}

/** The connection was lost before the server could execute the call, which can be repeated. */
export class CallNotExecuted extends Error {
  override readonly name = 'CallNotExecuted';
}

interface ActiveCall extends RequestOwner {
  readonly context: ToolContext;
  readonly timeout: SilenceTimeout;
  readonly signal: AbortSignal;
  readonly runId: string;
  questions: number;
  openQuestions: number;
}

export class McpConnection {
  readonly #options: ConnectionOptions;
  readonly #calls = new CallsInFlight<ActiveCall>();
  readonly #ended = Promise.withResolvers<ConnectionEnd>();
  #client: Client;
  #transport: Transport;
  #hasExited = false;
  #isOver = false;
  #checking: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  private constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#transport = this.#newTransport();
    this.#client = this.#newClient();
  }

  /** Rejects if the connection fails, after everything was closed. */
  static async open(options: ConnectionOptions, signal: AbortSignal): Promise<McpConnection> {
    const connection = new McpConnection(options);
    await connection.#calls.outside(() => connection.#connect(signal));
    return connection;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get ended(): Promise<ConnectionEnd> {
    return this.#ended.promise;
  }

  async #connect(signal: AbortSignal): Promise<void> {
    try {
      await this.#attempt(signal, {});
    } catch (error) {
      // A program that predates version negotiation may exit on an unknown request.
      if (!this.#hasExited || signal.aborted) throw error;
      this.#transport = this.#newTransport();
      this.#client = this.#newClient();
      await this.#attempt(signal, { prior: { kind: 'legacy' } });
    }
    Object.assign(this.#client, {
      onclose: () => this.#end('The connection was closed'),
      // The server may have been restarted. Without a call, only the end of its stream shows that.
      onerror: () => void this.#checkSession(),
    });
  }

  async #attempt(signal: AbortSignal, options: { prior?: { kind: 'legacy' } }): Promise<void> {
    const { connectTimeoutMs } = this.#options;
    const timeout = AbortSignal.timeout(connectTimeoutMs);
    const either = AbortSignal.any([signal, timeout]);
    const transport = this.#transport;
    // The SDK does not bound all of its waits; closing the transport ends them.
    const close = () => void transport.close().catch(() => undefined);
    either.addEventListener('abort', close);
    try {
      await this.#client.connect(transport, { timeout: connectTimeoutMs, ...options });
      either.throwIfAborted();
    } catch (error) {
      this.#hasExited = transport instanceof ProgramTransport && transport.hasExited;
      await transport.close().catch(() => undefined);
      const isTimeout = timeout.aborted && !signal.aborted;
      const message = `No response within ${connectTimeoutMs} ms`;
      const failure = failureOf(transport, error);
      throw new ConnectionFailed(isTimeout ? { ...failure, problem: message } : failure, error);
    } finally {
      either.removeEventListener('abort', close);
    }
  }

  #newTransport(): Transport {
    return this.#options.createTransport(() => this.#calls.current);
  }

  #newClient(): Client {
    const { version, onToolsChanged } = this.#options;
    const client = new Client(
      { name: 'relay', version },
      {
        capabilities: { elicitation: { form: {} } },
        versionNegotiation: { mode: 'auto', probe: { timeoutMs: probeTimeoutMs } },
        // `#exchange` knows which call a request for input belongs to.
        inputRequired: { autoFulfill: false },
        listMaxPages: maxPages,
        listChanged: { tools: { autoRefresh: false, debounceMs: 300, onChanged: onToolsChanged } },
        // Results are not validated: no code is compiled from a server's schemas.
        jsonSchemaValidator: { getValidator: () => acceptAny },
      },
    );
    client.setRequestHandler('elicitation/create', async ({ params }, { mcpReq }) => {
      const call = await this.#calls.callOfQuestion(mcpReq.signal);
      // A question that belongs to no known call is not shown.
      if (call === undefined) {
        this.#replaceIfNeeded();
        return { action: 'cancel' as const };
      }
      return this.#ask(call, params, mcpReq.signal);
    });
    return client;
  }

  list(signal: AbortSignal): Promise<readonly ListedTool[]> {
    return this.#calls.outside(async () => {
      const timeout = this.#options.connectTimeoutMs;
      const options = { signal, timeout, cacheMode: 'bypass' } as const;
      try {
        return (await this.#client.listTools({}, options)).tools;
      } catch (error) {
        throw await this.#explained(error);
      }
    });
  }

  /** Its errors may be shown to the model: they contain nothing of the server's environment. */
  async call(request: ToolRequest, context: ToolContext): Promise<CallToolResult> {
    await this.#checkBeforeCall(context.signal);
    const ended = new AbortController();
    const stop = new AbortController();
    const signal = AbortSignal.any([context.signal, stop.signal]);
    const { timeoutMs, name } = this.#options;
    const timeout = new SilenceTimeout(timeoutMs, () =>
      stop.abort(
        new Error(`The MCP server ${name} sent nothing for ${timeoutMs} ms. ${unknownEffect}`),
      ),
    );
    const onStreamEnd = () => stop.abort(this.#lostDuringCall());
    const { runId } = context;
    const counts = { questions: 0, openQuestions: 0 };
    const call = { context, runId, timeout, signal, ended: ended.signal, onStreamEnd, ...counts };
    const progress = new Progress(context.progress, progressLimits);
    try {
      return await this.#calls.run(call, () => this.#exchange(request, call, progress));
    } catch (error) {
      context.signal.throwIfAborted();
      if (stop.signal.aborted) throw stop.signal.reason;
      const explained = await this.#explained(error);
      throw this.#isOver && !(explained instanceof CallNotExecuted)
        ? this.#lostDuringCall()
        : explained;
    } finally {
      timeout.end();
      progress.end();
      // The cancellation of the call is sent first.
      setTimeout(() => ended.abort(), 100).unref();
      this.#replaceIfNeeded();
    }
  }

  #lostDuringCall(): Error {
    const { name } = this.#options;
    return new Error(
      `The connection to the MCP server ${name} was lost during the call. ${unknownEffect}`,
    );
  }

  #replaceIfNeeded(): void {
    if (!this.#calls.needsNewConnection) return;
    this.#isOver = true;
    this.#ended.resolve({ kind: 'replaced' });
  }

  /** Calls the tool, again with the answers as long as the server requests input. */
  async #exchange(
    request: ToolRequest,
    call: ActiveCall,
    progress: Progress,
  ): Promise<CallToolResult> {
    const { name, inputSchema } = request.tool;
    const meta = { 'relay/idempotencyKey': call.context.idempotencyKey };
    let answers: Record<string, unknown> = {};
    // Bounded, because a server could request empty input without limit.
    for (let round = 0; round <= maxQuestions; round += 1) {
      const result: CallToolResult | InputRequiredResult = await this.#client.callTool(
        { name, arguments: request.input, _meta: meta, ...answers },
        {
          signal: call.signal,
          timeout: noTimeoutMs,
          allowInputRequired: true,
          toolDefinition: { name, inputSchema },
          onprogress: ({ progress: done, total, message }) => {
            call.timeout.restart();
            const share = total === undefined ? `${done}` : `${done}/${total}`;
            progress.add(`${message ?? share}\n`);
          },
        },
      );
      if (!isInputRequiredResult(result)) return result;
      answers = await this.#answersTo(result, call);
    }
    throw tooManyQuestions();
  }

  /** A server of the current protocol ends the call to request input. */
  async #answersTo(
    { inputRequests = {}, requestState }: InputRequiredResult,
    call: ActiveCall,
  ): Promise<Record<string, unknown>> {
    const inputResponses: Record<string, unknown> = {};
    // Sequentially, because a tool that runs again finds its answers by their order.
    for (const [key, { method, params }] of Object.entries(inputRequests)) {
      if (method !== 'elicitation/create')
        throw new Error(`The server requests ${method}, which is not supported`);
      inputResponses[key] = await this.#ask(call, params, call.signal);
      call.signal.throwIfAborted();
    }
    return { inputResponses, ...defined({ requestState }) };
  }

  async #ask(
    call: ActiveCall,
    params: unknown,
    questionSignal: AbortSignal,
  ): ReturnType<typeof elicit> {
    call.questions += 1;
    if (call.questions > maxQuestions) throw tooManyQuestions();
    const signal = AbortSignal.any([questionSignal, call.signal]);
    const { context } = call;
    const server = this.#options.name;
    call.openQuestions += 1;
    try {
      return await call.timeout.pausedWhile(() => elicit(server, params, context, signal));
    } finally {
      call.openQuestions -= 1;
    }
  }

  /**
   * A server that was restarted does not know the session. If only the response to the call showed
   * that, it could be unclear whether the call was executed, and a call is never executed twice. One
   * round trip is short compared with a turn of the model.
   */
  async #checkBeforeCall(signal: AbortSignal): Promise<void> {
    const aborted = new AbortController();
    const wait = new Promise<void>((resolve) => {
      const options = { once: true, signal: aborted.signal };
      signal.addEventListener('abort', () => resolve(), options);
    });
    await Promise.race([this.#checkSession(), wait]);
    aborted.abort();
    signal.throwIfAborted();
    if (this.#isOver) throw new CallNotExecuted(`${this.#options.name}: the connection was lost`);
  }

  /**
   * Ends the connection if the server cannot be reached, or does not know the session. A server
   * should respond with 404 then. Many respond with 400 (among them the reference servers), which can
   * have other causes, so that the response to a ping decides.
   */
  #checkSession(): Promise<void> {
    this.#checking ??= this.#calls
      .outside(() => this.#ping())
      .finally(() => (this.#checking = undefined));
    return this.#checking;
  }

  async #ping(): Promise<void> {
    if (this.#transport.sessionId === undefined || this.#isOver) return;
    try {
      await this.#client.ping({ timeout: pingTimeoutMs });
    } catch (error) {
      const status = statusOf(error);
      if (status === 400 || status === 404) this.#end('The server does not know the session');
      else if (isConnectionError(error)) this.#end(messageOf(error));
    }
  }

  async #explained(error: unknown): Promise<Error> {
    const { name } = this.#options;
    const status = statusOf(error);
    const hasSession = this.#transport.sessionId !== undefined;
    if (status === 404 && hasSession) this.#end('The server does not know the session');
    else if (isConnectionError(error)) this.#end(messageOf(error));
    else if (status === 400 && hasSession) await this.#checkSession();
    const isNotExecuted = (status === 404 && hasSession) || isNotSent(error);
    const message = `The MCP server ${name}: ${messageOf(error)}`;
    return isNotExecuted
      ? new CallNotExecuted(message, { cause: error })
      : new Error(message, { cause: error });
  }

  #end(reason: string): void {
    this.#isOver = true;
    this.#ended.resolve({ kind: 'failed', ...failureOf(this.#transport, new Error(reason)) });
    void this.close();
  }

  close(): Promise<void> {
    this.#isOver = true;
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#ended.resolve({ kind: 'failed', problem: 'The connection was closed' });
    await this.#client.close().catch(() => undefined);
    await this.#transport.close().catch(() => undefined);
  }
}

function tooManyQuestions(): Error {
  return new Error(`The server requests input more than ${maxQuestions} times`);
}

function acceptAny(data: unknown) {
  return { valid: true as const, data: data as never, errorMessage: undefined };
}

/** The request was never sent. */
const notSentCodes = ['ECONNREFUSED', 'ENOTFOUND', 'UND_ERR_CONNECT_TIMEOUT'];
const connectionErrorCodes = [
  ...notSentCodes,
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'UND_ERR_SOCKET',
];

function statusOf(error: unknown): number | undefined {
  return error instanceof SdkHttpError ? error.status : undefined;
}

/** The server cannot be reached, as opposed to an error that it returned. */
function isConnectionError(error: unknown): boolean {
  return hasCode(error, connectionErrorCodes);
}

function isNotSent(error: unknown): boolean {
  return hasCode(error, notSentCodes);
}

function hasCode(error: unknown, codes: readonly string[]): boolean {
  const { code, cause } = error as NodeJS.ErrnoException;
  const inner = (cause as NodeJS.ErrnoException | undefined)?.code;
  return [code, inner].some((found) => codes.includes(String(found)));
}

function failureOf(transport: Transport, error: unknown): Failure {
  if (!(transport instanceof ProgramTransport)) return { problem: messageOf(error) };
  const { exitReason, errorOutput } = transport;
  const problem = exitReason ?? messageOf(error);
  return errorOutput === '' ? { problem } : { problem, output: errorOutput };
}

function messageOf(error: unknown): string {
  return truncate(error instanceof Error ? error.message : String(error), maxErrorChars);
}

/** Ends a call after a time without a message. The time while a person is asked does not count. */
export class SilenceTimeout {
  readonly #timeoutMs: number;
  readonly #onTimeout: () => void;
  #timer: NodeJS.Timeout | undefined;
  #openQuestions = 0;
  #ended = false;

  constructor(timeoutMs: number, onTimeout: () => void) {
    this.#timeoutMs = timeoutMs;
    this.#onTimeout = onTimeout;
    this.restart();
  }

  /** A message has arrived. */
  restart(): void {
    clearTimeout(this.#timer);
    if (this.#ended || this.#openQuestions > 0) return;
    this.#timer = setTimeout(this.#onTimeout, this.#timeoutMs);
    this.#timer.unref();
  }

  async pausedWhile<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#openQuestions += 1;
    this.restart();
    try {
      return await work();
    } finally {
      this.#openQuestions -= 1;
      this.restart();
    }
  }

  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }
}
