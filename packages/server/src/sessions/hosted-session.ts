/**
 * A session whose harness runs in this process. It is handled like one with a program: what the program
 * would read from its stream, this object takes from the store and hands to the harness.
 *
 *   claiming ──claimed──▶ attaching ──▶ live ──released, dropped, failed──▶ over
 *                            └──failed──▶ offline, and another object attaches it later
 *
 * - Messages are handed over one at a time and in order, an attempt is stored before each.
 * - Commands are carried out one at a time, beside the messages.
 * - Before a decision what the harness has emitted is stored, so the status is current.
 * - What the harness throws, and what takes too long, becomes a failed receipt, a failed command or an
 *   `error` event. Nothing that it does ends the loop.
 */
import {
  answerCommand,
  askPermission,
  type Clock,
  closeRequests,
  closeStream,
  commandTimeoutMs,
  type Engine,
  exponentialBackoff,
  type Harness,
  type HarnessContext,
  type HarnessInput,
  type HarnessMessage,
  type HarnessSession,
  type InboxEntry,
  isRedelivered,
  loseHostedSession,
  reattachHostedSession,
  type Receipt,
  recordAttempts,
  recordReceipt,
  saveHostedState,
  sendMessage,
  sendReplies,
  sendableKinds,
  type SessionCommandRecord,
  type SessionHost,
  type SessionRecord,
  type SessionRef,
  Signal,
} from '@relay/core';
import { checkSession } from '@relay/harnesses';
import {
  defined,
  fieldIssues,
  issueMessage,
  receiptBodySchema,
  RelayError,
  type StoredSessionEvent,
} from '@relay/protocol';
import type { Follower, Hub } from '../streaming/hub.ts';
import { EventPump } from './event-pump.ts';

export interface HostOptions {
  readonly engine: Engine;
  readonly hub: Hub<StoredSessionEvent>;
  /** The name of this node, which it keeps when it starts again. */
  readonly node: string;
  /** How long a harness may take for a message, and to create or attach a session. Default: 30 s. */
  readonly timeoutMs?: number;
}

/** `failed`: another attempt to attach may succeed. */
export type HostingOutcome = 'over' | 'failed';

const defaultTimeoutMs = 30_000;
const stopTimeoutMs = 5_000;
const maxBackoffMs = 60_000;
const maxClaimMs = 2_000;
const maxStateChars = 64 * 1024;
const maxResultChars = 1024 * 1024;
const maxReasonChars = 1_000;
const commandsPerRead = 100;

export class HostedSession implements Follower<StoredSessionEvent> {
  readonly #options: HostOptions;
  readonly #ref: SessionRef;
  readonly #harness: Harness;
  readonly #streamId: string;
  /** Aborted when the session is over. */
  readonly #over = new AbortController();
  readonly #stopping = new AbortController();
  readonly #events: EventPump;
  readonly #changed = new Signal();
  #isChanged = true;
  #saved: unknown;
  #isStored = false;
  #live: HarnessSession | undefined;
  #unsubscribe: () => void = () => undefined;
  /** The message that is with the harness now. */
  #handing: Promise<void> | undefined;
  #commands: Promise<void> = Promise.resolve();
  readonly #begun = new Set<string>();
  #availableAt = Infinity;
  #ended: Promise<HostingOutcome> | undefined;

  constructor(options: HostOptions, harness: Harness, ref: SessionRef) {
    this.#options = options;
    this.#harness = harness;
    this.#ref = ref;
    this.#streamId = options.engine.ids.next();
    this.#events = new EventPump(options.engine, ref, this.#over.signal);
  }

  /** The version of the session that was read last. */
  lastSeq = -1;

  receive(): void {
    this.#isChanged = true;
    this.#changed.notify();
  }

  readonly #context: HarnessContext = {
    signal: this.#over.signal,
    receipt: async (deliveryId, receipt) => {
      await this.#settle(deliveryId, readReceipt(receipt));
    },
    requestPermission: async ({ tool, input, signal }) => {
      this.#requireStored();
      const signals = [this.#over.signal, this.#stopping.signal, ...(signal ? [signal] : [])];
      return askPermission(this.#engine, this.#ref, { tool, input }, AbortSignal.any(signals));
    },
    send: async ({ to, ...draft }) => {
      this.#requireStored();
      const { tenantId, sessionId } = this.#ref;
      const session = await this.#store.sessions.read(sessionId);
      if (session === undefined) throw new RelayError('not_found', 'No such session');
      const from = { type: 'session', id: sessionId, name: session.handle } as const;
      const addresses = typeof to === 'string' ? [to] : to;
      const { message } = await sendMessage(
        { engine: this.#engine },
        { tenantId, from, by: from },
        { ...draft, to: addresses },
      );
      return { id: message.id };
    },
    reply: async (answer) => {
      this.#requireStored();
      await sendReplies(this.#engine, this.#ref, answer);
    },
    saveState: async (state) => {
      const text = this.#redacted(JSON.stringify(state) ?? 'null');
      if (text.length > maxStateChars) {
        throw new RelayError(
          'invalid_request',
          `The state has more than ${maxStateChars} characters`,
        );
      }
      this.#saved = JSON.parse(text);
      if (this.#isStored) await saveHostedState(this.#engine, this.#ref, this.#saved);
    },
  };

  #requireStored(): void {
    if (this.#isStored) return;
    throw new RelayError('session_conflict', 'The session is not created or attached yet');
  }

  get #engine(): Engine {
    return this.#options.engine;
  }

  get #timeoutMs(): number {
    return this.#options.timeoutMs ?? defaultTimeoutMs;
  }

  get #store() {
    return this.#engine.store.tenant(this.#ref.tenantId);
  }

  #redacted(text: string): string {
    return this.#engine.redact?.(text) ?? text;
  }

  /** Asks the harness for a new session, which `store` stores. Throws `harness_failed`, and what it throws. */
  async create(
    input: HarnessInput,
    store: (session: HarnessSession, host: SessionHost) => Promise<SessionRecord>,
  ): Promise<SessionRecord> {
    const live = await this.#make(input.handle, () => this.#harness.create(input, this.#context));
    let record: SessionRecord;
    try {
      record = await store(live, this.#hostOf(this.#saved));
    } catch (error) {
      await this.#dispose(live);
      throw error;
    }
    this.#begin(live);
    this.#ended = this.#host(() => Promise.resolve('live'));
    return record;
  }

  /** After a restart. */
  resume(): Promise<HostingOutcome> {
    this.#ended = this.#host(() => this.#attach());
    return this.#ended;
  }

  /** When the session is over, this node has stopped, or the harness failed to attach. */
  get ended(): Promise<HostingOutcome> {
    return this.#ended ?? Promise.resolve('over');
  }

  /** What the harness is doing may end first. Then it is offline unless a node attaches it in time. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#changed.notify();
    await this.ended;
  }

  #hostOf(saved: unknown): SessionHost {
    const { safeStates } = this.#harness;
    return {
      node: this.#options.node,
      ...defined({ safeStates, saved }),
    };
  }

  /** A session that is not as it declares, or comes too late, is disposed of. */
  async #make(handle: string, make: () => Promise<HarnessSession>): Promise<HarnessSession> {
    const { name } = this.#harness;
    let isLate = false;
    const made = async () => {
      const session = await make();
      if (isLate) await this.#dispose(session);
      return session;
    };
    let live: HarnessSession;
    try {
      live = await within(this.#engine.clock, this.#timeoutMs, made);
    } catch (error) {
      isLate = true;
      this.#over.abort();
      const why = this.#redacted(messageOf(error));
      throw new RelayError('harness_failed', `The harness ${name} failed: ${why}`, {
        cause: error,
      });
    }
    try {
      checkSession(name, handle, live);
    } catch (error) {
      await this.#dispose(live);
      throw error;
    }
    return live;
  }

  /** Of a session that was not registered. */
  async #dispose(session: HarnessSession): Promise<void> {
    this.#over.abort();
    const { clock, log } = this.#engine;
    try {
      const release = session?.release?.bind(session);
      if (typeof release === 'function') await within(clock, this.#timeoutMs, release);
    } catch (error) {
      log.warn('A harness failed to release a session', { ...this.#ref, error: String(error) });
    }
  }

  #begin(live: HarnessSession): void {
    this.#isStored = true;
    this.#live = live;
    void this.#events.run();
    try {
      this.#unsubscribe = live.onEvent(this.#events.push);
    } catch (error) {
      this.#log('A harness failed to subscribe', error);
    }
  }

  /** Never rejects. */
  async #host(begin: () => Promise<'live' | 'failed' | 'over'>): Promise<HostingOutcome> {
    const unfollow = this.#options.hub.add(this.#ref.sessionId, this);
    const wake = () => this.#changed.notify();
    this.#over.signal.addEventListener('abort', wake);
    try {
      if (!(await this.#claim())) return 'over';
      const begun = await begin();
      if (begun === 'live') await this.#serve();
      return begun === 'failed' ? 'failed' : 'over';
    } catch (error) {
      this.#log('Failed to attach a session', error);
      return 'failed';
    } finally {
      unfollow();
      await this.#end();
    }
  }

  /** Waits for the node that has it. False if the session is over, or this node stops first. */
  async #claim(): Promise<boolean> {
    const { clock, settings } = this.#engine;
    const { sessions } = this.#store;
    for (let failures = 1; !this.#stopping.signal.aborted; failures += 1) {
      const stream = { id: this.#streamId, node: settings.node, at: clock.now() };
      if (await sessions.claimStream(this.#ref.sessionId, stream)) return true;
      const session = await sessions.read(this.#ref.sessionId);
      if (session === undefined || session.releasedAt !== null) return false;
      await clock.sleep(exponentialBackoff(failures, maxClaimMs), this.#stopping.signal);
    }
    return false;
  }

  async #attach(): Promise<'live' | 'failed' | 'over'> {
    const attach = this.#harness.attach?.bind(this.#harness);
    // Nothing waits for their answers any more.
    await closeRequests(this.#engine, this.#ref, 'The server was restarted');
    if (attach === undefined) {
      const reason = `The harness ${this.#harness.name} cannot attach to it after a restart`;
      await loseHostedSession(this.#engine, this.#ref, { reason });
      return 'over';
    }
    const session = await this.#store.sessions.read(this.#ref.sessionId);
    if (session === undefined || session.releasedAt !== null) return 'over';
    this.#saved = session.state.host?.saved;
    const input = { ...inputOf(session), state: this.#saved ?? null };
    let live: HarnessSession;
    try {
      live = await this.#make(session.handle, () => attach(input, this.#context));
    } catch (error) {
      if (!(error instanceof RelayError)) throw error;
      const { message, code } = error;
      const reason = 'The harness failed to attach to it';
      await loseHostedSession(this.#engine, this.#ref, { reason, error: { error: message, code } });
      return 'failed';
    }
    const { identity, capabilities } = live;
    const host = this.#hostOf(this.#saved);
    await reattachHostedSession(this.#engine, this.#ref, { identity, capabilities, host });
    this.#begin(live);
    return 'live';
  }

  async #serve(): Promise<void> {
    const { clock } = this.#engine;
    const signal = this.#stopping.signal;
    let failures = 0;
    while (!signal.aborted && !this.#over.signal.aborted) {
      this.#isChanged = false;
      try {
        if (!(await this.#look())) return;
        failures = 0;
      } catch (error) {
        failures += 1;
        this.#log('Failed to read a session', error);
        await clock.sleep(exponentialBackoff(failures, maxBackoffMs), signal);
        continue;
      }
      const ms = this.#availableAt - clock.now();
      if (this.#isChanged || ms <= 0 || signal.aborted) continue;
      if (ms === Infinity) await this.#changed.wait();
      else await this.#changed.waitFor({ clock, ms, signal });
    }
  }

  /** False if the session is over. */
  async #look(): Promise<boolean> {
    await this.#events.flushed();
    const session = await this.#store.sessions.read(this.#ref.sessionId);
    if (session === undefined || session.releasedAt !== null || session.status === 'failed') {
      return false;
    }
    this.lastSeq = session.version;
    if (session.stream?.id !== this.#streamId) return false;
    await this.#beginCommands();
    if (this.#handing !== undefined) return true;
    const entry = await this.#nextEntry(session);
    if (entry === undefined) return true;
    this.#handing = this.#hand(entry).finally(() => {
      this.#handing = undefined;
      this.receive();
    });
    return true;
  }

  async #beginCommands(): Promise<void> {
    const { sessionId } = this.#ref;
    const open = await this.#store.sessions.openCommands(sessionId, commandsPerRead);
    const isOpen = new Set(open.map(({ id }) => id));
    for (const id of this.#begun) if (!isOpen.has(id)) this.#begun.delete(id);
    for (const command of open) {
      if (this.#begun.has(command.id)) continue;
      this.#begun.add(command.id);
      this.#commands = this.#commands.then(() => this.#carryOut(command));
    }
  }

  /** Never rejects. Without an answer the command fails after a time. */
  async #carryOut({ id, command, args, at }: SessionCommandRecord): Promise<void> {
    const { clock } = this.#engine;
    const method = methodOf(this.#live, command, args);
    const ms = at + commandTimeoutMs - clock.now();
    let answer: { ok: true; result?: unknown } | { ok: false; error: string };
    try {
      if (method === undefined) throw new Error(`The session does not implement ${command}`);
      const result = await within(clock, Math.max(0, ms), method);
      await this.#events.flushed();
      answer = { ok: true, ...defined({ result: keptResult(command, result) }) };
    } catch (error) {
      answer = { ok: false, error: this.#redacted(messageOf(error)) };
    }
    try {
      await answerCommand(this.#engine, this.#ref, id, answer);
    } catch (error) {
      this.#log('Failed to store the answer of a command', error);
    }
    this.receive();
  }

  async #nextEntry({ id, state, queue }: SessionRecord): Promise<InboxEntry | undefined> {
    const { messages } = this.#store;
    const now = this.#engine.clock.now();
    const query = {
      streamId: this.#streamId,
      kinds: sendableKinds(state),
      now,
      limit: 1,
      maxBytes: 1,
    };
    this.#availableAt = Infinity;
    const [next] = query.kinds.length === 0 ? [] : await messages.sendable(id, query);
    if (next === undefined && queue.length > 0) {
      this.#availableAt = (await messages.nextAvailable(id, now)) ?? Infinity;
    }
    return next;
  }

  /** Never rejects. */
  async #hand(entry: InboxEntry): Promise<void> {
    try {
      if (!(await recordAttempts(this.#engine, this.#ref, this.#streamId, [entry]))) return;
      const receipt = await this.#receiptOf(entry);
      await this.#events.flushed();
      if (receipt !== undefined) await this.#settleSurely(entry.id, receipt);
    } catch (error) {
      this.#log('Failed to hand over a message', error);
      await this.#engine.clock.sleep(1_000, this.#stopping.signal);
    }
  }

  /**
   * Undefined if the harness holds the message, or failed because this node stops: then the message is handed
   * over again.
   */
  async #receiptOf(entry: InboxEntry): Promise<StoredReceipt | undefined> {
    const { clock } = this.#engine;
    const live = this.#live;
    if (live === undefined) return undefined;
    try {
      const receive = () => live.receiveMessage(messageFor(entry), this.#context);
      const receipt = await within(clock, this.#timeoutMs, receive);
      return receipt?.status === 'held' ? undefined : readReceipt(receipt);
    } catch (error) {
      if (this.#over.signal.aborted) return undefined;
      const reason = `The harness failed: ${this.#redacted(messageOf(error))}`;
      return { status: 'failed', reason: reason.slice(0, maxReasonChars), retryable: true };
    }
  }

  async #settle(deliveryId: string, receipt: StoredReceipt): Promise<void> {
    const isObservable = this.#harness.observesConsumption ?? true;
    await recordReceipt(this.#engine, this.#ref, deliveryId, { ...receipt, isObservable });
  }

  /** Repeated until it is stored: without it the message would be handed over again. */
  async #settleSurely(deliveryId: string, receipt: StoredReceipt): Promise<void> {
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.#settle(deliveryId, receipt);
      } catch (error) {
        // The harness has given another receipt by itself, or the session has ended.
        if (error instanceof RelayError && !error.retryable) return;
        this.#log('Failed to store a receipt', error);
        if (this.#stopping.signal.aborted) return;
        const ms = exponentialBackoff(failures, maxBackoffMs);
        await this.#engine.clock.sleep(ms, this.#stopping.signal);
      }
    }
  }

  async #end(): Promise<void> {
    const { clock } = this.#engine;
    if (this.#stopping.signal.aborted) {
      const finished = () => Promise.all([this.#handing, this.#commands, this.#events.flushed()]);
      await within(clock, stopTimeoutMs, finished).catch(() => undefined);
    }
    try {
      this.#unsubscribe();
    } catch (error) {
      this.#log('A harness failed to unsubscribe', error);
    }
    this.#over.abort();
    try {
      await closeStream(this.#engine, this.#ref, this.#streamId);
    } catch (error) {
      // As that of a node that is gone, it is closed by another one.
      this.#log('Failed to close a session', error);
    }
  }

  #log(message: string, error: unknown): void {
    this.#engine.log.warn(message, { ...this.#ref, error: String(error) });
  }
}

function inputOf(session: SessionRecord): HarnessInput {
  const { id: sessionId, handle, labels, agent, model } = session;
  const optional = defined({ agent: agent ?? undefined, model: model ?? undefined });
  return { sessionId, handle, labels, ...optional };
}

function messageFor(entry: InboxEntry): HarnessMessage {
  const { id: deliveryId, mode } = entry;
  const { id, to, text, attachments, replyTo, from } = entry.message;
  const redelivered = isRedelivered(entry);
  return { id, deliveryId, to, text, attachments, replyTo, from, mode, redelivered };
}

function methodOf(
  live: HarnessSession | undefined,
  command: SessionCommandRecord['command'],
  args: unknown,
): (() => Promise<unknown>) | undefined {
  if (command !== 'fork') return live?.[command]?.bind(live);
  return live?.fork?.bind(live, defined({ seq: (args as { readonly seq?: number }).seq }));
}

/** What a new session continues with. Throws if it is too large. */
function keptResult(command: SessionCommandRecord['command'], result: unknown): unknown {
  if (command !== 'fork' && command !== 'snapshot') return undefined;
  const text = JSON.stringify(result) ?? 'null';
  if (text.length <= maxResultChars) return JSON.parse(text);
  throw new Error(`The result of ${command} has more than ${maxResultChars} characters`);
}

type StoredReceipt = Parameters<typeof recordReceipt>[3];

/** Throws `invalid_request`. */
function readReceipt(receipt: Receipt): StoredReceipt {
  const { fidelity, ...body } = { fidelity: undefined, ...receipt };
  const parsed = receiptBodySchema.safeParse(withIsoTime(body), { error: issueMessage });
  if (!parsed.success) {
    const [issue] = fieldIssues(parsed.error.issues);
    const where = issue?.path === '' ? 'receipt' : `receipt.${issue?.path}`;
    throw new RelayError('invalid_request', `${where}: ${issue?.message}`);
  }
  const { status, availableAt, reason, retryable } = parsed.data;
  const at = availableAt === undefined ? undefined : Date.parse(availableAt);
  const marks = defined({ fidelity: fidelity === 'inferred' ? fidelity : undefined });
  return { status, ...defined({ availableAt: at, reason, retryable }), ...marks };
}

function withIsoTime(receipt: Receipt): unknown {
  const isDate = receipt?.status === 'deferred' && receipt.availableAt instanceof Date;
  return isDate ? { ...receipt, availableAt: receipt.availableAt.toISOString() } : receipt;
}

function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text === '' ? 'no reason was given' : text.slice(0, maxReasonChars);
}

/** The work of a harness, which may throw at once or never end. */
async function within<Value>(clock: Clock, ms: number, work: () => Promise<Value>): Promise<Value> {
  const over = new AbortController();
  const timeout = clock.sleep(ms, over.signal).then((): never => {
    throw new Error(`It did not answer within ${ms} ms`);
  });
  try {
    return await Promise.race([(async () => work())(), timeout]);
  } finally {
    over.abort();
  }
}
