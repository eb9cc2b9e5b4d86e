/**
 * `POST /chat`: a run that is canceled when its connection closes. It therefore never retries and never
 * reconnects.
 */
import { type ChatBody, type ChatFrame, type RelayResponse, readSse } from '@relay/protocol/wire';
import { networkError } from '../errors.ts';
import { type CallOptions, type Http, messageOf, pathOf } from '../http.ts';

export type ChatEvent = ChatFrame;

export class Chat implements AsyncIterable<ChatEvent> {
  readonly sessionId: string;
  /** For the next chat: an approval with `always` holds in the same conversation. */
  readonly conversationId: string;
  readonly runId: string;
  readonly #http: Http;
  readonly #events: AsyncGenerator<ChatEvent, void>;

  private constructor(
    http: Http,
    runId: string,
    { sessionId, conversationId }: Extract<ChatEvent, { type: 'connected' }>,
    events: AsyncGenerator<ChatEvent, void>,
  ) {
    this.#http = http;
    this.runId = runId;
    this.sessionId = sessionId;
    this.conversationId = conversationId;
    this.#events = events;
  }

  static async open(http: Http, body: ChatBody, options: CallOptions = {}): Promise<Chat> {
    const response = await http.stream('POST', '/chat', { body, ...options });
    const events = eventsOf(response, options.signal);
    const first = await events.next();
    if (first.done === true || first.value.type !== 'connected') {
      throw networkError('The chat stream did not start with its session id');
    }
    const runId = response.headers.get('x-run-id') ?? '';
    return new Chat(http, runId, first.value, events);
  }

  /** Answers an approval of this chat. */
  async answer(relayId: string, response: RelayResponse): Promise<void> {
    const body = { sessionId: this.sessionId, response };
    await this.#http.json('POST', pathOf`/chat/relay/${relayId}`, { body });
  }

  /** The events after `connected`. Leaving the loop closes the connection, which cancels the run. */
  [Symbol.asyncIterator](): AsyncGenerator<ChatEvent, void> {
    return this.#events;
  }

  /** Reads to the end, and returns the text of the root agent. */
  async text(): Promise<string> {
    const texts = new Map<string, string>();
    for await (const event of this) {
      if (event.type === 'text' && event.parentId === undefined) {
        texts.set(event.id, (texts.get(event.id) ?? '') + event.content);
      } else if (event.type === 'text_discard') texts.delete(event.id);
    }
    return [...texts.values()].join('\n');
  }
}

async function* eventsOf(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<ChatEvent, void> {
  try {
    if (response.body === null) return;
    for await (const frame of readSse(response.body)) {
      const event = JSON.parse(frame.data) as ChatEvent;
      yield event;
      if (event.type === 'harness_end' && event.parentId === undefined) return;
    }
  } catch (error) {
    if (signal?.aborted === true) throw signal.reason;
    throw networkError(`The chat connection broke: ${messageOf(error)}`, error);
  }
  throw networkError('The chat connection ended before the run did');
}
