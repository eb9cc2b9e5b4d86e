/** SSE responses: the journal of a run in a dialect, or of a session. */
import { firstOutputTimeoutMs, type Log, type RunIdentity } from '@relay/core';
import {
  defined,
  type Dialect,
  type ErrorCode,
  type Frame,
  RelayError,
  type RunHeader,
  type StoredEvent,
} from '@relay/protocol';
import type { ApiRequest } from '../http/handlers/handler.ts';
import {
  encodeBatch,
  encodeFirstFrame,
  journalProjection,
  type Projection,
  runProjection,
  SseStream,
} from './sse-stream.ts';
import type { Batches } from './subscribe.ts';

/** The fields of a run that its stream needs. A stream may stay open for days, so it holds no more. */
export function runHeader({ id, conversationId, correlationId }: RunIdentity): RunHeader {
  return { runId: id, conversationId, correlationId };
}

interface RunStreamOptions {
  /** Undefined: the events as they are stored. */
  readonly dialect: Dialect | undefined;
  readonly run: RunHeader;
  readonly batches: AsyncIterable<readonly StoredEvent[]>;
  /** Sent before the journal's frames, such as `connected`. */
  readonly firstFrame?: Frame;
}

/** The journal of a run, in a dialect or as it is. */
export function streamRun(call: ApiRequest, options: RunStreamOptions): Promise<void> {
  const { dialect, run, batches, firstFrame } = options;
  return streamJournal(call, {
    projection: dialect === undefined ? journalProjection : runProjection(dialect, run),
    batches,
    isEnd: ({ type }) => type === 'run.ended',
    subject: { runId: run.runId },
    ...defined({ firstFrame }),
  });
}

interface JournalStream<Event> {
  readonly projection: Projection<Event>;
  readonly batches: AsyncIterable<readonly Event[]>;
  isEnd(event: Event): boolean;
  /** For the log. */
  readonly subject: Readonly<Record<string, string>>;
  readonly firstFrame?: Frame;
}

/**
 * Takes over the response and writes batches to it until they end or the client disconnects. It never
 * rejects. A handler need not wait for it, and then the request is not held for as long as the stream.
 */
export function streamJournal<Event extends { readonly seq: number }>(
  call: ApiRequest,
  options: JournalStream<Event>,
): Promise<void> {
  const { reply, request, caller, context } = call;
  reply.hijack();
  releaseBody(call);
  const stream = new SseStream(reply.raw);
  const remove = context.streams.add(caller, () => void stream.end());
  return send(stream, options, { log: context.log, requestId: request.id }).finally(remove);
}

async function send<Event extends { readonly seq: number }>(
  stream: SseStream,
  options: JournalStream<Event>,
  { log, requestId }: { log: Log; requestId: string },
): Promise<void> {
  const { projection, subject, firstFrame } = options;
  const batches = options.batches[Symbol.asyncIterator]();
  try {
    if (firstFrame !== undefined) await stream.send(encodeFirstFrame(firstFrame, projection));
    while (await sendNext(stream, batches, options));
  } catch (error) {
    // The headers are sent: closing the connection is the only way left to report the failure.
    log.error('A stream failed', { requestId, ...subject, error });
    stream.destroy();
  } finally {
    await batches.return?.();
    await stream.end();
  }
}

/**
 * Returns whether more can follow. Each batch has a call of its own, because a function that waits keeps
 * its variables: a silent stream would hold its last batch.
 */
async function sendNext<Event extends { readonly seq: number }>(
  stream: SseStream,
  batches: AsyncIterator<readonly Event[]>,
  options: JournalStream<Event>,
): Promise<boolean> {
  const { done, value: batch } = await batches.next();
  if (done === true) return false;
  const pieces = encodeBatch(batch, options.projection);
  let piece = pieces.next();
  while (piece.done !== true) {
    await stream.send(piece.value);
    piece = pieces.next();
  }
  const last = piece.value;
  const end = batch.at(-1);
  // The last frames are sent with the end of the response: one write less for every run.
  if (end !== undefined && options.isEnd(end)) {
    await stream.end(last);
    return false;
  }
  await stream.send(last);
  return !stream.isOver;
}

/** The request is stored in the journal: an open stream need not hold its body of up to a megabyte. */
function releaseBody(call: ApiRequest): void {
  (call as { body?: unknown }).body = undefined;
  call.request.body = undefined;
}

interface Opening {
  readonly failure?: RelayError;
  /** All batches, including those that were read here. */
  readonly batches: AsyncIterable<readonly StoredEvent[]>;
}

/**
 * Waits for the first output of a run, before the headers of its stream are sent: a provider that fails
 * until then is answered with a 502, and not with a stream that begins with an error.
 */
export async function waitForFirstOutput(batches: Batches): Promise<Opening> {
  const read: Next[] = [];
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<'timeout'>((resolve) => {
    timer = setTimeout(resolve, firstOutputTimeoutMs, 'timeout');
  });
  try {
    for (;;) {
      const next = batches.next();
      read.push(next);
      const arrived = await Promise.race([next, timeout]);
      if (arrived === 'timeout' || arrived.done === true) break;
      const failure = providerFailure(arrived.value);
      if (failure !== undefined) {
        await batches.return();
        return { failure, batches: prependBatches(read, batches) };
      }
      if (arrived.value.some(isOutput)) break;
    }
    return { batches: prependBatches(read, batches) };
  } finally {
    clearTimeout(timer);
  }
}

type Next = ReturnType<Batches['next']>;

/** Not a generator: each of those would make every batch wait for another turn of the microtask queue. */
function prependBatches(read: Next[], batches: Batches): AsyncIterable<readonly StoredEvent[]> {
  const iterator = {
    next: () => read.shift() ?? batches.next(),
    return: () => batches.return(),
  };
  return { [Symbol.asyncIterator]: () => iterator };
}

/** Shows that the provider answered, or that the run ended for another reason. */
function isOutput({ type }: StoredEvent): boolean {
  return (
    type === 'text.appended' ||
    type === 'reasoning.appended' ||
    type === 'turn.completed' ||
    type === 'run.ended'
  );
}

function providerFailure(events: readonly StoredEvent[]): RelayError | undefined {
  if (events.some((event) => event.type !== 'run.ended' && isOutput(event))) return undefined;
  const errored = events.find((event) => event.type === 'run.errored');
  if (errored === undefined) return undefined;
  const { code, message } = errored.error;
  return code === 'provider_failed' ||
    code === 'provider_rejected' ||
    code === 'context_exceeded' ||
    // The provider's API cannot carry this request.
    code === 'invalid_request'
    ? new RelayError(code satisfies ErrorCode, message)
    : undefined;
}
