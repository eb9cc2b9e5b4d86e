/** Reading an SSE response as a person's program would. */
import { type ParsedFrame, readSse } from '@relay/protocol/wire';

export interface Frame {
  readonly id: number | undefined;
  readonly event: string;
  readonly data: { readonly type: string } & Readonly<Record<string, unknown>>;
}

function frameOf(parsed: ParsedFrame): Frame {
  return {
    id: parsed.id === '' ? undefined : Number(parsed.id),
    event: parsed.event,
    data: JSON.parse(parsed.data) as Frame['data'],
  };
}

/** Frames as they come; leaving the loop closes the connection. */
async function* framesOf(response: Response): AsyncGenerator<Frame> {
  if (response.body === null) throw new Error('The response has no body');
  for await (const parsed of readSse(response.body)) yield frameOf(parsed);
}

/** All frames until the stream ends. */
export async function allFrames(response: Response): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of framesOf(response)) frames.push(frame);
  return frames;
}

/** Reads until a frame of this type has come, and hands the open stream back. */
export class FrameReader {
  readonly seen: Frame[] = [];
  /** A body that is not read ends when its response is garbage-collected. */
  readonly #response: Response;
  readonly #frames: AsyncGenerator<Frame>;

  constructor(response: Response) {
    this.#response = response;
    this.#frames = framesOf(response);
  }

  async until(type: string): Promise<Frame> {
    for (;;) {
      const next = await this.#frames.next();
      if (next.done === true) {
        const types = this.seen.map((frame) => frame.data.type).join(', ');
        throw new Error(`The stream ended before ${type}: ${types}`);
      }
      this.seen.push(next.value);
      if (next.value.data.type === type) return next.value;
    }
  }

  async rest(): Promise<Frame[]> {
    for await (const frame of this.#frames) this.seen.push(frame);
    return this.seen;
  }

  async close(): Promise<void> {
    await this.#frames.return(undefined);
    if (this.#response.body?.locked === false) await this.#response.body.cancel();
  }
}
