import type { RunIdentity } from '@relay/core';
import type { Dialect, Frame, RunHeader, StoredEvent } from '@relay/protocol';
import { encodeGreeting, encodePieces, EventStream } from '../event-stream.ts';
import type { Call } from './handler.ts';

export interface Outgoing {
  readonly dialect: Dialect;
  readonly run: RunIdentity;
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
  const replayed = reply.getHeader('idempotent-replayed') === undefined ? {} : replayedHeader;
  const stream = new EventStream(reply.raw, { 'x-run-id': run.id, ...replayed });
  // It lives no longer than the key that opened it.
  const closed = call.context.streams.add(call.caller, () => stream.end());
  try {
    if (greeting !== undefined) await stream.send(encodeGreeting(greeting, dialect));
    for await (const batch of batches) {
      let last = '';
      for (const piece of encodePieces(batch, dialect, header)) {
        await stream.send(last);
        last = piece;
      }
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

const replayedHeader = { 'idempotent-replayed': 'true' };
