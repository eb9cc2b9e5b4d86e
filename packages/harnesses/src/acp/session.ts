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
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type CreateElicitationRequest,
  type CreateElicitationResponse,
  type PromptResponse,
  RequestError,
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
  type HarnessProcess,
  type HarnessSession,
  type Receipt,
} from '@relay/core';
import {
  type AgentSessionCapabilities,
  type AgentSessionEvent,
  defined,
  RelayError,
  type SessionIdentity,
} from '@relay/protocol';
import { capabilitiesOf, featuresOf } from './capabilities.ts';
import type { AgentClient, AgentConnection } from './connection.ts';
import { Conversation, savedConversation } from './conversation.ts';
import { copyHome } from './copy-home.ts';
import { textOf } from './events.ts';
import { problemOf } from './messages.ts';
import { type PromptedMessage, promptOf } from './prompt.ts';
import { Reporter, type Usage } from './reporter.ts';
import { AgentRequests } from './requests.ts';
import type { AgentSupervisor, AgentSupervisorOptions } from './supervisor.ts';

export interface AcpSessionOptions {
  /** The name of the harness, which is part of the names of tools. */
  readonly harness: string;
  /** The name of the agent, for people. */
  readonly name: string;
  readonly input: HarnessInput;
  readonly process: HarnessProcess;
  readonly context: HarnessContext;
  /** What the session saved before a restart. */
  readonly state?: unknown;
  /** `_meta` of the requests that open an ACP session, for settings that an agent has only there. */
  readonly meta?: Readonly<Record<string, unknown>>;
  /** Paths in the agent's home that a fork does not copy: they name that home, and the agent makes them anew. */
  readonly uncopied?: RegExp;
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
/** An agent that is denied more often than this has read the last ones. */
const maxNotes = 20;
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

/** Why the turn was cancelled: by a command, for a message, or because the agent did what was not approved. */
type Cancellation = 'command' | 'message' | 'breach';

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

class AcpSession implements HarnessSession, AgentClient {
  readonly identity: SessionIdentity;
  capabilities!: AgentSessionCapabilities;
  /** Only if the agent offers it. */
  fork?: NonNullable<HarnessSession['fork']>;
  readonly #options: AcpSessionOptions;
  readonly #supervisor: AgentSupervisor;
  readonly #closing = new AbortController();
  readonly #conversation: Conversation;
  readonly #reporter: Reporter;
  readonly #requests: AgentRequests;
  /** By delivery. */
  readonly #held = new Map<string, HeldMessage>();
  #isGathering = false;
  #turn: Turn | undefined;
  #isSteering = false;
  /** What Relay has to say with the next message, or by steering. */
  #notes: string[] = [];
  /** What the agent is saying. */
  #speech: string | undefined;
  /** The agent gives its messages ids; what has none is not of its model. */
  #namesMessages = false;
  #lost: AbortController | undefined;
  #dead: AgentConnection | undefined;
  #isOffline = false;
  #isFailed = false;

  constructor(options: AcpSessionOptions) {
    const { input, process, context, clock, harness, state } = options;
    this.#options = options;
    this.identity = { handle: input.handle, name: options.name, kind: 'agent' };
    const saved = savedConversation(state) ?? savedConversation(input.from);
    this.#conversation = new Conversation({ process, saved, ...defined({ meta: options.meta }) });
    this.#reporter = new Reporter(clock, this.#closing.signal, savedUsage(state));
    this.#requests = new AgentRequests({
      harness,
      workspace: process.workspace,
      context,
      clock,
      reporter: this.#reporter,
      turnSignal: () => {
        const turn = this.#turn;
        return turn?.isPrompted === true && !turn.over.signal.aborted
          ? turn.requests.signal
          : undefined;
      },
      onDenied: (note) => {
        this.#notes = [...this.#notes, note].slice(-maxNotes);
      },
      onClosed: () => this.#advance(),
      onBreach: () => {
        if (this.#turn === undefined) void this.#cancelBackground();
        else this.#cancelTurn(this.#turn, 'breach');
      },
    });
    this.#supervisor = options.supervise({
      client: this,
      onConnected: (connection) => this.#open(connection),
      onLost: (reason) => this.#onLost(reason),
      onFailed: (reason) => this.#onFailed(reason),
      canResume: () => this.#conversation.canContinue,
      isIdle: () => {
        const isFree = this.#turn === undefined && this.#requests.holdReason === undefined;
        return isFree && this.#held.size === 0;
      },
    });
    const stop = () => void this.#stop();
    context.signal.addEventListener('abort', stop, { once: true });
  }

  get sessionId(): string | undefined {
    return this.#conversation.id;
  }

  async start(): Promise<void> {
    const { input, process, state, uncopied } = this.#options;
    if (state === undefined) {
      await copyHome(input.from, process.home, uncopied);
      // After a crash before the agent runs, the fork is still one.
      if (this.#conversation.id !== undefined) await this.#save();
    }
    const features = featuresOf(await this.#supervisor.start());
    this.capabilities = capabilitiesOf(features);
    if (features.fork) this.fork = (at) => this.#fork(at);
  }

  onEvent(listener: (event: AgentSessionEvent) => Promise<void>): () => void {
    this.#reporter.listener = listener;
    void this.#begin();
    return () => {
      this.#reporter.listener = undefined;
    };
  }

  async #begin(): Promise<void> {
    try {
      await this.#supervisor.connection();
      await this.#showStatus();
    } catch (error) {
      this.#onFailed(problemOf(error));
    }
  }

  #showStatus(): Promise<void> {
    return this.#reporter.status(this.#turn === undefined ? 'idle' : 'active');
  }

  get #clock(): Clock {
    return this.#options.clock;
  }

  /** On every new connection, before it is used. */
  async #open(connection: AgentConnection): Promise<void> {
    this.#reporter.startProcess();
    const problem = await this.#conversation.open(connection);
    await this.#save();
    if (problem !== undefined) {
      const error = `The agent cannot continue the conversation, and begins a new one: ${problem}`;
      await this.#reporter.error(error, 'conversation_lost');
    }
    this.#lost?.abort();
    this.#lost = undefined;
    if (!this.#isOffline) return;
    this.#isOffline = false;
    await this.#showStatus();
  }

  async #save(): Promise<void> {
    const { id: acpSessionId, hasBegun } = this.#conversation;
    await this.#options.context.saveState({ acpSessionId, hasBegun, ...this.#reporter.usage });
  }

  #onLost(reason: string): void {
    void this.#reporter.error(reason, 'agent_lost', true);
    this.#requests.closeBackground();
    const lost = new AbortController();
    this.#lost = lost;
    const signal = AbortSignal.any([lost.signal, this.#closing.signal]);
    void this.#clock.sleep(offlineAfterMs, signal).then(async () => {
      if (signal.aborted) return;
      this.#isOffline = true;
      await this.#reporter.status('offline', reason);
    });
  }

  #onFailed(reason: string): void {
    if (this.#isFailed || this.#closing.signal.aborted) return;
    this.#isFailed = true;
    void this.#reporter.error(reason, 'agent_failed');
    void this.#reporter.status('failed', reason);
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
    const reason = this.#requests.holdReason;
    if (reason !== undefined) {
      for (const held of immediate) this.#defer(held, reason);
      return;
    }
    if (this.#conversation.features?.steering !== true) {
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
        sessionId: this.#conversation.id,
        prompt: promptOf(notes, entering, this.identity.handle),
        // Otherwise it would start a turn whose end is never reported.
        _meta: { steering: { idleBehavior: 'promptRequired' } },
      });
      outcome = answer?.outcome;
    } catch (error) {
      // Without an answer, the agent may have it.
      outcome = error instanceof RequestError ? 'failed' : 'unknown';
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
        held.isRepeated ||= isTaken || outcome === 'unknown';
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
      this.#speech = undefined;
      await this.#reporter.status('active');
      const outcome = await this.#prompt(turn, enters);
      turn.over.abort();
      turn.requests.abort();
      await this.#reporter.endMessage();
      this.#requests.endTurn();
      const hasNext = await this.#settle(turn, outcome);
      this.#turn = undefined;
      end();
      if (this.#closing.signal.aborted || this.#isFailed) return;
      if (!hasNext) break;
      enters = ({ message, isRepeated }) => message.mode === 'immediate' || isRepeated;
      if (outcome.kind === 'lost') enters = () => true;
    }
    await this.#reporter.status('idle');
    this.#advance();
  }

  async #prompt(turn: Turn, enters: (held: HeldMessage) => boolean): Promise<Outcome> {
    let connection: AgentConnection;
    try {
      connection = await this.#connection();
    } catch {
      return { kind: 'lost' };
    }
    if (!this.#conversation.hasBegun) {
      this.#conversation.hasBegun = true;
      await this.#save().catch(() => undefined);
    }
    // From here to the prompt nothing is awaited: a cancellation comes before it, or cancels it.
    if (turn.cancelled !== undefined) return { kind: 'unsent' };
    const entering = this.#waiting().filter(enters);
    const prompt = promptOf(this.#notes, entering, this.identity.handle);
    this.#notes = [];
    for (const held of entering) {
      held.isSent = true;
      held.outputsBefore = 0;
      turn.sent.push(held);
    }
    const sessionId = this.#conversation.id ?? '';
    try {
      const answer = connection.agent.request('session/prompt', { sessionId, prompt });
      turn.isPrompted = true;
      // What arrived since the messages were chosen may be immediate.
      this.#advance();
      return { kind: 'ended', response: await answer };
    } catch (error) {
      if (error instanceof RequestError) return { kind: 'failed', error };
      this.#dead = connection;
      return { kind: 'lost' };
    }
  }

  /** The requests of a connection end before its process does, and before the supervisor knows. */
  async #connection(): Promise<AgentConnection> {
    for (;;) {
      const connection = await this.#supervisor.connection();
      if (connection !== this.#dead) return connection;
      await connection.closed;
      await nextTurn();
    }
  }

  /** What the end of the turn means for its messages. True if it goes on, without being idle in between. */
  async #settle(turn: Turn, outcome: Outcome): Promise<boolean> {
    const receipts: [HeldMessage, Receipt][] = [];
    const report = (held: HeldMessage, receipt: Receipt) => {
      receipts.push([held, receipt]);
    };
    const isLost = outcome.kind === 'lost' && (turn.cancelled ?? 'message') === 'message';
    const isCut = outcome.kind !== 'ended' || outcome.response.stopReason === 'cancelled';
    const answered: string[] = [];
    for (const held of turn.sent) {
      const isRead = turn.outputs > held.outputsBefore;
      if (isLost) {
        this.#sendAgain(held, report);
      } else if (!isCut || isRead) {
        answered.push(held.message.id);
        report(held, { status: 'consumed', fidelity: 'inferred' });
      } else if (turn.cancelled === 'message') {
        held.isSent = false;
        held.isRepeated = true;
      } else {
        const reason = outcome.kind === 'failed' ? problemOf(outcome.error) : 'turn canceled';
        report(held, { status: 'failed', reason: reason.slice(0, 1_000), retryable: true });
      }
    }
    if (outcome.kind === 'unsent') {
      for (const held of this.#waiting()) {
        report(held, { status: 'failed', reason: 'turn canceled', retryable: true });
      }
    }
    if (this.#closing.signal.aborted) return false;
    await this.#reporter.emit(failureOf(outcome));
    if (outcome.kind === 'ended') await this.#reporter.count(outcome.response);
    await this.#save().catch(() => undefined);
    // Before the receipts: after a crash in between, the message is answered again rather than not at all.
    if (!isCut && turn.answer.trim() !== '') await this.#reply(turn.answer, answered);
    await Promise.all(receipts.map(([held, receipt]) => this.#report(held, receipt)));
    const waiting = this.#waiting();
    if (isLost) return waiting.length > 0;
    const isImmediate = ({ message }: HeldMessage) => message.mode === 'immediate';
    return turn.cancelled === 'message' && waiting.some(isImmediate);
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
      await this.#reporter.error(`The answer was not sent: ${problemOf(error)}`, 'reply_failed');
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
    const sessionId = this.#conversation.id ?? '';
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
    await this.#reporter.error(
      'The agent did not end its turn when it was cancelled, and is started again',
      'agent_hung',
    );
    await connection.close();
  }

  /** What an agent does without a turn. */
  async #cancelBackground(): Promise<void> {
    this.#requests.closeBackground();
    try {
      const { agent } = await this.#supervisor.connection();
      await agent.notify('session/cancel', { sessionId: this.#conversation.id ?? '' });
    } catch {
      // The agent is gone.
    }
  }

  async cancel(): Promise<void> {
    const turn = this.#turn;
    this.#requests.closeBackground();
    if (turn === undefined) return;
    this.#cancelTurn(turn, 'command');
    await Promise.race([turn.ended, this.#clock.sleep(2 * cancelTimeoutMs, this.#closing.signal)]);
  }

  // What the agent reports

  async update(update: SessionNotification['update']): Promise<void> {
    if (this.#conversation.isReplaying) return;
    switch (update.sessionUpdate) {
      case 'agent_message_chunk':
      case 'agent_thought_chunk':
        return this.#hear(update);
      case 'tool_call':
      case 'tool_call_update':
        return this.#track(update);
      case 'usage_update':
        if (update.cost) await this.#reporter.spend(update.cost);
        return;
      case 'notice': {
        const level = update.severity === 'info' ? 'info' : 'warn';
        const texts = [update.title, update.description ?? ''].filter((text) => text !== '');
        return this.#reporter.log(level, texts.join(': '));
      }
      default:
        return;
    }
  }

  /** The first output after a prompt shows that the agent has the message. */
  #observe(turn: Turn): void {
    turn.outputs += 1;
    turn.isAtResults = false;
    if (turn.outputs > 1) return;
    for (const held of turn.sent) {
      void this.#report(held, { status: 'delivered', fidelity: 'inferred' });
    }
  }

  async #hear(
    update: Extract<SessionNotification['update'], { sessionUpdate: `agent_${string}_chunk` }>,
  ): Promise<void> {
    const text = textOf(update.content);
    const isThought = update.sessionUpdate === 'agent_thought_chunk';
    const messageId = update.messageId ?? undefined;
    this.#namesMessages ||= messageId !== undefined;
    const speech = `${isThought} ${messageId ?? ''}`;
    const turn = this.#turn;
    if (turn !== undefined && speech !== this.#speech) {
      if (messageId !== undefined || !this.#namesMessages) this.#observe(turn);
      if (!isThought) turn.answer = '';
    }
    this.#speech = speech;
    if (turn !== undefined && !isThought && turn.answer.length <= maxAnswerChars) {
      turn.answer += text;
    }
    await this.#reporter.say({ text, isThought, messageId });
    // An immediate message may have waited for the first output.
    this.#advance();
  }

  async #track(update: ToolCallUpdate): Promise<void> {
    const step = await this.#requests.track(update);
    const turn = this.#turn;
    this.#speech = undefined;
    if (turn === undefined) return;
    if (step === 'new') {
      this.#observe(turn);
      turn.answer = '';
    }
    if (step === 'ended' && this.#requests.holdReason === undefined) turn.isAtResults = true;
    this.#advance();
  }

  requestPermission(
    request: RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse> {
    return this.#requests.requestPermission(request, signal);
  }

  elicit(
    request: CreateElicitationRequest,
    signal: AbortSignal,
  ): Promise<CreateElicitationResponse> {
    return this.#requests.elicit(request, signal);
  }

  violation(problem: string): void {
    void this.#reporter.log('warn', problem);
  }

  // Lifecycle

  async #fork({ seq }: { readonly seq?: number }): Promise<unknown> {
    if (seq !== undefined) {
      throw new Error('This agent can only be forked as it is now: leave out seq');
    }
    if (this.#turn !== undefined || this.#held.size > 0) {
      throw new Error('The agent is working: fork the session when it is idle');
    }
    return this.#conversation.fork(await this.#supervisor.connection());
  }

  /** Relay settles the messages of a session that is released. */
  async release(): Promise<void> {
    const turn = this.#turn;
    const isOpen = this.#reporter.listener !== undefined && this.#lost === undefined;
    this.#stopWork();
    if (isOpen && !this.#isFailed) {
      const ended = this.#end(turn).catch(() => undefined);
      const over = new AbortController();
      await Promise.race([ended, this.#clock.sleep(closeTimeoutMs, over.signal)]);
      over.abort();
    }
    await this.#supervisor.stop();
  }

  ended(): Promise<void> {
    return this.#supervisor.stop();
  }

  /** Lets the agent put away what it works on. */
  async #end(turn: Turn | undefined): Promise<void> {
    const { agent } = await this.#supervisor.connection();
    if (turn !== undefined) {
      await agent.notify('session/cancel', { sessionId: this.#conversation.id ?? '' });
      await turn.ended;
    }
    await this.#conversation.close(agent);
  }

  /** The messages of the open turn stay as they are: Relay hands them over again after a restart. */
  #stopWork(): void {
    this.#closing.abort();
    this.#requests.closeBackground();
    this.#turn?.requests.abort();
  }

  async #stop(): Promise<void> {
    this.#stopWork();
    await this.#supervisor.stop();
  }
}

/** Why a turn ended before the agent was finished. */
function failureOf(outcome: Outcome): AgentSessionEvent[] {
  if (outcome.kind === 'failed') {
    return [
      { type: 'error', error: problemOf(outcome.error), code: 'turn_failed', retryable: true },
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

function savedUsage(state: unknown): Usage {
  const { tokens, costUsd } = (state ?? {}) as Partial<Record<string, unknown>>;
  return {
    tokens: typeof tokens === 'number' ? tokens : 0,
    ...defined({ costUsd: typeof costUsd === 'number' ? costUsd : undefined }),
  };
}
