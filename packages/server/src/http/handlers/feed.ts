import { encodeFrame } from '@relay/protocol';
import { EventStream } from '../../streaming/event-stream.ts';
import type { Handler } from './handler.ts';

/** `GET /v1/feed`: hints until the page is gone. */
export const followFeed: Handler = async (call) => {
  const { reply, context, caller } = call;
  reply.hijack();
  const stream = new EventStream(reply.raw, {});
  const closed = context.streams.add(caller, () => stream.end());
  try {
    const hints = context.feed.read(caller.tenantId, stream.closed);
    await stream.send(encodeFrame({ data: JSON.stringify({ kind: 'connected' }) }));
    for await (const batch of hints) {
      const frames = batch.map((hint) => encodeFrame({ data: JSON.stringify(hint) }));
      await stream.send(frames.join(''));
    }
  } finally {
    closed();
    stream.end();
  }
};
