/**
 * `POST /chat`: a run that lives with its connection. There is no way back to one whose connection is
 * gone, so nothing is repeated and nothing is mended here.
 */
import { type ChatBody, type ChatFrame, type RelayResponse, readSse } from '@relay/protocol/wire';
import { networkError } from './errors.ts';
import { at, type CallOptions, type Http, messageOf } from './http.ts';

export type ChatEvent = ChatFrame;

export class Chat implements AsyncIterable<ChatEvent> {
  readonly sessionId: string;
  readonly runId: string;
  readonly #http: Http;
  readonly #events: AsyncGenerator<ChatEvent, void>;

  private constructor(opened: Opened) {
    this.#http = opened.http;
    this.runId = opened.runId;
    this.sessionId = opened.sessionId;
    this.#events = opened.events;
  }

  static async open(http: Http, body: ChatBody, options: CallOptions = {}): Promise<Chat> {
    const response = await http.stream('POST', '/chat', { body, ...options });
    const events = eventsOf(response, options.signal);
    const first = await events.next();
    if (first.done === true || first.value.type !== 'connected') {
      throw networkError('The chat did not begin with its session');
    }
    const runId = response.headers.get('x-run-id') ?? '';
    return new Chat({ http, runId, sessionId: first.value.sessionId, events });
  }

  /** Answers a relay of this chat. */
  async answer(relayId: string, response: RelayResponse): Promise<void> {
    const body = { sessionId: this.sessionId, response };
    await this.#http.json('POST', at`/chat/relay/${relayId}`, { body });
  }

  /** What follows `connected`. Leaving the loop hangs up, and the server cancels the run. */
  [Symbol.asyncIterator](): AsyncGenerator<ChatEvent, void> {
    return this.#events;
  }

  /** Reads to the end: what the first agent has said. */
  async text(): Promise<string> {
    const said = new Map<string, string>();
    for await (const event of this) {
      if (event.type === 'text' && event.parentId === undefined) {
        said.set(event.id, (said.get(event.id) ?? '') + event.content);
      } else if (event.type === 'text_discard') said.delete(event.id);
    }
    return [...said.values()].join('\n');
  }
}

interface Opened {
  readonly http: Http;
  readonly runId: string;
  readonly sessionId: string;
  readonly events: AsyncGenerator<ChatEvent, void>;
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
    throw networkError(`The connection of the chat broke: ${messageOf(error)}`, error);
  }
  throw networkError('The connection of the chat ended before its last word');
}
