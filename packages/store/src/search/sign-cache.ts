/**
 * Signs of the vectors of namespaces that were searched lately. What a space holds is compared with
 * the database at every search, by count and sum of revisions: nothing that another node did is
 * missed. A space that has only grown is read on from where it was; any other change reads it anew.
 */
import type { SignTable } from './signs.ts';

/** A change in what the database holds shows here. */
export interface Fingerprint {
  readonly count: number;
  readonly sum: number;
}

export interface SignRow {
  readonly memoryId: string;
  readonly revision: number;
  readonly signs: Uint8Array;
}

/** A space as the database holds it. */
export interface SignSource {
  fingerprint(): Promise<Fingerprint>;
  /** Of these revisions or later ones, the earliest first, a page at a time. */
  since(revision: number): AsyncIterable<readonly SignRow[]>;
}

/** What revisions are summed up by. */
export const revisionModulus = 1_000_003;
/** Nodes' clocks differ, and commits overtake each other: this much, in revisions, is read again. */
const overlap = 60_000 * 1_000;
const maxBytes = 64 * 1024 * 1024;

interface Held {
  readonly space: Space;
  readonly bytes: number;
}

export class SignCache {
  readonly #held = new Map<string, Held>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(limit: { readonly maxBytes: number } = { maxBytes }) {
    this.#maxBytes = limit.maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The vectors of a space with this many words of signs. */
  async table(name: string, words: number, source: SignSource): Promise<SignTable | undefined> {
    const fingerprint = await source.fingerprint();
    const space = await current(this.#held.get(name)?.space, fingerprint, source);
    this.#keep(name, space);
    return space.tables.get(words);
  }

  /** What was deleted is not to be kept here either. */
  forget(name: string): void {
    this.#bytes -= this.#held.get(name)?.bytes ?? 0;
    this.#held.delete(name);
  }

  forgetAll(prefix: string): void {
    for (const name of this.#held.keys()) if (name.startsWith(prefix)) this.forget(name);
  }

  #keep(name: string, space: Space): void {
    // What was used last is the last to go.
    this.forget(name);
    const bytes = space.bytes + 2 * name.length;
    this.#held.set(name, { space, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#held.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      this.forget(oldest);
    }
  }
}

async function current(
  known: Space | undefined,
  fingerprint: Fingerprint,
  source: SignSource,
): Promise<Space> {
  if (known?.is(fingerprint) === true) return known;
  if (known !== undefined && known.size > 0 && known.size < fingerprint.count) {
    await known.addAll(source.since(known.lastRevision - overlap));
    if (known.is(fingerprint)) return known;
  }
  const space = new Space();
  await space.addAll(source.since(0));
  return space;
}

/** It only grows: a concurrent reader sees what was there when it began. */
class Space {
  readonly #known = new Set<string>();
  /** By their words of signs. */
  readonly tables = new Map<number, GrowingTable>();
  lastRevision = 0;
  #sum = 0;

  /** Also of the room that is kept for more. */
  get bytes(): number {
    let bytes = bytesOfSpace + this.#known.size * bytesOfId;
    for (const { signs } of this.tables.values()) bytes += signs.byteLength;
    return bytes;
  }

  get size(): number {
    return this.#known.size;
  }

  is({ count, sum }: Fingerprint): boolean {
    return this.#known.size === count && this.#sum === sum;
  }

  async addAll(pages: AsyncIterable<readonly SignRow[]>): Promise<void> {
    for await (const rows of pages) this.#add(rows);
  }

  #add(rows: readonly SignRow[]): void {
    for (const { memoryId, revision, signs } of rows) {
      if (this.#known.has(memoryId)) continue;
      this.#known.add(memoryId);
      this.#sum += revision % revisionModulus;
      this.lastRevision = Math.max(this.lastRevision, revision);
      const words = signs.byteLength / 4;
      // Damaged: it is not found, and nothing else is lost.
      if (!Number.isInteger(words)) continue;
      const table = this.tables.get(words) ?? new GrowingTable(words);
      this.tables.set(words, table);
      table.add(memoryId, signs);
    }
  }
}

/** What an id costs in a list and in a set, and a space that holds nothing, about. */
const bytesOfId = 160;
const bytesOfSpace = 1_500;

class GrowingTable implements SignTable {
  readonly ids: string[] = [];
  readonly words: number;
  signs: Uint32Array;

  constructor(words: number) {
    this.words = words;
    this.signs = new Uint32Array(words);
  }

  add(id: string, signs: Uint8Array): void {
    const at = this.ids.length * this.words;
    if (at + this.words > this.signs.length) {
      const larger = new Uint32Array(this.signs.length * 2);
      larger.set(this.signs);
      this.signs = larger;
    }
    new Uint8Array(this.signs.buffer).set(signs, at * 4);
    this.ids.push(id);
  }
}
