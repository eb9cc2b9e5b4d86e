/**
 * Frames of a stream that goes on by itself: when the connection ends, it is opened again behind the
 * last frame that came whole. Only the reader knows when a stream is over, and leaves; so an end of
 * the connection is always a disconnect.
 *
 * It gives up on an answer that will not change (a revoked key, a run that is not there), when the
 * signal is aborted, and when nothing has come through for `deliveryTimeoutMs`.
 */
import { type ParsedFrame, readSse } from '@relay/protocol/wire';
import { networkError, RelayApiError } from './errors.ts';
import { messageOf } from './http.ts';
import { backoff, pause } from './pause.ts';

export interface Disconnect {
  readonly error: RelayApiError;
  /** The how manieth attempt in a row comes next. */
  readonly attempt: number;
  readonly delayMs: number;
}

export interface FollowOptions {
  /** How long to go on trying while nothing comes through. Default: 5 minutes. */
  readonly deliveryTimeoutMs?: number | undefined;
  /** EventBuffer of each disconnect before it is mended. */
  readonly onDisconnect?: ((disconnect: Disconnect) => void) | undefined;
}

export interface FrameSource extends FollowOptions {
  readonly open: (after: number, signal: AbortSignal) => Promise<Response>;
  readonly after: number;
  readonly signal: AbortSignal;
  /** A connection that is open already. */
  readonly first?: Response | undefined;
}

const patience = 5 * 60_000;
/** The server says something every 15 seconds; thrice nothing is a dead connection. */
const silentAfterMs = 45_000;

export async function* framesOf(source: FrameSource): AsyncGenerator<ParsedFrame, never> {
  const { open, signal, deliveryTimeoutMs = patience, onDisconnect } = source;
  let { after, first: response } = source;
  let attempt = 0;
  let aliveAt = Date.now();
  for (;;) {
    let error: RelayApiError;
    try {
      response ??= await open(after, signal);
      for await (const frame of readSse(chunksOf(response, signal))) {
        attempt = 0;
        aliveAt = Date.now();
        if (frame.id !== '') after = Number(frame.id);
        yield frame;
        // The reader may have taken its time; the connection has not been silent for that.
        aliveAt = Date.now();
      }
      error = networkError('The connection ended before the stream was over');
    } catch (thrown) {
      error = asDisconnect(thrown, signal);
    }
    response = undefined;
    if (signal.aborted) throw signal.reason;
    const delayMs = backoff(attempt, error.retryAfterMs);
    if (Date.now() + delayMs > aliveAt + deliveryTimeoutMs) throw error;
    attempt += 1;
    onDisconnect?.({ error, attempt, delayMs });
    await pause(delayMs, signal);
  }
}

/** What can be mended by connecting again; everything else is thrown. */
function asDisconnect(thrown: unknown, signal: AbortSignal): RelayApiError {
  if (signal.aborted) throw signal.reason;
  // A frame beyond all measure would be as long the next time.
  if (thrown instanceof RangeError) throw thrown;
  if (!(thrown instanceof RelayApiError)) {
    return networkError(`The connection broke: ${messageOf(thrown)}`, thrown);
  }
  if (!thrown.retryable) throw thrown;
  return thrown;
}

/** The bytes of an answer, until it ends, falls silent or is no longer wanted. */
async function* chunksOf(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  const reader = response.body.getReader();
  // Canceling lets a pending read end at once.
  const leave = () => void reader.cancel().catch(() => undefined);
  signal.addEventListener('abort', leave);
  let silence: ReturnType<typeof setTimeout> | undefined;
  try {
    while (!signal.aborted) {
      silence = setTimeout(leave, silentAfterMs);
      const { done, value } = await reader.read();
      clearTimeout(silence);
      if (done) return;
      yield value;
    }
  } finally {
    clearTimeout(silence);
    signal.removeEventListener('abort', leave);
    leave();
  }
}
