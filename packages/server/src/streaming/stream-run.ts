import type { RunIdentity } from '@relay/core';
import type { Dialect, Frame, RunHeader, StoredEvent } from '@relay/protocol';
import { encodeGreeting, encodePieces, EventStream } from './event-stream.ts';
import type { Call } from '../http/handlers/handler.ts';

/** The little of a run that its stream needs. A stream may stay open for days: it holds no more. */
export type StreamedRun = Pick<RunIdentity, 'id' | 'conversationId' | 'correlationId'>;

export function streamed({ id, conversationId, correlationId }: StreamedRun): StreamedRun {
  return { id, conversationId, correlationId };
}

export interface Outgoing {
  readonly dialect: Dialect;
  readonly run: StreamedRun;
  readonly batches: AsyncIterable<readonly StoredEvent[]>;
  /** A frame before the journal's, such as `connected`. */
  readonly greeting?: Frame;
}

/** Takes the response over and writes batches to it until they end or the reader is gone. */
export async function streamOut(call: Call, outgoing: Outgoing): Promise<void> {
  const { dialect, run, batches, greeting } = outgoing;
  const header: RunHeader = {
    runId: run.id,
    conversationId: run.conversationId,
    correlationId: run.correlationId,
  };
  const { reply } = call;
  reply.hijack();
  forgetBody(call);
  const replayed = reply.getHeader('idempotent-replayed') === undefined ? {} : replayedHeader;
  const stream = new EventStream(reply.raw, { 'x-run-id': run.id, ...replayed });
  // It lives no longer than the key that opened it.
  const closed = call.context.streams.add(call.caller, () => stream.end());
  try {
    if (greeting !== undefined) await stream.send(encodeGreeting(greeting, dialect));
    for await (const batch of batches) {
      const pieces = encodePieces(batch, dialect, header);
      let piece = pieces.next();
      while (piece.done !== true) {
        await stream.send(piece.value);
        piece = pieces.next();
      }
      const last = piece.value;
      // The last words travel with the end: one write less for every run.
      if (batch.at(-1)?.type === 'run.ended') {
        stream.end(last);
        return;
      }
      await stream.send(last);
      if (stream.isOver) return;
    }
  } catch (error) {
    // The headers are out: cutting the connection is the only honest sign left.
    const requestId = call.request.id;
    call.context.log.error('A stream was cut off', { requestId, runId: run.id, error });
    reply.raw.destroy();
  } finally {
    closed();
    stream.end();
  }
}

/** What was asked is stored: who only reads on need not hold it, which may be a megabyte. */
function forgetBody(call: Call): void {
  (call as { body: unknown }).body = undefined;
  call.request.body = undefined;
}

const replayedHeader = { 'idempotent-replayed': 'true' };
