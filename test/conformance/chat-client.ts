/** A person's program that chats without a key, as the document has it; with one if it brings rules that allow. */
import { type Frame, FrameReader } from '../support/frames.ts';
import type { ServerFixture } from '../support/server.ts';

interface Access {
  readonly keyless: boolean;
}

export class Chat {
  readonly runId: string;
  readonly #server: ServerFixture;
  readonly #reader: FrameReader;
  readonly #access: Access;

  private constructor(server: ServerFixture, response: Response, access: Access) {
    this.#access = access;
    this.runId = response.headers.get('x-run-id') ?? '';
    this.#server = server;
    this.#reader = new FrameReader(response);
  }

  /** `text`: what the user says. */
  static async open(
    server: ServerFixture,
    text: string,
    more: object = {},
    access: Access = { keyless: true },
  ): Promise<Chat> {
    const messages = [{ role: 'user', content: text }];
    const body = { model: 'demo', messages, ...more };
    const response = await server.request('/chat', { ...access, body });
    if (response.status !== 200) throw new Error(await response.text());
    const chat = new Chat(server, response, access);
    await chat.until('connected');
    return chat;
  }

  get seen(): readonly Frame[] {
    return this.#reader.seen;
  }

  get sessionId(): string {
    return String(this.of('connected')[0]?.data['sessionId']);
  }

  /** The frames of one type that have come so far. */
  of(type: string): Frame[] {
    return this.seen.filter(({ data }) => data.type === type);
  }

  until(type: string): Promise<Frame> {
    return this.#reader.until(type);
  }

  /** The next relay, and its id. */
  async relay(): Promise<{ readonly id: string; readonly frame: Frame }> {
    const frame = await this.until('relay');
    return { id: String(frame.data['id']), frame };
  }

  /** Everything until the stream ends by itself. */
  async end(): Promise<readonly Frame[]> {
    await this.#reader.rest();
    return this.seen;
  }

  hangUp(): Promise<void> {
    return this.#reader.close();
  }

  answer(relayId: string, response: unknown): Promise<Response> {
    const body = { sessionId: this.sessionId, response };
    return this.#server.request(`/chat/relay/${relayId}`, { ...this.#access, body });
  }
}

/** What the agent said, without the frames that carried it. */
export function textIn(frames: readonly Frame[]): string {
  return frames
    .filter(({ data }) => data.type === 'text')
    .map(({ data }) => String(data['content']))
    .join('');
}
