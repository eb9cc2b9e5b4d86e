/**
 * One POST and its streamed response, with bare `node:http`: every token arrives here.
 *
 * Bytes collect in `#pending` and are read as a whole, so a slow reader gets larger chunks, not more
 * of them. A paced reader reads together with those of other exchanges. Beyond `maxPending` the socket is
 * paused. The timer counts only while the reader waits: for the first byte, and then between chunks.
 *
 * A parser holds a frame until it ends, so the frames that have not ended are bounded: each of them,
 * and all of the process together.
 */
import type { Agent, ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { StringDecoder } from 'node:string_decoder';
import { getHeapStatistics } from 'node:v8';
import { AnswerTooLarge, ProviderFailure, Signal } from '@relay/core';
import { answerPacer } from '../pacer.ts';
import { Agent as HttpAgent, request as httpRequest } from './node-http.ts';
import { callAborted } from './provider-failure.ts';

const httpAgent = new HttpAgent({ keepAlive: true });
const httpsAgent = new HttpsAgent({ keepAlive: true });

const maxPending = 64 * 1024;
/** Some providers repeat a whole answer in its last frame. */
const maxFrameBytes = 64 * 1024 * 1024;
/** Of all exchanges together; one with a shorter frame than `fairFrameBytes` is never refused. */
const maxFrameBytesInProcess = getHeapStatistics().heap_size_limit / 16;
const fairFrameBytes = 1024 * 1024;
let frameBytesInProcess = 0;
/** How long the rest of a finished response may take, so that the connection is reused. */
const drainMs = 1_000;

export interface Target {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly agent: Agent | undefined;
  readonly timeouts: Timeouts;
}

export interface Timeouts {
  readonly firstByteMs: number;
  readonly idleMs: number;
}

/** Generous: reasoning takes time, and some servers load the model first. */
export const defaultTimeouts: Timeouts = { firstByteMs: 120_000, idleMs: 120_000 };

export class HttpExchange {
  readonly #target: Target;
  readonly #signal: AbortSignal;
  #timer: NodeJS.Timeout;
  #timeoutMs: number;
  readonly #abort = (): void => {
    this.#failure = callAborted();
    this.#fail(this.#failure);
  };
  #request: ClientRequest | undefined;
  #response: IncomingMessage | undefined;
  readonly #decoder = new StringDecoder('utf8');
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  /** Since the end of the last frame. */
  #frameBytes = 0;
  #started = false;
  #ended = false;
  #failure: Error | undefined;
  readonly #changed = new Signal();
  /** The reader that waits is paced. */
  #isPaced = false;
  /** What arrived may have been read since. */
  readonly #wake = (): void => {
    if (this.#pendingBytes > 0) this.#changed.notify();
  };

  constructor(target: Target, signal: AbortSignal) {
    this.#target = target;
    this.#signal = signal;
    this.#timeoutMs = target.timeouts.firstByteMs;
    this.#timer = setTimeout(() => this.#onTimeout(), this.#timeoutMs);
    signal.addEventListener('abort', this.#abort, { once: true });
    if (signal.aborted) this.#abort();
  }

  /** Sends the request; resolves with the head of the response. */
  async send(body: Buffer): Promise<{ status: number; headers: IncomingHttpHeaders }> {
    for (let attempt = 1; this.#failure === undefined; attempt += 1) {
      const request = this.#post(body);
      while (this.#response === undefined && this.#failure === undefined) await this.#change();
      if (this.#response !== undefined) {
        return { status: this.#response.statusCode ?? 0, headers: this.#response.headers };
      }
      // The server closed the idle connection while the request was being sent.
      if (attempt > 1 || !request.reusedSocket || !isReset(this.#failure)) break;
      this.#failure = undefined;
    }
    throw this.#failure ?? callAborted();
  }

  /** All bytes that have arrived; waits for the first one. Undefined at the end. */
  async readBytes(): Promise<Buffer | undefined> {
    await this.arrival();
    return this.#take();
  }

  /** The same as text, without waiting: to be called after the `arrival`. */
  takeText(): string | undefined {
    const bytes = this.#take();
    return bytes === undefined ? undefined : this.#decoder.write(bytes);
  }

  /**
   * Resolves when there are bytes to take or the response is over; undefined if that is so already. A
   * paced reader may have to wait a few milliseconds for bytes that arrived, but not for the end.
   */
  arrival({ isPaced = false } = {}): Promise<void> | undefined {
    this.#isPaced = isPaced;
    const isOver = this.#ended || this.#failure !== undefined;
    const isFull = this.#pendingBytes > (isPaced ? maxPending : 0);
    if (isOver || isFull) return undefined;
    const change = this.#change();
    if (this.#pendingBytes > 0) answerPacer.add(this.#wake);
    return change;
  }

  #take(): Buffer | undefined {
    // After an abort, bytes that have arrived are discarded.
    if (this.#failure !== undefined && (this.#pendingBytes === 0 || this.#signal.aborted)) {
      throw this.#failure;
    }
    if (this.#pendingBytes === 0) return undefined;
    const bytes = this.#takePending();
    this.#countFrame(bytes);
    if (this.#response?.isPaused() === true) this.#response.resume();
    return bytes;
  }

  /** Must always be called. A finished exchange releases its connection to the pool. */
  close({ finished }: { finished: boolean }): void {
    clearTimeout(this.#timer);
    this.#signal.removeEventListener('abort', this.#abort);
    this.#setFrameBytes(0);
    this.#ended = true;
    const response = this.#response;
    if (!finished || response === undefined) {
      this.#request?.destroy();
      return;
    }
    response.resume();
    if (response.complete) return;
    const late = setTimeout(() => response.destroy(), drainMs).unref();
    response.once('close', () => clearTimeout(late));
  }

  #countFrame(bytes: Buffer): void {
    const end = endOfLastFrame(bytes);
    this.#setFrameBytes(
      end === undefined ? this.#frameBytes + bytes.byteLength : bytes.byteLength - end,
    );
    const isOverShare =
      this.#frameBytes > fairFrameBytes && frameBytesInProcess > maxFrameBytesInProcess;
    if (this.#frameBytes > maxFrameBytes || isOverShare) throw new AnswerTooLarge();
  }

  #setFrameBytes(bytes: number): void {
    frameBytesInProcess += bytes - this.#frameBytes;
    this.#frameBytes = bytes;
  }

  #takePending(): Buffer {
    const [only] = this.#pending;
    const bytes =
      this.#pending.length === 1 && only !== undefined
        ? only
        : Buffer.concat(this.#pending, this.#pendingBytes);
    this.#pending = [];
    this.#pendingBytes = 0;
    return bytes;
  }

  #post(body: Buffer): ClientRequest {
    const { url, headers, agent } = this.#target;
    const secure = url.protocol === 'https:';
    const request = (secure ? httpsRequest : httpRequest)(url, {
      method: 'POST',
      agent: agent ?? (secure ? httpsAgent : httpAgent),
      headers: { ...headers, 'content-length': body.byteLength },
    });
    this.#request = request;
    request.on('response', (response) => this.#receive(response));
    request.on('error', (error) => this.#fail(error));
    request.end(body);
    return request;
  }

  #receive(response: IncomingMessage): void {
    this.#response = response;
    response.on('data', (bytes: Buffer) => {
      if (this.#ended) return;
      if (!this.#started) this.#onFirstByte();
      this.#pending.push(bytes);
      this.#pendingBytes += bytes.byteLength;
      const isFull = this.#pendingBytes > maxPending;
      if (isFull) response.pause();
      if (this.#isPaced && !isFull) answerPacer.add(this.#wake);
      else this.#changed.notify();
    });
    response.on('end', () => this.#end());
    // A broken connection is an end too: the decoder detects an incomplete answer.
    response.on('error', () => this.#end());
    response.on('close', () => this.#end());
    this.#changed.notify();
  }

  #onFirstByte(): void {
    this.#started = true;
    clearTimeout(this.#timer);
    this.#timeoutMs = this.#target.timeouts.idleMs;
    this.#timer = setTimeout(() => this.#onTimeout(), this.#timeoutMs);
  }

  #end(): void {
    this.#ended = true;
    this.#changed.notify();
  }

  #fail(failure: Error): void {
    this.#failure ??= failure;
    this.#request?.destroy();
    this.#changed.notify();
  }

  #onTimeout(): void {
    if (!this.#changed.isAwaited || this.#pendingBytes > 0) return;
    const message = `The provider sent nothing for ${this.#timeoutMs / 1000} s`;
    this.#fail(new ProviderFailure(message, { retryable: true }));
  }

  #change(): Promise<void> {
    this.#timer.refresh();
    return this.#changed.wait();
  }
}

const lineFeed = 0x0a;

/** A frame ends with an empty line. An end that two chunks share is not noticed: the next one is. */
function endOfLastFrame(bytes: Buffer): number | undefined {
  // Most chunks end with a frame, and searching takes longer than the rest.
  if (bytes.at(-1) === lineFeed && bytes.at(-2) === lineFeed) return bytes.byteLength;
  const end = bytes.lastIndexOf('\n\n');
  if (end !== -1) return end + 2;
  const endWithCr = bytes.lastIndexOf('\n\r\n');
  return endWithCr === -1 ? undefined : endWithCr + 3;
}

function isReset(error: NodeJS.ErrnoException | undefined): boolean {
  return error?.code === 'ECONNRESET' || error?.code === 'EPIPE';
}
