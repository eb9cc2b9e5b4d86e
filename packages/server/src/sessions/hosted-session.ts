/**
 * A session whose harness runs in this process. It is handled like one with a program: what the program
 * would read from its stream, this object takes from the store and hands to the harness.
 *
 *   claiming ──claimed──▶ attaching ──▶ live ──released, dropped, failed──▶ over
 *                            │            └──its key has ended──▶ offline
 *                            └──failed──▶ offline, and another object attaches it later
 *
 * - Messages are handed over one at a time and in order (hosted-inbox.ts); commands are carried out one at a
 *   time, beside the messages (hosted-commands.ts).
 * - Before a decision what the harness has emitted is stored (event-pump.ts), so the status is current.
 * - The harness learns of its session's store only through `hosted-context.ts`.
 * - What the harness throws, and what takes too long, becomes a failed receipt, a failed command or an
 *   `error` event. Nothing that it does ends the loop.
 */
import {
  closeRequests,
  closeStream,
  type Engine,
  exponentialBackoff,
  type Harness,
  type HarnessInput,
  type HarnessSession,
  loseHostedSession,
  noTerminal,
  reattachHostedSession,
  type SessionHost,
  type SessionRecord,
  type SessionRef,
  Signal,
  type TerminalInput,
} from '@relay/core';
import { checkSession } from '@relay/harnesses';
import { defined, RelayError, type StoredSessionEvent } from '@relay/protocol';
import type { Follower, Hub } from '../streaming/hub.ts';
import type { OpenStreams } from '../streaming/open-streams.ts';
import type { AgentProcesses, PreparedProcess } from './agent-processes.ts';
import { EventPump } from './event-pump.ts';
import { messageOf, within } from './harness-call.ts';
import { HostedCommands } from './hosted-commands.ts';
import { HostedContext } from './hosted-context.ts';
import { HostedInbox } from './hosted-inbox.ts';

export interface HostOptions {
  readonly engine: Engine;
  readonly hub: Hub<StoredSessionEvent>;
  /** Ends sessions whose key has ended. */
  readonly streams: Pick<OpenStreams, 'addSession'>;
  readonly processes: AgentProcesses;
  /** The name of this node, which it keeps when it starts again. */
  readonly node: string;
  /** How long a harness may take for a message, and to create or attach a session. Default: 30 s. */
  readonly timeoutMs?: number;
}

/** `failed`: another attempt to attach may succeed. */
export type HostingOutcome = 'over' | 'failed';

const defaultTimeoutMs = 30_000;
const stopTimeoutMs = 5_000;
/** A process is asked to exit, terminated and killed. */
const endTimeoutMs = 8_000;
const maxBackoffMs = 60_000;
const maxClaimMs = 2_000;

/** A session that its harness has, and what it is given. */
interface Live {
  readonly session: HarnessSession;
  readonly inbox: HostedInbox;
  readonly commands: HostedCommands;
  readonly unsubscribe: () => void;
  readonly unwatchKey: () => void;
  /** Resolves when nothing of the session runs any more. */
  readonly ended: () => Promise<void> | undefined;
}

export class HostedSession implements Follower<StoredSessionEvent> {
  readonly #options: HostOptions;
  readonly #ref: SessionRef;
  readonly #harness: Harness;
  readonly #streamId: string;
  /** Aborted when the session is over. */
  readonly #over = new AbortController();
  readonly #stopping = new AbortController();
  readonly #events: EventPump;
  readonly #context: HostedContext;
  readonly #changed = new Signal();
  #isChanged = true;
  #hasLostKey = false;
  #live: Live | undefined;
  #ended: Promise<HostingOutcome> | undefined;

  constructor(options: HostOptions, harness: Harness, ref: SessionRef) {
    const { engine } = options;
    const { signal } = this.#over;
    this.#options = options;
    this.#harness = harness;
    this.#ref = ref;
    this.#streamId = engine.ids.next();
    this.#events = new EventPump(engine, ref, signal);
    const stopping = this.#stopping.signal;
    this.#context = new HostedContext({ engine, ref, harness, signal, stopping });
  }

  /** The version of the session that was read last. */
  lastSeq = -1;

  receive(): void {
    this.#isChanged = true;
    this.#changed.notify();
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

  /** Asks the harness for a new session, which `store` stores. Throws `harness_failed`, and what it throws. */
  async create(
    input: HarnessInput,
    store: (session: HarnessSession, host: SessionHost) => Promise<SessionRecord>,
  ): Promise<SessionRecord> {
    const live = await this.#make(input.handle, () => this.#harness.create(input, this.#context));
    let record: SessionRecord;
    try {
      record = await store(live, this.#hostOf());
    } catch (error) {
      await this.#dispose(live);
      throw error;
    }
    this.#begin(live, record);
    this.#ended = this.#host(() => Promise.resolve('live'));
    return record;
  }

  get id(): string {
    return this.#ref.sessionId;
  }

  /** Types into its terminal. Throws `capability_missing`, `session_conflict` and `command_failed`. */
  async input({ handle, capabilities }: SessionRecord, input: TerminalInput): Promise<void> {
    if (this.#live === undefined) {
      throw new RelayError('session_conflict', `The session @${handle} is not attached yet`);
    }
    const { session } = this.#live;
    const typing = session.input?.bind(session, input);
    if (typing === undefined) throw noTerminal(handle, capabilities.events.emits);
    try {
      await within(this.#engine.clock, this.#timeoutMs, typing);
    } catch (error) {
      throw new RelayError('command_failed', messageOf(error), { cause: error });
    }
    await this.#events.flushed();
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

  #hostOf(): SessionHost {
    const { safeStates } = this.#harness;
    return {
      node: this.#options.node,
      ...defined({ safeStates, saved: this.#context.saved }),
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
      const why = messageOf(error);
      const text = this.#engine.redact?.(why) ?? why;
      throw new RelayError('harness_failed', `The harness ${name} failed: ${text}`, {
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
    const { clock } = this.#engine;
    try {
      const release = session?.release?.bind(session);
      if (typeof release === 'function') await within(clock, this.#timeoutMs, release);
    } catch (error) {
      this.#log('A harness failed to release a session', error);
    }
  }

  #begin(session: HarnessSession, { keyId }: SessionRecord): void {
    const shared = { engine: this.#engine, ref: this.#ref, session, events: this.#events };
    const wake = () => this.receive();
    this.#context.isStored = true;
    void this.#events.run();
    this.#live = {
      session,
      inbox: new HostedInbox({
        ...shared,
        streamId: this.#streamId,
        harness: this.#harness,
        context: this.#context,
        timeoutMs: this.#timeoutMs,
        stopping: this.#stopping.signal,
        onHanded: wake,
      }),
      commands: new HostedCommands({ ...shared, onAnswered: wake }),
      unsubscribe: this.#subscribe(session),
      unwatchKey: this.#options.streams.addSession(this.#ref.tenantId, keyId, () => {
        this.#hasLostKey = true;
        this.receive();
      }),
      ended: () => session.ended?.(),
    };
  }

  #subscribe(session: HarnessSession): () => void {
    try {
      return session.onEvent(this.#events.push);
    } catch (error) {
      this.#log('A harness failed to subscribe', error);
      return () => undefined;
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
    this.#context.saved = session.state.host?.saved;
    let live: HarnessSession;
    let prepared: PreparedProcess | undefined;
    try {
      prepared = await this.#prepare(session);
      const state = this.#context.saved ?? null;
      const input = { ...inputOf(session), state, ...defined({ process: prepared?.process }) };
      live = await this.#make(session.handle, () => attach(input, this.#context));
    } catch (error) {
      if (!(error instanceof RelayError)) throw error;
      const { message, code } = error;
      const reason = 'The harness failed to attach to it';
      await loseHostedSession(this.#engine, this.#ref, { reason, error: { error: message, code } });
      return 'failed';
    }
    const { identity, capabilities } = live;
    await reattachHostedSession(this.#engine, this.#ref, {
      identity,
      capabilities,
      host: this.#hostOf(),
      tokenHash: prepared?.tokenHash,
      streamId: this.#streamId,
    });
    this.#begin(live, session);
    return 'live';
  }

  async #prepare({ workspace }: SessionRecord): Promise<PreparedProcess | undefined> {
    if (this.#harness.runsProcesses !== true) return undefined;
    return this.#options.processes.prepare(this.#ref, workspace ?? undefined);
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
      const ms = (this.#live?.inbox.availableAt ?? Infinity) - clock.now();
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
    // As a program whose key has ended.
    if (this.#hasLostKey) {
      await loseHostedSession(this.#engine, this.#ref, { reason: 'key_ended' });
      return false;
    }
    await this.#live?.commands.begin();
    await this.#live?.inbox.handNext(session);
    return true;
  }

  async #end(): Promise<void> {
    const { clock } = this.#engine;
    const { inbox, commands, unsubscribe, unwatchKey, ended } = this.#live ?? {};
    unwatchKey?.();
    if (this.#stopping.signal.aborted) {
      const finished = () =>
        Promise.all([inbox?.finished, commands?.finished, this.#events.flushed()]);
      await within(clock, stopTimeoutMs, finished).catch(() => undefined);
    }
    try {
      unsubscribe?.();
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
    try {
      await within(clock, endTimeoutMs, async () => ended?.());
    } catch (error) {
      this.#log('A harness failed to end a session', error);
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
