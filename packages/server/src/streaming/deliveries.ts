/**
 * The stream of a session's program: deliveries, commands and invocations, as soon as they can be handed
 * over. A session has one such stream; a new one replaces it.
 *
 * What was sent is kept in memory only to not send it twice on this stream. A new stream sends again what has
 * no receipt, and after a new attach also what was `delivered` and is not known to be consumed.
 *
 * A program that only asks from time to time opens such a stream for the time of its request.
 */
import {
  decideDelivery,
  defaultSafeStates,
  type InboxEntry,
  type InvocationRecord,
  offlineAfterMs,
  placementOf,
  reachSession,
  type SessionCommandRecord,
  type SessionRecord,
  type SessionRef,
  type SessionState,
  Signal,
  startInvocations,
} from '@relay/core';
import {
  type DeliveryFrame,
  encodeFrame,
  RelayError,
  type StoredSessionEvent,
} from '@relay/protocol';
import type { z } from 'zod';
import { notFound } from '../http/errors.ts';
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
 * they have a receipt. Commands and invocations stay for a program that can answer them.
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
    if ((await sessions.read(ref.sessionId)) === undefined) throw notFound('session');
    throw new RelayError('session_conflict', 'The session is released');
  }
  const close = async () => {
    const at = engine.clock.now();
    await sessions.closeStream(ref.sessionId, { id, at, dueBy: at + offlineAfterMs });
  };
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
  isOver(): boolean;
  send(frames: readonly DeliveryFrame[]): Promise<void>;
}

/** A delivery that was sent on this stream. */
interface Sent {
  readonly revision: number;
  /** It was deferred when it was sent, until then. */
  readonly availableAt: number | null;
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
  readonly #sent = new Map<string, Sent>();
  readonly #sentOthers = new Set<string>();
  /** Of the session when it was looked at last. */
  #version = -1;
  #status: string | undefined;
  #seq = 0;
  /** All deliveries up to this one were looked at, and nothing has changed for them since. */
  #position = 0;
  /** When a delivery that was deferred becomes available. */
  #availableAt = Infinity;

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

  /** Never up to date: each round of the hub makes it look, because commands have no events. */
  readonly lastSeq = -1;

  receive(): void {
    this.#isChanged = true;
    this.#changed.notify();
  }

  async run(): Promise<void> {
    const { sessionHub, control } = this.#call.context;
    const { clock } = control.engine;
    const { closed: signal } = this.#reader;
    const unfollow = sessionHub.add(this.#ref.sessionId, this);
    const wake = () => this.#changed.notify();
    signal.addEventListener('abort', wake);
    try {
      while (!this.#reader.isOver()) {
        this.#isChanged = false;
        const isOpen = await this.#look();
        this.#looked.resolve();
        if (!isOpen) return;
        const ms = this.#availableAt - clock.now();
        if (this.#isChanged || ms <= 0 || this.#reader.isOver()) continue;
        if (ms === Infinity) await this.#changed.wait();
        else await this.#changed.waitFor({ clock, ms, signal });
      }
    } finally {
      this.#looked.resolve();
      unfollow();
      signal.removeEventListener('abort', wake);
    }
  }

  /** Sends what can be sent now. False if the stream is over. */
  async #look(): Promise<boolean> {
    const session = await this.#store.sessions.read(this.#ref.sessionId);
    if (session === undefined || session.releasedAt !== null) return false;
    if (session.stream?.id !== this.#id) return false;
    await this.#rewind(session);
    const { state } = session;
    await this.#sendCommands(session);
    if (this.#seq === 0) await this.#sendUnconsumed(state);
    this.#seq = Math.max(this.#seq, session.lastSeq);
    if (state.lifecycle !== 'releasing') await this.#sendInbox(state);
    return true;
  }

  get #store() {
    return storeOf(this.#call);
  }

  get #now(): number {
    return this.#call.context.control.engine.clock.now();
  }

  /** Looks at all deliveries again if something may have changed for those that were looked at. */
  async #rewind({ id, version, status, lastSeq, queue }: SessionRecord): Promise<void> {
    const isSame = version === this.#version;
    const isOther = status !== this.#status;
    this.#version = version;
    this.#status = status;
    const isDue = this.#availableAt <= this.#now;
    // An edited message changes nothing in its session.
    if (
      isOther ||
      isDue ||
      (isSame && queue.length > 0) ||
      (await this.#hasDeferral(id, lastSeq))
    ) {
      this.#position = 0;
      this.#availableAt = Infinity;
    }
    if (queue.length === 0) this.#sent.clear();
  }

  async #hasDeferral(sessionId: string, lastSeq: number): Promise<boolean> {
    if (this.#seq === 0 || lastSeq <= this.#seq) return false;
    const limit = lastSeq - this.#seq;
    if (limit > 1000) return true;
    const events = await this.#store.sessions.readEvents(sessionId, { after: this.#seq, limit });
    return events.some(({ type }) => type === 'delivery.deferred');
  }

  async #sendCommands(session: SessionRecord): Promise<void> {
    const { sessionId } = this.#ref;
    const commands = await this.#store.sessions.openCommands(sessionId, othersAtOnce);
    const invocations = await this.#store.actions.openInvocations(sessionId, othersAtOnce);
    const open = new Set([...commands, ...invocations].map(({ id }) => id));
    for (const id of this.#sentOthers) if (!open.has(id)) this.#sentOthers.delete(id);
    const unsent = ({ id }: { readonly id: string }) => !this.#sentOthers.has(id);
    const started = await startInvocations(
      this.#call.context.control.engine,
      session,
      invocations.filter(unsent),
    );
    const newCommands = commands.filter(unsent);
    await this.#send([...newCommands.map(commandFrame), ...started.map(invocationFrame)]);
    for (const { id } of [...newCommands, ...started]) this.#sentOthers.add(id);
  }

  /** What the program had before it attached again. */
  async #sendUnconsumed({ attachedAt = 0 }: SessionState): Promise<void> {
    const read = (after: number) =>
      this.#store.messages.unconsumed(this.#ref.sessionId, {
        after,
        limit: this.#reader.entriesAtOnce,
      });
    const isOlder = ({ deliveredAt }: InboxEntry) => (deliveredAt ?? 0) < attachedAt;
    await this.#sendAll(read, 0, isOlder);
  }

  async #sendInbox(state: SessionState): Promise<void> {
    const read = (after: number) =>
      this.#store.messages.inbox(this.#ref.sessionId, { after, limit: this.#reader.entriesAtOnce });
    this.#position = await this.#sendAll(read, this.#position, (entry) =>
      this.#canBeSent(entry, state),
    );
  }

  /** Returns the position of the last entry that was looked at. */
  async #sendAll(
    read: (after: number) => Promise<InboxEntry[]>,
    from: number,
    canBeSent: (entry: InboxEntry) => boolean,
  ): Promise<number> {
    let position = from;
    while (!this.#reader.isOver()) {
      const entries = await read(position);
      const sendable = entries.filter(canBeSent);
      if (!(await this.#recordAttempts(sendable))) continue;
      for (const { id, revision, availableAt } of sendable) {
        this.#sent.set(id, { revision, availableAt });
      }
      await this.#send(sendable.map(deliveryFrame));
      position = entries.at(-1)?.position ?? position;
      if (entries.length < this.#reader.entriesAtOnce) break;
    }
    return position;
  }

  /** Before they are sent. False if one of them has changed since it was read. */
  async #recordAttempts(entries: readonly InboxEntry[]): Promise<boolean> {
    const deliveries = entries.flatMap((entry) => {
      const decision = decideDelivery({ ...entry, isObservable: true }, { type: 'send' });
      if (decision.kind !== 'accepted') return [];
      return [{ ...decision.change, revision: entry.revision }];
    });
    if (deliveries.length === 0) return true;
    const { sessionId } = this.#ref;
    const change = { sessionId, at: this.#now, events: [], deliveries };
    const { kind } = await this.#store.sessions.change({ changes: [change] });
    return kind === 'committed';
  }

  #canBeSent(entry: InboxEntry, state: SessionState): boolean {
    const sent = this.#sent.get(entry.id);
    if (sent !== undefined && sent.revision === entry.revision) {
      const isDeferredSince = entry.status === 'deferred' && entry.availableAt !== sent.availableAt;
      if (!isDeferredSince) return false;
    }
    const availableAt = entry.status === 'deferred' ? (entry.availableAt ?? 0) : 0;
    if (availableAt > this.#now) {
      this.#availableAt = Math.min(this.#availableAt, availableAt);
      return false;
    }
    const placement = placementOf(entry, {
      parts: state,
      safeStates: defaultSafeStates,
      isToolRunning: false,
      isApprovalOpen: false,
    });
    if (placement.kind === 'now') return true;
    // Only the program knows when these boundaries come.
    return (
      placement.kind === 'at' &&
      (placement.boundary === 'model-call' || placement.boundary === 'tool-results')
    );
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
    redelivered: entry.attempts > 0 || entry.status === 'delivered',
  };
}

type Json = z.core.util.JSONType;

function commandFrame({ id, command, args }: SessionCommandRecord): DeliveryFrame {
  return { type: 'command', commandId: id, command, args: args as Record<string, Json> };
}

function invocationFrame({ id, action, input }: InvocationRecord): DeliveryFrame {
  return { type: 'invocation', invocationId: id, action, input: input as Json };
}
