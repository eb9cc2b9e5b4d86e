/**
 * What a command says on one stream. Its beginning and its end are kept in memory; as soon as there is
 * more than is shown, all of it goes into a file.
 */
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

export interface Bounds {
  /** Characters that are shown of the beginning and of the end, each. */
  readonly shownChars: number;
  /** Bytes that are kept in the file. */
  readonly keptBytes: number;
}

export interface Said {
  readonly text: string;
  readonly bytes: number;
  /** How many characters in the middle are not shown. */
  readonly omitted: number;
  /** Where all of it is, if not all is shown. */
  readonly file?: string;
}

export class CommandOutput {
  readonly #path: string;
  readonly #bounds: Bounds;
  readonly #decoder = new TextDecoder();
  #pending: Buffer[] = [];
  #file: FileHandle | undefined;
  #bytes = 0;
  #chars = 0;
  #head = '';
  #tail = '';

  constructor(path: string, bounds: Bounds) {
    this.#path = path;
    this.#bounds = bounds;
  }

  get tooMuch(): boolean {
    return this.#bytes > this.#bounds.keptBytes;
  }

  /** Resolves when it is kept, so that whoever writes faster than the disk waits. */
  async take(piece: Buffer): Promise<string> {
    this.#bytes += piece.length;
    const text = this.#decoder.decode(piece, { stream: true });
    this.#show(text);
    if (this.#file === undefined) this.#pending.push(piece);
    if (this.#omits || this.#file !== undefined) await this.#keep(piece);
    return text;
  }

  async end(): Promise<Said> {
    this.#show(this.#decoder.decode());
    await this.#file?.close();
    const omitted = this.#chars - this.#head.length - this.#tail.length;
    const text =
      omitted === 0
        ? this.#head + this.#tail
        : `${this.#head}\n… ${omitted} characters are not shown …\n${this.#tail}`;
    const file = this.#file === undefined ? {} : { file: this.#path };
    return { text, bytes: this.#bytes, omitted, ...file };
  }

  get #omits(): boolean {
    return this.#chars > 2 * this.#bounds.shownChars;
  }

  #show(text: string): void {
    const { shownChars } = this.#bounds;
    this.#chars += text.length;
    const room = shownChars - this.#head.length;
    if (room > 0) this.#head += text.slice(0, room);
    if (text.length > room) {
      this.#tail = (this.#tail + text.slice(Math.max(room, 0))).slice(-shownChars);
    }
  }

  async #keep(piece: Buffer): Promise<void> {
    if (this.#file !== undefined) {
      await this.#file.writeFile(piece);
      return;
    }
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    this.#file = await open(this.#path, 'w', 0o600);
    await this.#file.writeFile(Buffer.concat(this.#pending));
    this.#pending = [];
  }
}
