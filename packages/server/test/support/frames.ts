/** Reads SSE responses. */
import { type ParsedFrame, readSse } from '@relay/protocol';

export interface SeenFrame {
  readonly id: string;
  readonly event: string;
  readonly data: { readonly type: string } & Readonly<Record<string, unknown>>;
}

function frameOf({ id, event, data }: ParsedFrame): SeenFrame {
  return { id, event, data: JSON.parse(data) as SeenFrame['data'] };
}

/** An open stream that a test reads step by step. */
export class FrameReader {
  readonly seen: SeenFrame[] = [];
  /** Kept, because an unread body ends when its response is garbage-collected. */
  readonly #response: Response;
  readonly #frames: AsyncGenerator<ParsedFrame>;

  constructor(response: Response) {
    if (response.body === null) throw new Error('The response has no body');
    this.#response = response;
    this.#frames = readSse(response.body);
  }

  /** The next frame; undefined if the stream has ended. */
  async next(): Promise<SeenFrame | undefined> {
    const next = await this.#frames.next();
    if (next.done === true) return undefined;
    const frame = frameOf(next.value);
    this.seen.push(frame);
    return frame;
  }

  /** Reads on to the next frame of this type. */
  async until(type: string): Promise<SeenFrame> {
    for (;;) {
      const frame = await this.next();
      if (frame === undefined) throw new Error(`No ${type} among ${this.types.join(', ')}`);
      if (frame.data.type === type) return frame;
    }
  }

  /** Everything until the stream ends. */
  async rest(): Promise<SeenFrame[]> {
    for await (const frame of this.#frames) this.seen.push(frameOf(frame));
    return this.seen;
  }

  async disconnect(): Promise<void> {
    await this.#frames.return(undefined);
    // Before the first frame is read, the body is not locked yet.
    if (this.#response.body?.locked === false) await this.#response.body.cancel();
  }

  get types(): string[] {
    return this.seen.map(({ data }) => data.type);
  }
}

export function dataOf(frames: readonly SeenFrame[]): SeenFrame['data'][] {
  return frames.map(({ data }) => data);
}

export function typesOf(events: readonly { readonly type: string }[]): string[] {
  return events.map(({ type }) => type);
}

export async function allFrames(response: Response): Promise<SeenFrame[]> {
  return new FrameReader(response).rest();
}

/** All pieces of an encoded batch as one text. */
export function joined(pieces: Generator<string, string>): string {
  let text = '';
  for (;;) {
    const { value, done } = pieces.next();
    text += value;
    if (done === true) return text;
  }
}
