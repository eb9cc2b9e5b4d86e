/**
 * The stream of a session's program: deliveries, commands and invocations, as soon as they can be handed
 * over. A session has one such stream; a new one replaces it.
 *
 * Each delivery is sent once on a stream, and again after it was deferred. A new stream sends again all that
 * has not ended: the program may have lost it. Each attempt is recorded before it is made, by compare-and-set
 * on the attempts and on the stream of the session, so of two streams only the newer one sends.
 *
 * A program that only asks from time to time opens such a stream for the time of its request.
 */
import {
  closeStream,
  type InboxEntry,
  inputOf,
  type InvocationRecord,
  isRedelivered,
  noSuchSession,
  reachSession,
  resendInvocations,
  recordAttempts,
  sendableKinds,
  type SessionCommandRecord,
  type SessionRecord,
  type SessionRef,
  sessionReleased,
  Signal,
  startInvocations,
} from '@relay/core';
import { type DeliveryFrame, encodeFrame, type StoredSessionEvent } from '@relay/protocol';
import type { z } from 'zod';
import { type ApiRequest, storeOf } from '../http/handlers/handler.ts';
import { presentMessage } from '../http/views/message.ts';
import type { Follower } from './hub.ts';
import { closedSignal } from './response-writer.ts';
import { SseStream } from './sse-stream.ts';

/** Takes over the response. Resolves when the stream has begun; it never rejects after that. */
export async function streamDeliveries(call: ApiRequest, ref: SessionRef): Promise<void> {
  const { context, caller, reply, request } = call;
  const { id, close } = await openStream(call, ref);
  reply.hijack();
  const stream = new SseStream(reply.raw);
  const remove = context.streams.add(caller, () => void stream.end());
  const reader: DeliveryReader = {
    closed: stream.closed,
    entriesAtOnce: 50,
    bytesAtOnce: 256 * 1024,
    takesCommands: true,
    isOver: () => stream.isOver,
    send: (frames) => stream.send(frames.map(encoded).join('')),
  };
  const sender = new DeliverySender(call, ref, { id, reader });
  const serve = async () => {
    try {
      await sender.run();
    } catch (error) {
      context.log.error('A stream failed', { requestId: request.id, ...ref, error });
      stream.destroy();
    }
    remove();
    await stream.end();
    await close();
  };
  // A store that is closed, or fails: the stream of a node that is gone is closed by another one.
  serve().catch(() => undefined);
}

type Delivery = Extract<DeliveryFrame, { type: 'delivery' }>;

/**
 * The next deliveries, at once or within `waitMs`, and none after that. They are sent again, marked, until
 * they have ended. Commands and invocations stay for a program that can answer them.
 */
export async function pullDeliveries(
  call: ApiRequest,
  ref: SessionRef,
  { waitMs, limit }: { readonly waitMs: number; readonly limit: number },
): Promise<Delivery[]> {
  const { context, caller, reply } = call;
  const { id, close } = await openStream(call, ref);
  const ending = new AbortController();
  const closed = AbortSignal.any([ending.signal, closedSignal(reply.raw)]);
  const remove = context.streams.add(caller, () => ending.abort());
  const deliveries: Delivery[] = [];
  const reader: DeliveryReader = {
    closed,
    entriesAtOnce: limit,
    bytesAtOnce: Number.MAX_SAFE_INTEGER,
    takesCommands: false,
    isOver: () => closed.aborted || deliveries.length > 0,
    send: async (frames) => {
      deliveries.push(...frames.filter((frame) => frame.type === 'delivery'));
    },
  };
  const sender = new DeliverySender(call, ref, { id, reader });
  try {
    const over = sender.run();
    await sender.hasLooked;
    const { clock } = context.control.engine;
    await Promise.race([over, clock.sleep(waitMs, closed)]);
    ending.abort();
    await over;
    return deliveries;
  } finally {
    ending.abort();
    remove();
    await close();
  }
}

/** Registers the stream with its session. Throws `not_found`, or `session_conflict` if it is released. */
async function openStream(
  call: ApiRequest,
  ref: SessionRef,
): Promise<{ id: string; close: () => Promise<void> }> {
  const { engine } = call.context.control;
  const { sessions } = storeOf(call);
  const id = engine.ids.next();
  const opened = { id, node: engine.settings.node, at: engine.clock.now() };
  if (!(await sessions.openStream(ref.sessionId, opened))) {
    const session = await sessions.read(ref.sessionId);
    throw session === undefined ? noSuchSession() : sessionReleased(session);
  }
  const close = () => closeStream(engine, ref, id);
  try {
    await reachSession(engine, ref);
  } catch (error) {
    await close();
    throw error;
  }
  return { id, close };
}

/** Who gets the frames. */
interface DeliveryReader {
  readonly closed: AbortSignal;
  readonly entriesAtOnce: number;
  /** What is held for a reader that does not read, unless one message is larger. */
  readonly bytesAtOnce: number;
  /** Also commands and invocations. */
  readonly takesCommands: boolean;
  isOver(): boolean;
  send(frames: readonly DeliveryFrame[]): Promise<void>;
}

const othersAtOnce = 100;

class DeliverySender implements Follower<StoredSessionEvent> {
  readonly #call: ApiRequest;
  readonly #ref: SessionRef;
  readonly #id: string;
  readonly #reader: DeliveryReader;
  readonly #changed = new Signal();
  readonly #looked = Promise.withResolvers<void>();
  /** Once, at least: what waited was sent. */
  readonly hasLooked = this.#looked.promise;
  #isChanged = true;
  readonly #sentCommands = new Set<string>();
  /** For the tenant to be resumed. */
  #stopWaiting: (() => void) | undefined;
  #isResumed = false;
  /** What another stream has sent is sent again once. */
  #hasResent = false;

  constructor(
    call: ApiRequest,
    ref: SessionRef,
    { id, reader }: { readonly id: string; readonly reader: DeliveryReader },
  ) {
    this.#call = call;
    this.#ref = ref;
    this.#id = id;
    this.#reader = reader;
  }

  /** The version of the session of which all that can be sent was sent. */
  lastSeq = -1;

  receive(): void {
    this.#isChanged = true;
    this.#changed.notify();
  }

  async run(): Promise<void> {
    const { programHub, control } = this.#call.context;
    const { clock } = control.engine;
    const { closed: signal } = this.#reader;
    const unfollow = programHub.add(this.#ref.sessionId, this);
    let availableAt = Infinity;
    const wake = () => this.#changed.notify();
    signal.addEventListener('abort', wake);
    try {
      while (!this.#reader.isOver()) {
        this.#isChanged = false;
        const session = await this.#store.sessions.read(this.#ref.sessionId);
        if (session === undefined || session.releasedAt !== null) return;
        // A newer stream has replaced this one.
        if (session.stream?.id !== this.#id) return;
        // What this stream itself has stored also wakes it.
        const isBehind = session.version !== this.lastSeq || this.#isResumed;
        if (isBehind || availableAt <= clock.now()) {
          this.#isResumed = false;
          if (!(await this.#sendAll(session))) continue;
          this.#looked.resolve();
          availableAt = await this.#nextAvailable(session);
        }
        const ms = availableAt - clock.now();
        if (this.#isChanged || ms <= 0 || this.#reader.isOver()) continue;
        if (ms === Infinity) await this.#changed.wait();
        else await this.#changed.waitFor({ clock, ms, signal });
      }
    } finally {
      this.#looked.resolve();
      this.#stopWaiting?.();
      unfollow();
      signal.removeEventListener('abort', wake);
    }
  }

  get #store() {
    return storeOf(this.#call);
  }

  get #now(): number {
    return this.#call.context.control.engine.clock.now();
  }

  /** What can be sent in this state. False if something has changed meanwhile: the session is to be read again. */
  async #sendAll(session: SessionRecord): Promise<boolean> {
    if (this.#reader.takesCommands) {
      await this.#sendCommands();
      if (!(await this.#sendInvocations(session))) return false;
    }
    const kinds = sendableKinds(session.state);
    let { version } = session;
    let isLast = kinds.length === 0;
    while (!isLast && !this.#reader.isOver()) {
      const { entriesAtOnce: limit, bytesAtOnce: maxBytes } = this.#reader;
      const query = { streamId: this.#id, kinds, now: this.#now, limit, maxBytes };
      const entries = await this.#store.messages.sendable(session.id, query);
      const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
      isLast = entries.length < limit && bytes < maxBytes;
      if (entries.length === 0) break;
      if (!(await this.#recordAttempts(session, entries))) return false;
      await this.#send(entries.map(deliveryFrame));
      version += 1;
    }
    this.lastSeq = version;
    return true;
  }

  async #sendCommands(): Promise<void> {
    const { sessionId } = this.#ref;
    const commands = await this.#store.sessions.openCommands(sessionId, othersAtOnce);
    const open = new Set(commands.map(({ id }) => id));
    for (const id of this.#sentCommands) if (!open.has(id)) this.#sentCommands.delete(id);
    const unsent = commands.filter(({ id }) => !this.#sentCommands.has(id));
    await this.#send(unsent.flatMap(commandFrames));
    for (const { id } of unsent) this.#sentCommands.add(id);
  }

  /** False if the stream was replaced, or one of them has ended meanwhile. */
  async #sendInvocations(session: SessionRecord): Promise<boolean> {
    const { engine, supervisor } = this.#call.context.control;
    if (supervisor.isPaused(session.tenantId)) {
      this.#stopWaiting ??= supervisor.onResumed(session.tenantId, () => {
        this.#stopWaiting = undefined;
        this.#isResumed = true;
        this.receive();
      });
      return true;
    }
    const { actions } = this.#store;
    let after = '';
    while (!this.#hasResent && !this.#reader.isOver()) {
      const sent = await actions.sentInvocations(session.id, { after, limit: othersAtOnce });
      await this.#send((await resendInvocations(engine, session, sent)).map(invocationFrame));
      this.#hasResent = sent.length < othersAtOnce;
      after = sent.at(-1)?.id ?? after;
    }
    while (!this.#reader.isOver()) {
      const unsent = await actions.unsentInvocations(session.id, othersAtOnce);
      if (unsent.length === 0) return true;
      const started = await startInvocations(engine, session, { unsent, streamId: this.#id });
      await this.#send(started.map(invocationFrame));
      if (started.length < unsent.length) return false;
    }
    return true;
  }

  #recordAttempts(session: SessionRecord, entries: readonly InboxEntry[]): Promise<boolean> {
    return recordAttempts(this.#call.context.control.engine, session, this.#id, entries);
  }

  /** When a delivery that was deferred becomes available. */
  async #nextAvailable({ id, queue }: SessionRecord): Promise<number> {
    if (queue.length === 0) return Infinity;
    return (await this.#store.messages.nextAvailable(id, this.#now)) ?? Infinity;
  }

  async #send(frames: readonly DeliveryFrame[]): Promise<void> {
    if (frames.length === 0) return;
    await this.#reader.send(frames);
  }
}

function encoded(frame: DeliveryFrame): string {
  return encodeFrame({ data: JSON.stringify(frame) });
}

function deliveryFrame(entry: InboxEntry): DeliveryFrame {
  const { deliveries: _, ...message } = presentMessage(entry.message, [entry]);
  return {
    type: 'delivery',
    deliveryId: entry.id,
    message,
    mode: entry.mode,
    attempt: entry.attempts + 1,
    redelivered: isRedelivered(entry),
  };
}

type Json = z.core.util.JSONType;

/** A program that attaches has no terminal of Relay's. */
function commandFrames({ id, command, args }: SessionCommandRecord): DeliveryFrame[] {
  if (command === 'input') return [];
  return [{ type: 'command', commandId: id, command, args: args as Record<string, Json> }];
}

function invocationFrame(invocation: InvocationRecord): DeliveryFrame {
  const { id, action } = invocation;
  return { type: 'invocation', invocationId: id, action, input: inputOf(invocation) as Json };
}
