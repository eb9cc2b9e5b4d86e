/**
 * The output of a command on one stream. Its beginning and its end are kept in memory; output that is
 * too long to be shown is also written to a file, completely.
 */
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';

export interface OutputLimits {
  /** Characters that are shown of the beginning and of the end, each. */
  readonly shownChars: number;
  /** Output above this size counts as too much. */
  readonly keptBytes: number;
}

export interface CapturedOutput {
  readonly text: string;
  readonly bytes: number;
  /** How many characters in the middle are not shown. */
  readonly omitted: number;
  /** The file with the complete output, if not all is shown. */
  readonly file?: string;
}

export class CommandOutput {
  readonly #path: string;
  readonly #limits: OutputLimits;
  readonly #decoder = new TextDecoder();
  #pending: Buffer[] = [];
  #file: FileHandle | undefined;
  #bytes = 0;
  #chars = 0;
  #head = '';
  #tail = '';

  constructor(path: string, limits: OutputLimits) {
    this.#path = path;
    this.#limits = limits;
  }

  get isTooMuch(): boolean {
    return this.#bytes > this.#limits.keptBytes;
  }

  /** Resolves when the chunk is stored, so that a command cannot write faster than the disk. */
  async add(chunk: Buffer): Promise<string> {
    this.#bytes += chunk.length;
    const text = this.#decoder.decode(chunk, { stream: true });
    this.#show(text);
    if (this.#file === undefined) this.#pending.push(chunk);
    if (this.#omits || this.#file !== undefined) await this.#store(chunk);
    return text;
  }

  async end(): Promise<CapturedOutput> {
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
    return this.#chars > 2 * this.#limits.shownChars;
  }

  #show(text: string): void {
    const { shownChars } = this.#limits;
    this.#chars += text.length;
    const left = shownChars - this.#head.length;
    if (left > 0) this.#head += text.slice(0, left);
    if (text.length > left) {
      this.#tail = (this.#tail + text.slice(Math.max(left, 0))).slice(-shownChars);
    }
  }

  async #store(chunk: Buffer): Promise<void> {
    if (this.#file !== undefined) {
      await this.#file.writeFile(chunk);
      return;
    }
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    this.#file = await open(this.#path, 'w', 0o600);
    await this.#file.writeFile(Buffer.concat(this.#pending));
    this.#pending = [];
  }
}
