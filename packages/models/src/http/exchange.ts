/**
 * One POST and its streamed answer, by bare `node:http`: this is where every token comes in.
 *
 * The answer flows into `#pending` as it arrives and is taken out and decoded as a whole, so that a
 * reader who is slower than the provider gets larger pieces instead of more of them. Beyond
 * `maxPending` the socket is paused. The one timer counts only while somebody waits: for the first
 * byte, and then from one piece to the next.
 */
import {
  Agent as HttpAgent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as httpRequest,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { StringDecoder } from 'node:string_decoder';
import { ProviderFailure, Signal } from '@relay/core';
import { callAborted } from './provider-failure.ts';

const httpAgent = new HttpAgent({ keepAlive: true });
const httpsAgent = new HttpsAgent({ keepAlive: true });

const maxPending = 256 * 1024;
/** How long a finished answer may take to leave the socket free for the next one. */
const drainMs = 1_000;

export interface Target {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly agent: HttpAgent | undefined;
  readonly timeouts: Timeouts;
}

/** How long a provider may be silent before it is given up. */
export interface Timeouts {
  /** Until the first byte of its answer. */
  readonly firstByteMs: number;
  /** Between one piece of its answer and the next. */
  readonly idleMs: number;
}

/** Models that think may be silent for a while, and some servers load a model first. */
export const defaultTimeouts: Timeouts = { firstByteMs: 120_000, idleMs: 120_000 };

export class HttpExchange {
  readonly #target: Target;
  readonly #signal: AbortSignal;
  #timer: NodeJS.Timeout;
  #silenceMs: number;
  readonly #abort = (): void => {
    this.#failure = callAborted();
    this.#fail(this.#failure);
  };
  #request: ClientRequest | undefined;
  #response: IncomingMessage | undefined;
  readonly #decoder = new StringDecoder('utf8');
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #begun = false;
  #ended = false;
  #failure: Error | undefined;
  readonly #changed = new Signal();

  constructor(target: Target, signal: AbortSignal) {
    this.#target = target;
    this.#signal = signal;
    this.#silenceMs = target.timeouts.firstByteMs;
    this.#timer = setTimeout(() => this.#stalled(), this.#silenceMs);
    signal.addEventListener('abort', this.#abort, { once: true });
    if (signal.aborted) this.#abort();
  }

  /** Sends the request; resolves with the head of the answer. */
  async send(body: Buffer): Promise<{ status: number; headers: IncomingHttpHeaders }> {
    for (let attempt = 1; this.#failure === undefined; attempt += 1) {
      const request = this.#post(body);
      while (this.#response === undefined && this.#failure === undefined) await this.#woken();
      if (this.#response !== undefined) {
        return { status: this.#response.statusCode ?? 0, headers: this.#response.headers };
      }
      // The server had closed the kept connection while our request was on its way into it.
      if (attempt > 1 || !request.reusedSocket || !isReset(this.#failure)) break;
      this.#failure = undefined;
    }
    throw this.#failure ?? callAborted();
  }

  /** All that has arrived, as text; see `readBytes`. */
  async read(): Promise<string | undefined> {
    const bytes = await this.readBytes();
    return bytes === undefined ? undefined : this.#decoder.write(bytes);
  }

  /** All that has arrived, waiting if it is nothing yet; undefined at the end. */
  async readBytes(): Promise<Buffer | undefined> {
    while (this.#pendingBytes === 0 && !this.#ended && this.#failure === undefined) {
      await this.#woken();
    }
    // After an abort nothing more is wanted, not even what has arrived.
    if (this.#failure !== undefined && (this.#pendingBytes === 0 || this.#signal.aborted)) {
      throw this.#failure;
    }
    if (this.#pendingBytes === 0) return undefined;
    const bytes = this.#takePending();
    if (this.#response?.isPaused() === true) this.#response.resume();
    return bytes;
  }

  /** Every exchange is closed. One that was read to its end leaves its connection to the next. */
  close({ finished }: { finished: boolean }): void {
    clearTimeout(this.#timer);
    this.#signal.removeEventListener('abort', this.#abort);
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
      if (!this.#begun) this.#begin();
      this.#pending.push(bytes);
      this.#pendingBytes += bytes.byteLength;
      if (this.#pendingBytes > maxPending) response.pause();
      this.#changed.notify();
    });
    response.on('end', () => this.#end());
    // A connection that breaks in the middle is an end too: the decoder knows what is missing.
    response.on('error', () => this.#end());
    response.on('close', () => this.#end());
    this.#changed.notify();
  }

  #begin(): void {
    this.#begun = true;
    clearTimeout(this.#timer);
    this.#silenceMs = this.#target.timeouts.idleMs;
    this.#timer = setTimeout(() => this.#stalled(), this.#silenceMs);
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

  #stalled(): void {
    if (!this.#changed.isAwaited) return;
    const message = `The provider sent nothing for ${this.#silenceMs / 1000} s`;
    this.#fail(new ProviderFailure(message, { retryable: true }));
  }

  #woken(): Promise<void> {
    this.#timer.refresh();
    return this.#changed.wait();
  }
}

function isReset(error: NodeJS.ErrnoException | undefined): boolean {
  return error?.code === 'ECONNRESET' || error?.code === 'EPIPE';
}
