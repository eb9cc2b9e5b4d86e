/**
 * A session with an agent that speaks ACP.
 *
 *   starting ──session/new──▶ idle ──prompt──▶ turn ──its answer──▶ idle
 *                              ▲                └─agent lost─▶ (started again, resumed) ─┐
 *                              └────────────────────────── the messages are sent again ──┘
 *
 * - Relay hands messages over as its delivery modes allow, and the session holds them until their boundary:
 *   what waits when no turn is open becomes one prompt, in the order of the inbox.
 * - While a turn is open: `immediate` enters at once, and `next-tool-call` after the results of tools, both by
 *   steering. Without steering, `immediate` cancels the turn, which goes on with the message. Neither enters
 *   while a tool call or a request for permission is open.
 * - A message is `delivered` when the agent takes it, which is concluded from its first output after a prompt,
 *   and `consumed` at the end of its turn, which is always concluded: ACP has no receipt. In a turn that was
 *   cancelled or failed, only what the agent has answered after is consumed; the rest has failed.
 * - A message whose turn was open when the agent was lost is neither: it is sent again, and says so.
 * - Every request of the agent belongs to the open turn and ends with it.
 */
import { cp, lstat } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type McpServer,
  type NewSessionRequest,
  type PromptResponse,
  RequestError,
  type CreateElicitationRequest,
  type CreateElicitationResponse,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionNotification,
  type ToolCallUpdate,
} from '@agentclientprotocol/sdk';
import {
  type Clock,
  exponentialBackoff,
  type HarnessContext,
  type HarnessInput,
  type HarnessMessage,
  type HarnessSession,
  type Receipt,
} from '@relay/core';
import {
  type AgentSessionCapabilities,
  type AgentSessionEvent,
  type AgentStatus,
  defined,
  RelayError,
  type SessionIdentity,
} from '@relay/protocol';
import { type AgentFeatures, capabilitiesOf, featuresOf } from './capabilities.ts';
import type { AgentClient, AgentConnection } from './connection.ts';
import { chunkMs, reportCall, reportEnd, reportStart, textOf, TranscriptBuffer } from './events.ts';
import { denialNote, type PromptedMessage, promptOf } from './prompt.ts';
import type { AgentSupervisor, AgentSupervisorOptions } from './supervisor.ts';
import { differenceOf, maxInputChars, normalise, ToolCalls } from './tool-calls.ts';

interface AgentPlace {
  readonly workspace: string;
  readonly home: string;
  readonly mcp: { readonly url: string; readonly token: string };
}

/** What the requests of an agent need of Relay. */
export interface AgentContext extends Omit<HarnessContext, 'requestPermission'> {
  requestPermission(request: {
    readonly tool: string;
    readonly input: unknown;
    readonly shown: unknown;
    readonly isConcrete: boolean;
    readonly isEditable: false;
    readonly signal: AbortSignal;
  }): Promise<
    | { readonly allowed: true }
    | {
        readonly allowed: false;
        readonly reason: string;
        readonly by: 'rule' | 'person' | 'closed' | 'expired';
      }
  >;
  ask(question: {
    readonly message: string;
    readonly schema: unknown;
    readonly signal: AbortSignal;
  }): Promise<CreateElicitationResponse>;
}

export interface AcpSessionOptions {
  /** The name of the harness, which is part of the names of tools. */
  readonly harness: string;
  /** The name of the agent, for people. */
  readonly name: string;
  readonly input: HarnessInput;
  readonly process: AgentPlace;
  readonly context: AgentContext;
  /** What the session saved before a restart. */
  readonly state?: unknown;
  /** `_meta` of the requests that open an ACP session, for settings that an agent has only there. */
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly clock: Clock;
  readonly supervise: (hooks: Omit<AgentSupervisorOptions, 'connect' | 'clock'>) => AgentSupervisor;
}

/** Starts the agent, which says what it can do. The ACP session is opened when Relay subscribes to events. */
export async function openAcpSession(options: AcpSessionOptions): Promise<HarnessSession> {
  const session = new AcpSession(options);
  await session.start();
  return session;
}

/** Messages that arrive within this time of each other, while no turn is open, become one turn. */
const gatherMs = 40;
const maxGatherings = 10;
/** A message is not sent more often to an agent that is lost in its turn. */
const maxLosses = 3;
const offlineAfterMs = 30_000;
const cancelTimeoutMs = 10_000;
const closeTimeoutMs = 2_000;
const maxBackoffMs = 10_000;
const maxAnswerChars = 100_000;

interface HeldMessage extends PromptedMessage {
  readonly message: HarnessMessage;
  isRepeated: boolean;
  isSent: boolean;
  isDeferred: boolean;
  losses: number;
  /** How many outputs the turn had when the agent took it. */
  outputsBefore: number;
}

/** Why the turn was cancelled: by a command, for a message, or because a call was not what was approved. */
type Cancellation = 'command' | 'message' | 'changed';

interface Turn {
  readonly over: AbortController;
  /** Aborted when it is cancelled or ends: what the agent asked for is closed. */
  readonly requests: AbortController;
  readonly ended: Promise<void>;
  readonly sent: HeldMessage[];
  isPrompted: boolean;
  cancelled: Cancellation | undefined;
  /** Messages and tool calls of the agent. */
  outputs: number;
  /** The results of tools are there, and the agent has not gone on. */
  isAtResults: boolean;
  /** Steering waits for this output: the agent said that no turn was running. */
  steerFrom: number;
  answer: string;
}

type Outcome =
  | { readonly kind: 'ended'; readonly response: PromptResponse }
  | { readonly kind: 'failed'; readonly error: RequestError }
  | { readonly kind: 'lost' }
  /** It was cancelled before the prompt. */
  | { readonly kind: 'unsent' };

interface SavedState {
  readonly acpSessionId: string;
  readonly hasBegun: boolean;
  readonly tokens?: number;
  readonly costUsd?: number;
}

class AcpSession implements HarnessSession, AgentClient {
  readonly identity: SessionIdentity;
  capabilities!: AgentSessionCapabilities;
  /** Only if the agent offers it. */
  fork?: NonNullable<HarnessSession['fork']>;
  readonly #options: AcpSessionOptions;
  readonly #supervisor: AgentSupervisor;
  readonly #closing = new AbortController();
  #features: AgentFeatures | undefined;
  #listener: ((event: AgentSessionEvent) => Promise<void>) | undefined;
  #acpSessionId: string | undefined;
  /** It has a prompt. */
  #hasBegun = false;
  /** Updates repeat what was reported before. */
  #isReplaying = false;
  /** By delivery, in the order in which they arrived. */
  readonly #held = new Map<string, HeldMessage>();
  #isGathering = false;
  #turn: Turn | undefined;
  #background = new AbortController();
  #isSteering = false;
  /** What Relay has to say with the next message, or by steering. */
  #notes: string[] = [];
  readonly #calls = new ToolCalls();
  /** The open requests, by tool call. To abort one means that its call has changed. */
  readonly #requests = new Map<AbortController, string>();
  #questions = 0;
  readonly #transcript = new TranscriptBuffer();
  #lastMessage: string | undefined;
  #isFlushing = false;
  #lost: AbortController | undefined;
  #isOffline = false;
  #isFailed = false;
  #usage: { tokens: number; costUsd: number | undefined } = { tokens: 0, costUsd: undefined };
  /** What was spent before this process, if the agent counts from its start. */
  #costBase: number | undefined;

  constructor(options: AcpSessionOptions) {
    this.#options = options;
    const { handle } = options.input;
    this.identity = { handle, name: options.name, kind: 'agent' };
    const saved = savedStateOf(options.state) ?? savedStateOf(options.input.from);
    this.#acpSessionId = saved?.acpSessionId;
    this.#hasBegun = saved?.hasBegun ?? false;
    if (options.state !== undefined && saved !== undefined) {
      this.#usage = { tokens: saved.tokens ?? 0, costUsd: saved.costUsd };
    }
    this.#supervisor = options.supervise({
      client: this,
      onConnected: (connection) => this.#open(connection),
      onLost: (reason) => this.#onLost(reason),
      onFailed: (reason) => this.#onFailed(reason),
      canResume: () => {
        const { resume, load } = this.#features ?? {};
        return resume === true || load === true || !this.#hasBegun;
      },
      isIdle: () => this.#turn === undefined && this.#held.size === 0,
    });
    const stop = () => void this.#close();
    options.context.signal.addEventListener('abort', stop, { once: true });
  }

  get sessionId(): string | undefined {
    return this.#acpSessionId;
  }

  async start(): Promise<void> {
    await copyHome(this.#options);
    const features = featuresOf(await this.#supervisor.start());
    this.#features = features;
    this.capabilities = capabilitiesOf(features);
    if (features.fork) this.fork = (at) => this.#fork(at);
  }

  onEvent(listener: (event: AgentSessionEvent) => Promise<void>): () => void {
    this.#listener = listener;
    void this.#begin();
    return () => {
      this.#listener = undefined;
    };
  }

  async #begin(): Promise<void> {
    try {
      await this.#supervisor.connection();
      await this.#status(this.#turn === undefined ? 'idle' : 'active');
    } catch (error) {
      this.#onFailed(messageOf(error));
    }
  }

  get #clock(): Clock {
    return this.#options.clock;
  }

  get #callOptions() {
    const { harness, process } = this.#options;
    return { harness, workspace: process.workspace, now: this.#clock.now() };
  }

  // The ACP session

  /** On every new connection, before it is used. */
  async #open(connection: AgentConnection): Promise<void> {
    this.#features = featuresOf(connection.initialized);
    const known = this.#acpSessionId;
    const problem = known === undefined ? undefined : await this.#resume(connection, known);
    if (known === undefined || problem !== undefined) {
      // Agents do not keep a conversation that has not begun.
      if (problem !== undefined && this.#hasBegun) await this.#loseConversation(problem);
      this.#hasBegun = false;
      this.#acpSessionId = undefined;
      const created = await connection.agent.request('session/new', this.#place());
      this.#acpSessionId = created.sessionId;
    }
    this.#costBase = undefined;
    if (this.#acpSessionId !== known || this.#options.state === undefined) await this.#save();
    this.#lost?.abort();
    this.#lost = undefined;
    if (!this.#isOffline) return;
    this.#isOffline = false;
    await this.#status(this.#turn === undefined ? 'idle' : 'active');
  }

  #loseConversation(problem: string): Promise<void> {
    const what = `The agent cannot continue the conversation ${this.#acpSessionId} (${problem})`;
    return this.#error(`${what}, and begins a new one`, 'conversation_lost');
  }

  /** The problem, if the agent does not have the conversation any more. */
  async #resume(connection: AgentConnection, sessionId: string): Promise<string | undefined> {
    const { resume, load } = this.#features ?? {};
    const params = { sessionId, ...this.#place() };
    const attempts = [
      ...(resume ? (['session/resume'] as const) : []),
      ...(load ? (['session/load'] as const) : []),
    ];
    let problem = 'it can neither resume nor load one';
    for (const method of attempts) {
      this.#isReplaying = method === 'session/load';
      try {
        await connection.agent.request(method, params);
        return undefined;
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        problem = `${method}: ${error.message}`;
      } finally {
        this.#isReplaying = false;
      }
    }
    return problem;
  }

  #place(): NewSessionRequest {
    const { process, meta } = this.#options;
    const { workspace: cwd, mcp } = process;
    const headers = [{ name: 'Authorization', value: `Bearer ${mcp.token}` }];
    const relay: McpServer = { type: 'http', name: 'relay', url: mcp.url, headers };
    const mcpServers = this.#features?.mcp === true ? [relay] : [];
    return { cwd, mcpServers, ...defined({ _meta: meta }) };
  }

  async #save(): Promise<void> {
    const acpSessionId = this.#acpSessionId;
    if (acpSessionId === undefined) return;
    const { tokens, costUsd } = this.#usage;
    const hasBegun = this.#hasBegun;
    const state: SavedState = { acpSessionId, hasBegun, tokens, ...defined({ costUsd }) };
    await this.#options.context.saveState(state);
  }

  #onLost(reason: string): void {
    void this.#emit([{ type: 'error', error: reason, code: 'agent_lost', retryable: true }]);
    this.#endBackground();
    const lost = new AbortController();
    this.#lost = lost;
    void this.#clock
      .sleep(offlineAfterMs, AbortSignal.any([lost.signal, this.#closing.signal]))
      .then(async () => {
        if (lost.signal.aborted || this.#closing.signal.aborted) return;
        this.#isOffline = true;
        await this.#status('offline', reason);
      });
  }

  #onFailed(reason: string): void {
    if (this.#isFailed || this.#closing.signal.aborted) return;
    this.#isFailed = true;
    void this.#emit([
      { type: 'error', error: reason, code: 'agent_failed' },
      { type: 'status.changed', status: 'failed', reason },
    ]);
  }

  // Messages

  receiveMessage(message: HarnessMessage): Promise<{ readonly status: 'held' }> {
    const { deliveryId, redelivered } = message;
    if (!this.#held.has(deliveryId)) {
      this.#held.set(deliveryId, {
        message,
        isRepeated: redelivered,
        isSent: false,
        isDeferred: false,
        losses: 0,
        outputsBefore: 0,
      });
      this.#advance();
    }
    return Promise.resolve({ status: 'held' });
  }

  #waiting(): HeldMessage[] {
    return [...this.#held.values()]
      .filter(({ isSent }) => !isSent)
      .toSorted((one, other) => (one.message.deliveryId < other.message.deliveryId ? -1 : 1));
  }

  /** Something has changed: lets those of the waiting messages enter that may. */
  #advance(): void {
    const turn = this.#turn;
    if (this.#closing.signal.aborted || this.#isFailed) return;
    if (turn === undefined) {
      if (this.#held.size > 0) void this.#gather();
      return;
    }
    if (turn.over.signal.aborted || !turn.isPrompted) return;
    const waiting = this.#waiting();
    const immediate = waiting.filter(({ message }) => message.mode === 'immediate');
    const reason = this.#holdReason();
    if (reason !== undefined) {
      for (const held of immediate) this.#defer(held, reason);
      return;
    }
    if (this.#features?.steering !== true) {
      if (immediate.length > 0) this.#cancelTurn(turn, 'message');
      return;
    }
    if (this.#isSteering || turn.cancelled !== undefined || turn.outputs < turn.steerFrom) return;
    const atResults = waiting.filter(({ message }) => message.mode === 'next-tool-call');
    const entering = turn.isAtResults
      ? waiting.filter((held) => immediate.includes(held) || atResults.includes(held))
      : immediate;
    const hasNotes = turn.isAtResults && this.#notes.length > 0;
    if (entering.length > 0 || hasNotes) void this.#steer(turn, entering);
  }

  /** A message neither stops a tool nor answers an approval. */
  #holdReason(): 'approval open' | 'tool running' | undefined {
    if (this.#requests.size + this.#questions > 0) return 'approval open';
    return this.#calls.isAnyOpen ? 'tool running' : undefined;
  }

  #defer(held: HeldMessage, reason: string): void {
    if (held.isDeferred) return;
    held.isDeferred = true;
    // It is handed over again, and held already: so it is not handed over a third time, except after a crash.
    void this.#report(held, {
      status: 'deferred',
      reason,
      availableAt: new Date(this.#clock.now()),
    });
  }

  async #steer(turn: Turn, entering: readonly HeldMessage[]): Promise<void> {
    this.#isSteering = true;
    const notes = this.#notes;
    this.#notes = [];
    for (const held of entering) held.isSent = true;
    let outcome: unknown;
    try {
      const { agent } = await this.#supervisor.connection();
      const answer = await agent.request<{ readonly outcome?: unknown }>('_session/steering', {
        sessionId: this.#acpSessionId,
        prompt: promptOf(notes, entering, this.identity.handle),
        // Otherwise it would start a turn whose end is never reported.
        _meta: { steering: { idleBehavior: 'promptRequired' } },
      });
      outcome = answer?.outcome;
    } catch {
      outcome = 'failed';
    }
    this.#isSteering = false;
    const isTaken = outcome === 'injected' || outcome === 'startedNewTurn';
    if (!isTaken) this.#notes = [...notes, ...this.#notes];
    if (isTaken && !turn.over.signal.aborted) {
      for (const held of entering) {
        held.outputsBefore = turn.outputs;
        turn.sent.push(held);
        void this.#report(held, { status: 'delivered' });
      }
    } else {
      for (const held of entering) {
        held.isSent = false;
        held.isRepeated ||= isTaken;
      }
      turn.steerFrom = outcome === 'promptRequired' ? turn.outputs + 1 : Infinity;
    }
    this.#advance();
  }

  /** Never rejects. Repeated until it is stored, because the message would otherwise be handed over again. */
  async #report(held: HeldMessage, receipt: Receipt): Promise<void> {
    const { deliveryId } = held.message;
    if (receipt.status === 'consumed' || receipt.status === 'failed') this.#held.delete(deliveryId);
    for (let failures = 1; !this.#closing.signal.aborted; failures += 1) {
      try {
        return await this.#options.context.receipt(deliveryId, receipt);
      } catch (error) {
        if (error instanceof RelayError && !error.retryable) return;
        await this.#clock.sleep(exponentialBackoff(failures, maxBackoffMs), this.#closing.signal);
      }
    }
  }

  // Turns

  /** Waits until no further message arrives: those that wait together become one turn. */
  async #gather(): Promise<void> {
    if (this.#isGathering) return;
    this.#isGathering = true;
    for (let count = 0; count < maxGatherings; count += 1) {
      const before = this.#held.size;
      await this.#clock.sleep(gatherMs, this.#closing.signal);
      if (this.#held.size === before) break;
    }
    this.#isGathering = false;
    if (this.#turn === undefined && this.#held.size > 0 && !this.#closing.signal.aborted) {
      await this.#runTurns();
    }
  }

  /** One turn, and those that go on with the messages that it was cancelled for. Never rejects. */
  async #runTurns(): Promise<void> {
    let enters = (_held: HeldMessage): boolean => true;
    for (;;) {
      const { promise: ended, resolve: end } = Promise.withResolvers<void>();
      const turn: Turn = {
        over: new AbortController(),
        requests: new AbortController(),
        ended,
        sent: [],
        isPrompted: false,
        cancelled: undefined,
        outputs: 0,
        isAtResults: false,
        steerFrom: 0,
        answer: '',
      };
      this.#turn = turn;
      await this.#status('active');
      const outcome = await this.#prompt(turn, enters);
      turn.over.abort();
      turn.requests.abort();
      await this.#emit(this.#transcript.end(this.#clock.now()));
      this.#calls.clear(new Set(this.#requests.values()));
      const hasNext = await this.#settle(turn, outcome);
      this.#turn = undefined;
      end();
      if (this.#closing.signal.aborted || this.#isFailed) return;
      if (!hasNext) break;
      enters = ({ message, isRepeated }) => message.mode === 'immediate' || isRepeated;
      if (outcome.kind === 'lost') enters = () => true;
    }
    if (this.#lost === undefined) await this.#status('idle');
    this.#advance();
  }

  async #prompt(turn: Turn, enters: (held: HeldMessage) => boolean): Promise<Outcome> {
    let connection: AgentConnection;
    try {
      connection = await this.#supervisor.connection();
    } catch {
      return { kind: 'lost' };
    }
    if (turn.cancelled !== undefined) return { kind: 'unsent' };
    const entering = this.#waiting().filter(enters);
    const prompt = promptOf(this.#notes, entering, this.identity.handle);
    this.#notes = [];
    for (const held of entering) {
      held.isSent = true;
      held.outputsBefore = 0;
      turn.sent.push(held);
    }
    const sessionId = this.#acpSessionId ?? '';
    if (!this.#hasBegun) {
      this.#hasBegun = true;
      await this.#save().catch(() => undefined);
    }
    try {
      const answer = connection.agent.request('session/prompt', { sessionId, prompt });
      turn.isPrompted = true;
      // What arrived since the messages were chosen may be immediate.
      this.#advance();
      return { kind: 'ended', response: await answer };
    } catch (error) {
      if (error instanceof RequestError) return { kind: 'failed', error };
      await this.#isReplaced(connection);
      return { kind: 'lost' };
    }
  }

  /** The requests of a connection end before its process does, and before the supervisor knows. */
  async #isReplaced(connection: AgentConnection): Promise<void> {
    await connection.closed;
    const current = () => this.#supervisor.connection().catch(() => undefined);
    while ((await current()) === connection) await nextTurn();
  }

  /** What the end of the turn means for its messages. True if it goes on, without being idle in between. */
  async #settle(turn: Turn, outcome: Outcome): Promise<boolean> {
    const reports: Promise<void>[] = [];
    const report = (held: HeldMessage, receipt: Receipt) => {
      reports.push(this.#report(held, receipt));
    };
    const isCut =
      outcome.kind !== 'ended' ||
      outcome.response.stopReason === 'cancelled' ||
      turn.cancelled !== undefined;
    const answered: string[] = [];
    for (const held of turn.sent) {
      const isRead = turn.outputs > held.outputsBefore;
      if (outcome.kind === 'lost' && turn.cancelled === undefined) {
        this.#sendAgain(held, report);
      } else if (!isCut || isRead) {
        answered.push(held.message.id);
        report(held, { status: 'consumed', fidelity: 'inferred' });
      } else if (turn.cancelled === 'message') {
        held.isSent = false;
        held.isRepeated = true;
      } else {
        const reason = outcome.kind === 'failed' ? messageOf(outcome.error) : 'turn canceled';
        report(held, { status: 'failed', reason: reason.slice(0, 1_000), retryable: true });
      }
    }
    if (outcome.kind === 'unsent') {
      for (const held of this.#waiting()) {
        report(held, { status: 'failed', reason: 'turn canceled', retryable: true });
      }
    }
    await this.#emit(failureOf(outcome));
    // Before the receipts: after a crash in between, the message is answered again rather than not at all.
    if (!isCut && turn.answer.trim() !== '') await this.#reply(turn.answer, answered);
    await Promise.all(reports);
    if (outcome.kind === 'ended') await this.#count(outcome.response);
    const waiting = this.#waiting();
    if (outcome.kind === 'lost') return turn.cancelled === undefined && waiting.length > 0;
    return (
      turn.cancelled === 'message' && waiting.some(({ message }) => message.mode === 'immediate')
    );
  }

  #sendAgain(held: HeldMessage, report: (held: HeldMessage, receipt: Receipt) => void): void {
    held.losses += 1;
    if (held.losses < maxLosses) {
      held.isSent = false;
      held.isRepeated = true;
      return;
    }
    const reason = `The agent ended ${held.losses} times before it answered`;
    report(held, { status: 'failed', reason, retryable: true });
  }

  /**
   * The answer of the agent reaches whoever addressed it, like that of a native agent: a person who sends a
   * message expects the answer in the thread, not only in the transcript.
   */
  async #reply(answer: string, messageIds: readonly string[]): Promise<void> {
    const rest = answer.length - maxAnswerChars;
    const text =
      rest <= 0 ? answer : `${answer.slice(0, maxAnswerChars)}\n… ${rest} more characters`;
    try {
      await this.#options.context.reply({ text, messageIds });
    } catch (error) {
      await this.#error(`The answer was not sent: ${messageOf(error)}`, 'reply_failed');
    }
  }

  #cancelTurn(turn: Turn, cancellation: Cancellation): void {
    if (turn.cancelled === 'command' || turn.over.signal.aborted) return;
    const isFirst = turn.cancelled === undefined;
    turn.cancelled = cancellation;
    if (!isFirst || !turn.isPrompted) return;
    turn.requests.abort();
    void this.#cancelPrompt(turn);
  }

  async #cancelPrompt(turn: Turn): Promise<void> {
    const sessionId = this.#acpSessionId ?? '';
    let connection: AgentConnection;
    try {
      connection = await this.#supervisor.connection();
      await connection.agent.notify('session/cancel', { sessionId });
    } catch {
      // The agent is gone, and the turn with it.
      return;
    }
    await Promise.race([turn.ended, this.#clock.sleep(cancelTimeoutMs, turn.over.signal)]);
    if (turn.over.signal.aborted) return;
    await this.#error(
      'The agent did not end its turn when it was cancelled, and is started again',
      'agent_hung',
    );
    await connection.close();
  }

  async cancel(): Promise<void> {
    const turn = this.#turn;
    this.#endBackground();
    if (turn === undefined) return;
    this.#cancelTurn(turn, 'command');
    await Promise.race([turn.ended, this.#clock.sleep(2 * cancelTimeoutMs, this.#closing.signal)]);
  }

  // What the agent reports

  async update(update: SessionNotification['update']): Promise<void> {
    if (this.#isReplaying) return;
    switch (update.sessionUpdate) {
      case 'agent_message_chunk':
      case 'agent_thought_chunk':
        return this.#hear(update);
      case 'tool_call':
      case 'tool_call_update':
        return this.#track(update);
      case 'usage_update':
        return this.#spend(update.cost ?? undefined);
      case 'notice': {
        const level =
          update.severity === 'error' || update.severity === 'warning' ? 'warn' : 'info';
        const message = [update.title, update.description ?? '']
          .filter((text) => text !== '')
          .join(': ');
        return this.#emit([{ type: 'log', level, message }]);
      }
      default:
        return undefined;
    }
  }

  /** The first output after a prompt shows that the agent has the message. */
  #observe(turn: Turn): void {
    turn.outputs += 1;
    turn.isAtResults = false;
    if (turn.outputs > 1) return;
    for (const held of turn.sent)
      void this.#report(held, { status: 'delivered', fidelity: 'inferred' });
  }

  async #hear(
    update: Extract<SessionNotification['update'], { sessionUpdate: `agent_${string}_chunk` }>,
  ): Promise<void> {
    const turn = this.#turn;
    const text = textOf(update.content);
    const isThought = update.sessionUpdate === 'agent_thought_chunk';
    const messageId = update.messageId ?? undefined;
    const name = `${messageId ?? ''} ${isThought}`;
    if (turn !== undefined && (name !== this.#lastMessage || turn.outputs === 0)) {
      this.#observe(turn);
      if (!isThought) turn.answer = '';
    }
    this.#lastMessage = name;
    if (turn !== undefined && !isThought && turn.answer.length <= maxAnswerChars)
      turn.answer += text;
    const now = this.#clock.now();
    await this.#emit(this.#transcript.add({ text, isThought, messageId }, now));
    this.#scheduleFlush();
    // An immediate message may have waited for the first output.
    this.#advance();
  }

  #scheduleFlush(): void {
    if (this.#isFlushing || this.#transcript.isEmpty) return;
    this.#isFlushing = true;
    void this.#clock.sleep(chunkMs, this.#closing.signal).then(() => {
      this.#isFlushing = false;
      return this.#emit(this.#transcript.flush(this.#clock.now()));
    });
  }

  async #track(update: ToolCallUpdate): Promise<void> {
    const turn = this.#turn;
    const options = this.#callOptions;
    const before = this.#calls.get(update.toolCallId);
    this.#lastMessage = undefined;
    await this.#emit(this.#transcript.end(options.now));
    if (before === undefined && turn !== undefined) {
      this.#observe(turn);
      turn.answer = '';
    }
    if (before !== undefined) await this.#compare(before, update);
    const call = this.#calls.merge(update, options.now);
    const hasEnded = before?.phase !== call.phase && call.phase !== 'announced';
    const report = hasEnded ? reportEnd(call, update, options) : reportCall(call, options);
    this.#calls.change(call.id, { reported: report.reported });
    await this.#emit(report.events);
    if (turn === undefined) {
      // Nothing ends the calls of an agent that works without a turn.
      if (hasEnded) this.#calls.forget(call.id);
      return;
    }
    if (hasEnded && this.#holdReason() === undefined) turn.isAtResults = true;
    this.#advance();
  }

  /** An approval is for what was shown. */
  async #compare(
    before: NonNullable<ReturnType<ToolCalls['get']>>,
    update: ToolCallUpdate,
  ): Promise<void> {
    const { id, approved, permission } = before;
    if (permission === 'denied' && update.status === 'completed') {
      return this.#stop(
        `The agent reports that the call ${id} was completed, although it was denied`,
      );
    }
    if (permission === 'withdrawn' && update.status !== 'pending' && update.status !== 'failed') {
      return this.#stop(`The agent went on with the call ${id} without asking for it again`);
    }
    if (approved === undefined || (permission !== 'asked' && permission !== 'allowed'))
      return undefined;
    const difference = differenceOf(approved, update, this.#callOptions);
    if (difference === undefined) return undefined;
    const asked = `The agent asked for the call ${id}, and then showed ${difference}.`;
    if (permission === 'asked') {
      for (const [request, toolCallId] of this.#requests) if (toolCallId === id) request.abort();
      return this.#error(`${asked} The request was closed`, 'call_changed');
    }
    if (update.status === 'pending') {
      this.#calls.change(id, { permission: 'withdrawn' });
      return this.#error(
        `${asked} The approval does not apply: it has to ask again`,
        'call_changed',
      );
    }
    return this.#stop(`${asked} That was not approved`);
  }

  async #stop(error: string): Promise<void> {
    await this.#error(`${error}. The turn was cancelled`, 'call_changed');
    if (this.#turn !== undefined) this.#cancelTurn(this.#turn, 'changed');
  }

  /** The costs that an agent reports are those of its ACP session, or of its process. */
  async #spend(
    cost: { readonly amount: number; readonly currency: string } | undefined,
  ): Promise<void> {
    if (cost?.currency !== 'USD' || !(cost.amount >= 0)) return;
    const before = this.#usage.costUsd ?? 0;
    this.#costBase ??= cost.amount >= before ? 0 : before;
    const costUsd = this.#costBase + cost.amount;
    if (costUsd <= before) return;
    this.#usage = { ...this.#usage, costUsd };
    await this.#emitUsage();
  }

  async #count(response: PromptResponse): Promise<void> {
    const { usage } = response as { usage?: { totalTokens?: unknown } | null };
    const tokens = usage?.totalTokens;
    if (typeof tokens === 'number' && tokens > 0) {
      this.#usage = { ...this.#usage, tokens: this.#usage.tokens + tokens };
      await this.#emitUsage();
    }
    await this.#save().catch((error: unknown) =>
      this.#error(`The state was not saved: ${messageOf(error)}`, 'save_failed'),
    );
  }

  #emitUsage(): Promise<void> {
    const { tokens, costUsd } = this.#usage;
    return this.#emit([{ type: 'usage.updated', tokens, ...defined({ costUsd }) }]);
  }

  // What the agent asks for

  /**
   * When a request is closed: with its turn. Agents that work in the background ask without one; then it is
   * closed when the session is cancelled or released, or the agent is lost.
   */
  #scope(what: string): AbortSignal {
    const turn = this.#turn;
    if (turn?.isPrompted === true && !turn.over.signal.aborted) return turn.requests.signal;
    const message = `The agent asks for ${what} after the end of its turn`;
    void this.#emit([{ type: 'log', level: 'warn', message }]);
    return this.#background.signal;
  }

  #endBackground(): void {
    this.#background.abort();
    this.#background = new AbortController();
  }

  async requestPermission(
    request: RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse> {
    const { toolCall, options } = request;
    const { toolCallId } = toolCall;
    const over = this.#scope(`permission for the call ${toolCallId}`);
    const rejected = (): RequestPermissionResponse => {
      const option = options.find(({ kind }) => kind === 'reject_once');
      if (option === undefined) return cancelled;
      return { outcome: { outcome: 'selected', optionId: option.optionId } };
    };
    await this.#emit(this.#transcript.end(this.#clock.now()));
    const call = this.#calls.merge(toolCall, this.#clock.now());
    const callOptions = this.#callOptions;
    const { tool, inputs, isConcrete, shown } = normalise(call.announced, callOptions);
    const called = reportCall(call, callOptions, true);
    this.#calls.change(toolCallId, {
      reported: called.reported,
      approved: call.announced,
      permission: 'asked',
      phase: 'announced',
    });
    await this.#emit(called.events);
    const refuse = async (error: string, code: string) => {
      this.#calls.change(toolCallId, { permission: 'denied' });
      await this.#error(error, code);
      return rejected();
    };
    // Any other option would allow more than this call, where Relay can neither list nor revoke it.
    const allow = options.find(({ kind }) => kind === 'allow_once');
    if (allow === undefined) {
      const why = `The agent offers no way to allow the call ${toolCallId} of ${tool} only once`;
      return refuse(why, 'allow_once_missing');
    }
    if (JSON.stringify(inputs).length > maxInputChars) {
      const why = `The call ${toolCallId} of ${tool} is too large to be shown to an approver`;
      return refuse(why, 'payload_too_large');
    }
    const own = new AbortController();
    this.#requests.set(own, toolCallId);
    const signals = AbortSignal.any([signal, over, own.signal]);
    try {
      for (const input of inputs) {
        const answer = await this.#options.context.requestPermission({
          tool,
          input,
          shown,
          isConcrete,
          isEditable: false,
          signal: signals,
        });
        if (signals.aborted) return over.aborted || signal.aborted ? cancelled : rejected();
        if (answer.allowed) continue;
        this.#calls.change(toolCallId, { permission: 'denied' });
        if (answer.by === 'closed') return cancelled;
        this.#notes.push(denialNote(tool, input, answer.reason));
        return rejected();
      }
    } catch (error) {
      return await refuse(
        `Permission for ${tool} was not decided: ${messageOf(error)}`,
        'permission_failed',
      );
    } finally {
      this.#requests.delete(own);
      this.#advance();
    }
    const now = this.#clock.now();
    this.#calls.change(toolCallId, { permission: 'allowed', since: now });
    const started = reportStart(this.#calls.get(toolCallId) ?? call, { ...callOptions, now });
    this.#calls.change(toolCallId, { reported: started.reported });
    await this.#emit(started.events);
    return { outcome: { outcome: 'selected', optionId: allow.optionId } };
  }

  async elicit(
    request: CreateElicitationRequest,
    signal: AbortSignal,
  ): Promise<CreateElicitationResponse> {
    if (request.mode !== 'form') {
      await this.#error('The agent asked a question that is not a form', 'unexpected_request');
      return { action: 'cancel' };
    }
    const over = this.#scope('an answer');
    this.#questions += 1;
    try {
      const answer = await this.#options.context.ask({
        message: request.message,
        schema: (request as { readonly requestedSchema?: unknown }).requestedSchema,
        signal: AbortSignal.any([signal, over]),
      });
      return answer;
    } finally {
      this.#questions -= 1;
      this.#advance();
    }
  }

  violation(problem: string): void {
    void this.#emit([{ type: 'log', level: 'warn', message: problem }]);
  }

  // Lifecycle

  /** A conversation is forked as it is: agents know no other position. */
  async #fork({ seq }: { readonly seq?: number }): Promise<unknown> {
    if (seq !== undefined)
      throw new Error('This agent can only be forked as it is now: leave out seq');
    if (this.#turn !== undefined || this.#held.size > 0) {
      throw new Error('The agent is working: fork the session when it is idle');
    }
    const { agent } = await this.#supervisor.connection();
    const { workspace: cwd, home } = this.#options.process;
    if (!this.#hasBegun) throw new Error('There is no conversation to fork: send a message first');
    const forked = await agent.request<{ readonly sessionId: string }>('session/fork', {
      sessionId: this.#acpSessionId,
      ...this.#place(),
      cwd,
      mcpServers: [],
    });
    const acpSessionId = forked.sessionId;
    // The new session has a process of its own, which resumes it.
    if (this.#features?.close === true)
      await agent.request('session/close', { sessionId: acpSessionId });
    return { acpSessionId, hasBegun: true, home };
  }

  async release(): Promise<void> {
    await this.#close();
  }

  async #close(): Promise<void> {
    if (this.#closing.signal.aborted) return this.#supervisor.stop();
    const turn = this.#turn;
    if (turn !== undefined) {
      this.#cancelTurn(turn, 'command');
      await Promise.race([turn.ended, this.#clock.sleep(closeTimeoutMs)]);
    } else if (
      this.#features?.close === true &&
      this.#acpSessionId !== undefined &&
      this.#lost === undefined
    ) {
      await this.#closeAcpSession(this.#acpSessionId);
    }
    this.#closing.abort();
    this.#endBackground();
    turn?.requests.abort();
    await this.#supervisor.stop();
  }

  async #closeAcpSession(sessionId: string): Promise<void> {
    const over = new AbortController();
    const closed = this.#supervisor
      .connection()
      .then(({ agent }) => agent.request('session/close', { sessionId }))
      .catch(() => undefined);
    await Promise.race([closed, this.#clock.sleep(closeTimeoutMs, over.signal)]);
    over.abort();
  }

  // Events

  #status(status: AgentStatus, reason?: string): Promise<void> {
    return this.#emit([{ type: 'status.changed', status, ...defined({ reason }) }]);
  }

  #error(error: string, code: string): Promise<void> {
    return this.#emit([{ type: 'error', error, code }]);
  }

  /** Resolves when they are stored, so that an agent cannot report more than that. */
  async #emit(events: readonly AgentSessionEvent[]): Promise<void> {
    const listener = this.#listener;
    if (listener === undefined || events.length === 0) return;
    await Promise.all(events.map((event) => listener(event)));
  }
}

const cancelled: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

/** Why a turn ended before the agent was finished. */
function failureOf(outcome: Outcome): AgentSessionEvent[] {
  if (outcome.kind === 'failed') {
    return [
      { type: 'error', error: messageOf(outcome.error), code: 'turn_failed', retryable: true },
    ];
  }
  if (outcome.kind !== 'ended') return [];
  const { stopReason } = outcome.response;
  switch (stopReason) {
    case 'end_turn':
    case 'cancelled':
      return [];
    default:
      return [
        { type: 'error', error: `The agent ended its turn: ${stopReason}`, code: stopReason },
      ];
  }
}

function savedStateOf(state: unknown): SavedState | undefined {
  const saved = (state ?? {}) as Partial<Record<keyof SavedState, unknown>>;
  if (typeof saved.acpSessionId !== 'string') return undefined;
  const { acpSessionId, hasBegun, tokens, costUsd } = saved;
  return {
    acpSessionId,
    hasBegun: hasBegun === true,
    ...defined({
      tokens: typeof tokens === 'number' ? tokens : undefined,
      costUsd: typeof costUsd === 'number' ? costUsd : undefined,
    }),
  };
}

/** The agent keeps its conversations in its home: that of a fork begins as a copy. */
async function copyHome({ input, process, state }: AcpSessionOptions): Promise<void> {
  const { home } = (input.from ?? {}) as { readonly home?: unknown };
  if (state !== undefined || typeof home !== 'string' || home === process.home) return;
  try {
    await cp(home, process.home, {
      recursive: true,
      force: true,
      verbatimSymlinks: true,
      filter: async (source) => {
        const found = await lstat(source);
        return found.isDirectory() || found.isFile() || found.isSymbolicLink();
      },
    });
  } catch (error) {
    throw new Error(
      `The conversation of the other session could not be copied: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : String(error);
}
