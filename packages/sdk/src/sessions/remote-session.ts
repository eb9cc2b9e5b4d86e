/**
 * The session of a program: it keeps the stream of deliveries open and answers what comes.
 *
 *   message      queued ──▶ onMessage ──▶ receipt: consumed, or deferred or failed as the handler says
 *   command      on<Command> at once ──▶ answer
 *   invocation   the action's `run` at once ──▶ result
 *
 * Messages are handled one at a time, in the order of their frames. A frame that comes again, because a
 * receipt was lost or the stream was opened again, is handled once in this process. Receipts, answers,
 * results, and what handlers send are posted until the server accepts or refuses them: a server that
 * restarts fails no handler.
 *
 * It ends as `closed` (by `close`), `released` (by the command) or `lost`: the server no longer knows the
 * token, because another process attached the handle or the session was dropped.
 */
import {
  type ActionBody,
  type AgentSessionEvent,
  type AgentStatus,
  type CommandAnswerBody,
  defined,
  type DeliveryFrame,
  type Invocation,
  type InvocationResultBody,
  type MessageBody,
  type ReceiptBody,
  type Session,
  type SessionCommand,
  type SessionMessage,
  type SessionSummary,
} from '@relay/protocol/wire';
import { RelayApiError } from '../errors.ts';
import { type CallOptions, type Http, messageOf, pathOf, uuid } from '../http.ts';
import { type Listing, listOf } from '../listing.ts';
import { type FollowOptions, framesOf } from '../streaming/frames.ts';
import { anyOf, backoff, sleep } from '../timing.ts';
import { type ActionInput, invokeAction, type InvokeOptions } from './actions.ts';
import { sendMessage } from './messages.ts';
import { SessionHandle } from './session-handle.ts';

type Frame<Type extends DeliveryFrame['type']> = Extract<DeliveryFrame, { type: Type }>;
type Json = Frame<'invocation'>['input'];

/** A message as its recipient gets it. */
export type ReceivedMessage = Frame<'delivery'>['message'] &
  Omit<Frame<'delivery'>, 'type' | 'message'>;

/** Instead of `consumed`: the message comes again, or never. */
export type MessageOutcome =
  | { readonly status: 'deferred'; readonly availableAt?: string; readonly reason?: string }
  | { readonly status: 'failed'; readonly reason?: string; readonly retryable?: boolean };

export interface MessageContext {
  readonly session: RemoteSession;
  /** Aborted when the turn is canceled or the session is released. */
  readonly signal: AbortSignal;
  /** Answers in the thread of the message. */
  reply(answer: string | Omit<MessageBody, 'replyTo'>): Promise<SessionMessage>;
}

/** A result of nothing is the receipt `consumed`; an error that is thrown is `failed`. */
export type OnMessage = (
  message: ReceivedMessage,
  context: MessageContext,
) => MessageOutcome | undefined | void | Promise<MessageOutcome | undefined | void>;

export interface CommandContext {
  readonly session: RemoteSession;
}

type OnCommand<Result = unknown> = (
  args: Readonly<Record<string, Json>>,
  context: CommandContext,
) => Result | Promise<Result>;

export interface ActionContext {
  readonly session: RemoteSession;
  readonly invocationId: string;
}

/** A function that others can invoke. Its result is the output; an error that is thrown is the failure. */
export interface SessionAction extends Omit<ActionBody, 'name' | 'handler'> {
  readonly run: (input: never, context: ActionContext) => unknown;
}

export interface SessionHandlers {
  readonly onMessage: OnMessage;
  /** For messages of the mode `immediate` while `onMessage` runs. */
  readonly onInterrupt?: OnMessage | undefined;
  readonly onRelease?: OnCommand | undefined;
  /** Until `onResume`, no message is handled. */
  readonly onPause?: OnCommand | undefined;
  readonly onResume?: OnCommand | undefined;
  /** Called after the signal of the running handler was aborted. */
  readonly onCancel?: OnCommand | undefined;
  /** Its result is the answer of the command. */
  readonly onFork?: OnCommand<Json> | undefined;
  /** Its result is the answer of the command. */
  readonly onSnapshot?: OnCommand<Json> | undefined;
  /** By name. Invocations run as they come, also while a message is handled. */
  readonly actions?: Readonly<Record<string, SessionAction>> | undefined;
  /** Default: `console.error`. Also called for errors that handlers throw. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

export interface RemoteSessionOptions extends SessionHandlers, FollowOptions, CallOptions {
  readonly http: Http;
  readonly session: Session;
  readonly token: string;
}

export interface SessionEnd {
  readonly reason: 'closed' | 'released' | 'lost';
  /** Of a session that was lost. */
  readonly error?: unknown;
}

interface Queued {
  readonly message: ReceivedMessage;
  /** The receipt `delivered`. */
  readonly delivered: Promise<boolean>;
}

/** How often something is posted after `close`. */
const maxClosingAttempts = 4;
const maxReasonLength = 1000;
/** Of the deliveries that were consumed, and of answers. A frame of older ones does not come again. */
const maxRemembered = 1000;

export class RemoteSession {
  readonly id: string;
  readonly handle: string;
  /** Save it to attach the same session again, from another process: `serve({ token, … })`. */
  readonly token: string;
  /** Its journal since it was attached. */
  readonly journal: SessionHandle;
  /** Internal: resolves when the stream was opened first. */
  readonly opened: Promise<void>;
  /** Resolves when the session is served no longer; never rejects. */
  readonly closed: Promise<SessionEnd>;
  readonly #options: RemoteSessionOptions;
  readonly #http: Http;
  readonly #path: string;
  readonly #stopped = new AbortController();
  readonly #queue: Queued[] = [];
  /** Deliveries that are being handled, and those that were consumed. */
  readonly #deliveries = new Map<string, 'open' | 'consumed'>();
  /** Commands and invocations. */
  readonly #answered = new Set<string>();
  readonly #background = new Set<Promise<unknown>>();
  readonly #reportsStatus: boolean;
  #turn: AbortController | undefined;
  #isWorking = false;
  #isPaused: boolean;
  #isReleased = false;
  #reports: Promise<unknown> = Promise.resolve();
  #interrupts: Promise<unknown> = Promise.resolve();

  /** Internal: use `client.sessions.serve`. */
  constructor(options: RemoteSessionOptions) {
    const { session, http, token } = options;
    this.id = session.id;
    this.handle = session.identity.handle;
    this.token = token;
    this.journal = new SessionHandle(http, session);
    this.#options = options;
    this.#http = http;
    this.#path = pathOf`/v1/sessions/${session.id}`;
    this.#isPaused = session.status === 'paused';
    const { emits } = session.capabilities.events;
    this.#reportsStatus =
      session.harness !== 'human' &&
      (emits.includes('status.changed') ||
        (emits.includes('status.active') && emits.includes('status.idle')));
    let onOpen = () => {};
    this.opened = new Promise((resolve) => (onOpen = resolve));
    this.closed = this.#serve(onOpen);
  }

  /** Sends a message as this session, once: while the server cannot be reached, it is tried again. */
  send(body: MessageBody, options: CallOptions = {}): Promise<SessionMessage> {
    const keyed = { ...body, idempotencyKey: body.idempotencyKey ?? uuid() };
    return this.#reach(() => sendMessage(this.#http, keyed, options), options.signal);
  }

  /**
   * Reports an event, or several that are stored together, once: while the server cannot be reached, it is
   * tried again. The session must have declared them.
   */
  async emit(event: AgentSessionEvent | readonly AgentSessionEvent[]): Promise<void> {
    const body = Array.isArray(event) ? { events: event as readonly AgentSessionEvent[] } : event;
    const path = `${this.#path}/events`;
    const request = { body, headers: { 'idempotency-key': uuid() }, repeatable: true };
    await this.#inOrder(() => this.#reach(() => this.#http.json<Session>('POST', path, request)));
  }

  /** Invokes an action as this session, once: while the server cannot be reached, it is tried again. */
  invoke(name: string, input: ActionInput = {}, options: InvokeOptions = {}): Promise<Invocation> {
    const keyed = { ...options, idempotencyKey: options.idempotencyKey ?? uuid() };
    return this.#reach(() => invokeAction(this.#http, name, input, keyed), options.signal);
  }

  /** The sessions that messages can be sent to. */
  peers(options: CallOptions = {}): Listing<SessionSummary> {
    return listOf(this.#http, '/v1/sessions', { name: 'sessions', ...options });
  }

  /**
   * Stops receiving, and waits for the handlers that run and for their receipts. The session is not
   * released: what waits is delivered when a program attaches the handle again.
   */
  async close(): Promise<SessionEnd> {
    this.#stopped.abort(new Error('The session is closed'));
    return this.closed;
  }

  async #serve(onOpen: () => void): Promise<SessionEnd> {
    const { signal, reconnectTimeoutMs = Infinity, onDisconnect, onReconnect } = this.#options;
    const stopped = anyOf(this.#stopped.signal, signal);
    const open = async (_: number, signal: AbortSignal) => {
      const path = `${this.#path}/deliveries/stream`;
      const response = await this.#http.stream('GET', path, { signal, maxRetries: 0 });
      onOpen();
      return response;
    };
    const follow = { reconnectTimeoutMs, onDisconnect, onReconnect };
    const source = { open, after: 0, signal: stopped, ...follow };
    // Handlers use the session that `serve` returns, so they run after its caller has it.
    const returned = this.opened.then(() => sleep(0));
    let failure: { readonly error?: unknown } = {};
    try {
      for await (const { data } of framesOf(source)) {
        await returned;
        this.#receive(JSON.parse(data) as DeliveryFrame);
      }
    } catch (error) {
      failure = { error };
    }
    const isClosed = stopped.aborted;
    this.#stopped.abort();
    this.#queue.length = 0;
    if (!isClosed) this.#turn?.abort(new Error('The session has ended'));
    while (this.#background.size > 0) await Promise.allSettled(this.#background);
    await this.#reports;
    if (this.#isReleased) return { reason: 'released' };
    return isClosed ? { reason: 'closed' } : { reason: 'lost', ...failure };
  }

  #receive(frame: DeliveryFrame): void {
    switch (frame.type) {
      case 'delivery':
        this.#receiveMessage(frame);
        break;
      case 'command':
        this.#once(frame.commandId, () => this.#answer(frame));
        break;
      case 'invocation':
        this.#once(frame.invocationId, () => this.#invoke(frame));
        break;
    }
  }

  #receiveMessage(frame: Frame<'delivery'>): void {
    const { deliveryId, mode, attempt, redelivered } = frame;
    const known = this.#deliveries.get(deliveryId);
    if (known === 'open') return;
    if (known === 'consumed') {
      // The server does not know it yet.
      this.#inBackground(this.#postReceipt(deliveryId, { status: 'consumed' }));
      return;
    }
    this.#deliveries.set(deliveryId, 'open');
    const delivered = this.#postReceipt(deliveryId, { status: 'delivered' });
    this.#inBackground(delivered);
    const message = { ...frame.message, deliveryId, mode, attempt, redelivered };
    const queued = { message, delivered };
    const { onInterrupt } = this.#options;
    if (mode === 'immediate' && this.#turn !== undefined && onInterrupt !== undefined) {
      const { signal } = this.#turn;
      this.#interrupts = this.#interrupts.then(() => this.#handle(queued, onInterrupt, signal));
      this.#inBackground(this.#interrupts);
      return;
    }
    this.#queue.push(queued);
    this.#work();
  }

  #work(): void {
    if (this.#isWorking || this.#isPaused || this.#queue.length === 0) return;
    this.#isWorking = true;
    this.#inBackground(this.#handleQueue());
  }

  async #handleQueue(): Promise<void> {
    this.#reportStatus('active');
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      this.#turn = new AbortController();
      await this.#handle(next, this.#options.onMessage, this.#turn.signal);
      this.#turn = undefined;
      if (this.#isPaused || this.#stopped.signal.aborted) break;
    }
    this.#isWorking = false;
    this.#reportStatus('idle');
  }

  async #handle(
    { message, delivered }: Queued,
    handler: OnMessage,
    signal: AbortSignal,
  ): Promise<void> {
    const { deliveryId } = message;
    const receipt = await this.#receiptOf(message, handler, signal);
    await delivered;
    // The release of a session settles all of its deliveries.
    const isConsumed =
      !this.#isReleased &&
      (await this.#postReceipt(deliveryId, receipt)) &&
      receipt.status === 'consumed';
    // A delivery that was deferred, or failed and is delivered again, comes with the same id.
    this.#deliveries.delete(deliveryId);
    if (isConsumed) remember(this.#deliveries.set(deliveryId, 'consumed'));
  }

  async #receiptOf(
    message: ReceivedMessage,
    handler: OnMessage,
    signal: AbortSignal,
  ): Promise<ReceiptBody> {
    const reply = (answer: string | Omit<MessageBody, 'replyTo'>) =>
      this.send({
        ...(typeof answer === 'string' ? { text: answer } : answer),
        replyTo: message.id,
      });
    try {
      const outcome = await handler(message, { session: this, signal, reply });
      return outcome ?? { status: 'consumed' };
    } catch (error) {
      const isCanceled = signal.aborted;
      if (!isCanceled) this.#failed(error);
      const reason = messageOf(isCanceled ? signal.reason : error).slice(0, maxReasonLength);
      const retryable = error instanceof RelayApiError ? error.retryable : undefined;
      return { status: 'failed', ...defined({ reason: reason || undefined, retryable }) };
    }
  }

  /** Whether the server accepted it. Never rejects. */
  #postReceipt(deliveryId: string, body: ReceiptBody): Promise<boolean> {
    const path = `${this.#path}${pathOf`/deliveries/${deliveryId}/receipt`}`;
    return this.#post(path, body);
  }

  /** Carries out a command. Never rejects. */
  async #answer({ commandId, command, args }: Frame<'command'>): Promise<void> {
    const answer = await this.#carryOut(command, args);
    const isReleased = command === 'release' && answer.ok;
    // Before the answer: the server ends the stream with it.
    if (isReleased) this.#isReleased = true;
    await this.#post(`${this.#path}${pathOf`/commands/${commandId}`}`, answer);
    if (isReleased) this.#stopped.abort(new Error('The session is released'));
  }

  async #carryOut(
    command: SessionCommand,
    args: Readonly<Record<string, Json>>,
  ): Promise<CommandAnswerBody> {
    const handler = handlerOf(this.#options, command);
    if (handler === undefined && command !== 'cancel') {
      return { ok: false, error: `The program has no handler for ${command}` };
    }
    if (command === 'pause') this.#isPaused = true;
    if (command === 'cancel') this.#turn?.abort(new Error('canceled'));
    if (command === 'release') {
      this.#queue.length = 0;
      this.#turn?.abort(new Error('released'));
    }
    try {
      const result = (await handler?.(args, { session: this })) as Json | undefined;
      if (command === 'resume') this.#resume();
      return { ok: true, ...defined({ result }) };
    } catch (error) {
      if (command === 'pause') this.#resume();
      this.#failed(error);
      return { ok: false, error: messageOf(error) || 'failed' };
    }
  }

  /** Runs an action. Never rejects. */
  async #invoke(frame: Frame<'invocation'>): Promise<void> {
    const result = await this.#resultOf(frame);
    await this.#post(pathOf`/v1/invocations/${frame.invocationId}/result`, result);
  }

  async #resultOf(frame: Frame<'invocation'>): Promise<InvocationResultBody> {
    const { action, input, invocationId } = frame;
    const { actions = {} } = this.#options;
    const found = Object.hasOwn(actions, action) ? actions[action] : undefined;
    if (found === undefined) return { error: `The program has no action ${action}` };
    try {
      const output = (await found.run(input as never, { session: this, invocationId })) ?? null;
      // A result that is not JSON is an error of the function.
      if (JSON.stringify(output) === undefined) throw new TypeError('The result is not JSON');
      return { output: output as Json };
    } catch (error) {
      this.#failed(error);
      const retryable = error instanceof RelayApiError ? error.retryable : undefined;
      return { error: messageOf(error) || 'failed', ...defined({ retryable }) };
    }
  }

  #resume(): void {
    this.#isPaused = false;
    this.#work();
  }

  #reportStatus(status: AgentStatus): void {
    if (!this.#reportsStatus) return;
    const body = { type: 'status.changed', status } as const;
    void this.#inOrder(() => this.#post(`${this.#path}/events`, body));
  }

  /** Events are stored in the order in which they are reported. */
  #inOrder<Result>(report: () => Promise<Result>): Promise<Result> {
    const reported = this.#reports.then(report);
    this.#reports = reported.catch(() => undefined);
    return reported;
  }

  /** Posts until the server accepts it (true) or refuses it (false). Never rejects. */
  async #post(path: string, body: unknown): Promise<boolean> {
    const request = { body, repeatable: true, maxRetries: 0 };
    try {
      await this.#reach(() => this.#http.json('POST', path, request));
      return true;
    } catch (error) {
      // A session that has ended takes nothing any more, and `closed` says why.
      const isOver = this.#stopped.signal.aborted || this.#isReleased || isUnauthorized(error);
      if (!isOver) this.#failed(error);
      return false;
    }
  }

  /** Repeats a request that the server could not take, for as long as the session is served. */
  async #reach<Result>(request: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    let left = maxClosingAttempts;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await request();
      } catch (error) {
        if (this.#stopped.signal.aborted) left -= 1;
        if (!isUnreached(error) || left <= 0) throw error;
        await sleep(backoff(attempt, error.retryAfterMs), signal);
      }
    }
  }

  /** Commands and invocations come again until they are answered. */
  #once(id: string, work: () => Promise<void>): void {
    if (this.#answered.has(id)) return;
    this.#answered.add(id);
    remember(this.#answered);
    this.#inBackground(work());
  }

  #inBackground(work: Promise<unknown>): void {
    this.#background.add(work);
    void work.finally(() => this.#background.delete(work));
  }

  #failed(error: unknown): void {
    const { onError = (thrown: unknown) => console.error(thrown) } = this.#options;
    onError(error);
  }
}

function handlerOf(handlers: SessionHandlers, command: SessionCommand): OnCommand | undefined {
  switch (command) {
    case 'release':
      return handlers.onRelease;
    case 'pause':
      return handlers.onPause;
    case 'resume':
      return handlers.onResume;
    case 'cancel':
      return handlers.onCancel;
    case 'fork':
      return handlers.onFork;
    case 'snapshot':
      return handlers.onSnapshot;
  }
}

/** The server was not there, or had no room for the request. A full inbox is for the caller to judge. */
function isUnreached(error: unknown): error is RelayApiError {
  if (!(error instanceof RelayApiError) || !error.retryable) return false;
  return error.code !== 'inbox_full' && error.code !== 'budget_exceeded';
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof RelayApiError && error.code === 'unauthorized';
}

/** Keeps the latest. */
function remember(kept: Map<string, 'open' | 'consumed'> | Set<string>): void {
  if (kept.size <= maxRemembered) return;
  for (const key of kept.keys()) {
    if (kept instanceof Set || kept.get(key) === 'consumed') {
      kept.delete(key);
      return;
    }
  }
}
