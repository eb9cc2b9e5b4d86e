/**
 * A connection to an agent that speaks ACP, over the lines of a program.
 *
 * - What the agent sends is handled in its order: an update is stored before the next message is read, so a
 *   flood of updates fills no memory, and the result of a turn comes after all of its updates.
 * - Lines that are no messages, answers to nothing, updates that are invalid and ids that are in use are
 *   ignored, reported and counted. Too many within a minute end the connection.
 * - The connection ends with the process, and the process with the connection. `closed` has the first reason.
 */
import type { Readable, Writable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type AnyMessage,
  client as createClient,
  type ClientConnection,
  type ClientContext,
  type CreateElicitationRequest,
  type CreateElicitationResponse,
  type InitializeRequest,
  type InitializeResponse,
  methods,
  PROTOCOL_VERSION,
  RequestError,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
} from '@agentclientprotocol/sdk';
import type { Clock } from '@relay/core';
import { lineLimits, LineReader } from '@relay/processes';
import { parseMessage, parseUpdate, resultProblem, type SessionUpdate } from './messages.ts';

/** What the agent may ask of Relay, and report. */
export interface AgentClient {
  /**
   * The ACP session, from before `session/resume` or `session/load` is requested, or after the answer to
   * `session/new`. Updates of other sessions are ignored, and requests are answered with an error.
   */
  readonly sessionId: string | undefined;
  /** Awaited: nothing further of the agent is read before, also no answer to a request. */
  update(update: SessionUpdate): Promise<void>;
  /** `signal`: the agent has withdrawn the request, or the connection is closed. */
  requestPermission(
    request: RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse>;
  elicit(
    request: CreateElicitationRequest,
    signal: AbortSignal,
  ): Promise<CreateElicitationResponse>;
  /** The agent does not keep to the protocol, and goes on. At most once a minute. */
  violation(problem: string): void;
}

export interface AgentConnection {
  readonly initialized: InitializeResponse;
  /** Typed requests and notifications: `agent.request('session/prompt', …)`. */
  readonly agent: ClientContext;
  /** Resolves when the connection and the process have ended, with the reason for people. */
  readonly closed: Promise<AgentEnd>;
  /** When the agent was last sent something, or sent something itself. */
  readonly lastActiveAt: number;
  /** Ends the process, too. `reason`: reported by `closed`, if it was still open. */
  close(reason?: string): Promise<void>;
}

export interface AgentEnd {
  readonly reason: string;
}

/** The program of an agent. */
export interface AgentProgram {
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves when it and all that it has started have ended. */
  readonly ended: Promise<AgentEnd>;
  /** Lets it exit, and kills it if it does not. `reason`: reported by `ended`, if it was still running. */
  end(reason: string): Promise<void>;
  kill(reason: string): Promise<void>;
}

export interface ConnectionLimits {
  readonly initializeMs: number;
  readonly maxLineBytes: number;
  readonly violationsPerMinute: number;
  /** Of the agent, that are not answered yet. */
  readonly openRequests: number;
  /** What the agent has not read of its input. */
  readonly unreadBytes: number;
}

const connectionLimits: ConnectionLimits = {
  initializeMs: 25_000,
  maxLineBytes: 10 * 1024 * 1024,
  violationsPerMinute: 100,
  openRequests: 64,
  unreadBytes: 16 * 1024 * 1024,
};

export interface ConnectionOptions {
  readonly clock: Clock;
  readonly limits?: Partial<ConnectionLimits>;
}

const clientInfo = { name: 'relay', title: 'Relay', version: '0.1.0' };
const shownChars = 200;
const minuteMs = 60_000;
const exitGraceMs = 2_000;

/** Initializes the connection. Rejects with the reason, after the program has ended. */
export async function connectAgent(
  program: AgentProgram,
  client: AgentClient,
  options: ConnectionOptions,
): Promise<AgentConnection> {
  const connection = new ProgramConnection(program, client, options);
  await connection.initialize();
  return connection;
}

class ProgramConnection implements AgentConnection {
  readonly #program: AgentProgram;
  readonly #client: AgentClient;
  readonly #clock: Clock;
  readonly #limits: ConnectionLimits;
  readonly #sdk: ClientConnection;
  readonly #reader: LineReader;
  readonly closed: Promise<AgentEnd>;
  /** Requests of the agent that are not answered. */
  readonly #open = new Set<string | number>();
  /** Methods of our requests that the agent has not answered. */
  readonly #pending = new Map<string | number, string>();
  #receive: ReadableStreamDefaultController<AnyMessage> | undefined;
  #initialized: InitializeResponse | undefined;
  #violations = { since: 0, count: 0 };
  #isOver = false;
  lastActiveAt: number;

  constructor(program: AgentProgram, client: AgentClient, options: ConnectionOptions) {
    this.#program = program;
    this.#client = client;
    this.#clock = options.clock;
    this.#limits = { ...connectionLimits, ...options.limits };
    this.lastActiveAt = options.clock.now();
    program.input.on('error', () => undefined);
    this.#sdk = this.#handlers().connect({
      readable: new ReadableStream<AnyMessage>({
        start: (controller) => {
          this.#receive = controller;
        },
      }),
      writable: new WritableStream<AnyMessage>({ write: (message) => this.#send(message) }),
    });
    const { maxLineBytes } = this.#limits;
    this.#reader = new LineReader(
      program.output,
      {
        line: (line) => this.#line(line),
        tooLong: () => this.#fail(`The agent sent a message of more than ${maxLineBytes} bytes`),
      },
      { ...lineLimits, maxLineBytes },
    );
    void this.#sdk.closed.then(() => this.#fail('The agent closed its input'));
    program.output.once('close', () => void this.#outputClosed());
    this.closed = this.#watch();
  }

  get initialized(): InitializeResponse {
    if (this.#initialized === undefined) throw new Error('The agent is not initialized');
    return this.#initialized;
  }

  get agent(): ClientContext {
    return this.#sdk.agent;
  }

  async initialize(): Promise<void> {
    const waiting = new AbortController();
    const { initializeMs } = this.#limits;
    void this.#clock.sleep(initializeMs, waiting.signal).then(() => {
      if (!waiting.signal.aborted) {
        this.#fail(`The agent did not answer initialize within ${initializeMs / 1_000} s`);
      }
    });
    try {
      const request: InitializeRequest = {
        protocolVersion: PROTOCOL_VERSION,
        clientInfo,
        clientCapabilities: {
          fs: { readTextFile: false, writeTextFile: false },
          terminal: false,
          elicitation: { form: {} },
        },
      };
      const initialized = await this.agent.request('initialize', request);
      const { protocolVersion: version } = initialized;
      if (version !== PROTOCOL_VERSION) {
        throw new Error(
          `It speaks version ${version} of ACP, and Relay version ${PROTOCOL_VERSION}`,
        );
      }
      this.#initialized = initialized;
    } catch (error) {
      this.#fail(`The agent could not be initialized: ${(error as Error).message}`);
      throw new Error((await this.closed).reason, { cause: error });
    } finally {
      waiting.abort();
    }
  }

  close(reason = 'The agent was stopped'): Promise<void> {
    this.#over(new Error(reason));
    return this.#program.end(reason);
  }

  async #watch(): Promise<AgentEnd> {
    const end = await this.#program.ended;
    this.#over(new Error(end.reason));
    return end;
  }

  /** Usually it has exited, which is a better reason. */
  async #outputClosed(): Promise<void> {
    const waiting = new AbortController();
    await Promise.race([this.closed, this.#clock.sleep(exitGraceMs, waiting.signal)]);
    waiting.abort();
    this.#fail('The agent closed its output');
  }

  #fail(reason: string): void {
    if (this.#isOver) return;
    this.#over(new Error(reason));
    void this.#program.kill(reason);
  }

  #over(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#reader.end();
    this.#sdk.close(error);
  }

  #handlers() {
    return createClient({ name: clientInfo.name })
      .onRequest(methods.client.session.requestPermission, ({ params, signal }) => {
        this.#requireSession(params.sessionId);
        return this.#client.requestPermission(params, signal);
      })
      .onRequest(methods.client.elicitation.create, ({ params, signal }) => {
        if ('sessionId' in params) this.#requireSession(String(params.sessionId));
        return this.#client.elicit(params, signal);
      });
  }

  #requireSession(sessionId: string): void {
    if (sessionId !== this.#client.sessionId) throw RequestError.sessionNotFound(sessionId);
  }

  /** For the SDK. */
  #send(message: AnyMessage): void {
    if (!this.#write(message)) throw new Error('The agent does not read its input any more');
  }

  #write(message: AnyMessage): boolean {
    const { input } = this.#program;
    if (!input.writable) return false;
    if ('id' in message && message.id !== null) {
      if ('method' in message) this.#pending.set(message.id, message.method);
      else this.#open.delete(message.id);
    }
    this.lastActiveAt = this.#clock.now();
    input.write(`${JSON.stringify(message)}\n`);
    if (input.writableLength > this.#limits.unreadBytes) {
      this.#fail('The agent does not read its input');
    }
    return true;
  }

  /** To the SDK, whose end is noticed a little later. */
  #deliver(message: AnyMessage): void {
    if (!this.#sdk.signal.aborted) this.#receive?.enqueue(message);
  }

  #line(line: string): void | Promise<void> {
    if (line.trim() === '') return undefined;
    this.lastActiveAt = this.#clock.now();
    const received = parseMessage(line);
    if (received === undefined) {
      return this.#violation(`a line that is no message of ACP: ${excerpt(line)}`);
    }
    const { kind, message } = received;
    switch (kind) {
      case 'notification':
        if (received.method === methods.client.session.update) return this.#update(message, line);
        // The SDK ignores all others, except that a request is withdrawn.
        this.#deliver(message);
        return undefined;
      case 'request':
        return this.#request(received.id, message);
      case 'response':
        return this.#response(received.id, message);
    }
  }

  async #update(message: AnyMessage, line: string): Promise<void> {
    const parsed = parseUpdate('params' in message ? message.params : undefined);
    if (parsed === 'unknown') return;
    if (parsed === 'invalid') {
      this.#violation(`an invalid session/update: ${excerpt(line)}`);
      return;
    }
    if (parsed.sessionId !== this.#client.sessionId) return;
    try {
      await this.#client.update(parsed.update);
    } catch (error) {
      this.#fail(`An update of the agent could not be handled: ${(error as Error).message}`);
    }
  }

  #request(id: string | number, message: AnyMessage): void | Promise<void> {
    if (this.#open.has(id)) {
      const problem = `a request with the id ${id}, which an open request has`;
      this.#write(refusal(null, -32600, `Invalid request: ${problem}`));
      return this.#violation(problem);
    }
    const { openRequests } = this.#limits;
    if (this.#open.size >= openRequests) {
      const problem = `more than ${openRequests} requests at a time`;
      this.#write(refusal(id, -32603, `Too many open requests`));
      return this.#violation(problem);
    }
    this.#open.add(id);
    this.#deliver(message);
    // What needs no person is answered before the next one.
    return nextTurn();
  }

  #response(id: string | number, message: AnyMessage): void {
    const method = this.#pending.get(id);
    if (method === undefined) {
      this.#violation(`an answer to no request, with the id ${excerpt(String(id))}`);
      return;
    }
    this.#pending.delete(id);
    const problem = resultProblem(method, message);
    this.#deliver(problem === undefined ? message : refusal(id, -32603, problem));
  }

  #violation(problem: string): void {
    const now = this.#clock.now();
    if (now - this.#violations.since >= minuteMs) this.#violations = { since: now, count: 0 };
    this.#violations.count += 1;
    const { count } = this.#violations;
    if (count === 1) this.#client.violation(`The agent sent ${problem}`);
    if (count > this.#limits.violationsPerMinute) {
      this.#fail(`The agent broke the protocol ${count} times within a minute; it sent ${problem}`);
    }
  }
}

function refusal(id: string | number | null, code: number, message: string): AnyMessage {
  return { jsonrpc: '2.0', id, error: { code, message } };
}

/** Control characters are escaped. */
function excerpt(text: string): string {
  const shown = text.length > shownChars ? `${text.slice(0, shownChars)}…` : text;
  return JSON.stringify(shown);
}
