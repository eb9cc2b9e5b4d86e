/**
 * Frames of a stream that reconnects: when the connection ends, it is opened again after the last
 * complete frame. A stream is over when the reader stops or the server responds with 204; any other end
 * of the connection is a disconnect.
 *
 * It gives up on an error that a retry cannot fix (a revoked key, an unknown run), when the signal is
 * aborted, and when nothing has arrived for `reconnectTimeoutMs`, not even a heartbeat.
 */
import { type FeedFrame, type ParsedFrame, readSse } from '@relay/protocol/wire';
import { networkError, RelayApiError } from '../errors.ts';
import { type Http, messageOf } from '../http.ts';
import { anyOf, backoff, sleep } from '../timing.ts';

export interface Disconnect {
  readonly error: RelayApiError;
  /** The number of the next attempt in a row, from 1. */
  readonly attempt: number;
  readonly delayMs: number;
}

export interface FollowOptions {
  /** How long to retry while nothing arrives. Default: 5 minutes. */
  readonly reconnectTimeoutMs?: number | undefined;
  /** Called for each disconnect before the stream reconnects. */
  readonly onDisconnect?: ((disconnect: Disconnect) => void) | undefined;
  /** Called when the stream is connected again. */
  readonly onReconnect?: (() => void) | undefined;
}

export interface FrameSource extends FollowOptions {
  readonly open: (after: number, signal: AbortSignal) => Promise<Response>;
  readonly after: number;
  readonly signal: AbortSignal;
  /** A response that is open already. */
  readonly first?: Response | undefined;
}

const defaultReconnectTimeoutMs = 5 * 60_000;
/** The server sends a heartbeat every 15 seconds; after three missed ones the connection is dead. */
const silenceTimeoutMs = 45_000;

export async function* framesOf(source: FrameSource): AsyncGenerator<ParsedFrame, void> {
  const { open, signal, reconnectTimeoutMs = defaultReconnectTimeoutMs } = source;
  let { after, first: response } = source;
  let attempt = 0;
  let isLost = false;
  let lastContactAt = Date.now();
  const onContact = () => void (lastContactAt = Date.now());
  for (;;) {
    let error: RelayApiError;
    try {
      response ??= await open(after, signal);
      if (isLost) source.onReconnect?.();
      isLost = false;
      if (response.status === 204) return;
      for await (const frame of readSse(chunksOf(response, { signal, onContact }))) {
        attempt = 0;
        if (frame.id !== '') after = Number(frame.id);
        yield frame;
        // Time that the reader took does not count as silence.
        onContact();
      }
      error = networkError('The connection ended before the stream did');
    } catch (thrown) {
      error = asDisconnect(thrown, signal);
    }
    response = undefined;
    if (signal.aborted) throw signal.reason;
    const delayMs = backoff(attempt, error.retryAfterMs);
    if (Date.now() + delayMs > lastContactAt + reconnectTimeoutMs) throw error;
    attempt += 1;
    isLost = true;
    source.onDisconnect?.({ error, attempt, delayMs });
    await sleep(delayMs, signal);
  }
}

/** The error of a disconnect that a reconnect may fix; every other error is thrown. */
function asDisconnect(thrown: unknown, signal: AbortSignal): RelayApiError {
  if (signal.aborted) throw signal.reason;
  // A frame that is too long would be too long again.
  if (thrown instanceof RangeError) throw thrown;
  if (!(thrown instanceof RelayApiError)) {
    return networkError(`The connection broke: ${messageOf(thrown)}`, thrown);
  }
  if (!thrown.retryable) throw thrown;
  return thrown;
}

/** The chunks of a response until it ends, is silent for too long, or the signal is aborted. */
async function* chunksOf(
  response: Response,
  { signal, onContact }: { readonly signal: AbortSignal; readonly onContact: () => void },
): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  // Ends a pending read at once.
  const cancel = () => void reader.cancel().catch(() => undefined);
  signal.addEventListener('abort', cancel);
  let silence: ReturnType<typeof setTimeout> | undefined;
  try {
    while (!signal.aborted) {
      silence = setTimeout(cancel, silenceTimeoutMs);
      const { done, value } = await reader.read();
      clearTimeout(silence);
      if (done) return;
      onContact();
      yield value;
    }
  } finally {
    clearTimeout(silence);
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}

/**
 * A notification that something has changed. `connected` comes first and after each reconnect: changes
 * may have been missed, so reload everything, as after `all`. A `delivery` without an id stands for several
 * of its session. A `message` names its channels only when it is new.
 */
export type FeedEvent = FeedFrame;

export interface FeedOptions extends FollowOptions {
  readonly signal?: AbortSignal | undefined;
}

/** `GET /v1/feed`, until the signal is aborted or the reader stops. */
export async function* feed(
  http: Http,
  options: FeedOptions = {},
): AsyncGenerator<FeedEvent, void> {
  const signal = anyOf(options.signal);
  const open = () => http.stream('GET', '/v1/feed', { signal, maxRetries: 0 });
  for await (const { data } of framesOf({ ...options, open, after: 0, signal })) {
    yield JSON.parse(data) as FeedEvent;
  }
}
