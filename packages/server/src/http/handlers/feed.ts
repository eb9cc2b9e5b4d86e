import { encodeFrame } from '@relay/protocol';
import { SseStream } from '../../streaming/sse-stream.ts';
import type { Handler } from './handler.ts';

/** Sends hints about changes until the client disconnects. */
export const followFeed: Handler<'followFeed'> = async ({ reply, context, caller }) => {
  reply.hijack();
  const stream = new SseStream(reply.raw);
  const remove = context.streams.add(caller, () => stream.end());
  try {
    const hints = context.feed.read(caller.tenantId, stream.closed);
    await stream.send(encodeFrame({ data: JSON.stringify({ kind: 'connected' }) }));
    for await (const batch of hints) {
      const frames = batch.map((hint) => encodeFrame({ data: JSON.stringify(hint) }));
      await stream.send(frames.join(''));
    }
  } finally {
    remove();
    stream.end();
  }
};
