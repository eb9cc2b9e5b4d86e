/**
 * Caches the signs of recently searched spaces. Every search compares the cache with the database by the
 * count and the sum of revisions, so that changes of other nodes are never missed. A space that has only
 * grown is read from its last revision; after any other change it is read again.
 */
import type { SignBitTable } from './sign-bits.ts';

export interface Fingerprint {
  readonly count: number;
  readonly sum: number;
}

export interface SignBitRow {
  readonly memoryId: string;
  readonly revision: number;
  readonly signs: Uint8Array;
}

export interface SignBitSource {
  fingerprint(): Promise<Fingerprint>;
  /** Pages of rows of this revision or later, in order. */
  since(revision: number): AsyncIterable<readonly SignBitRow[]>;
}

/** Keeps the sum of revisions small. */
export const revisionModulus = 1_000_003;
/** Clocks of nodes differ and commits overtake each other: so many revisions are read again. */
const overlap = 60_000 * 1_000;
const maxBytes = 64 * 1024 * 1024;

interface CacheEntry {
  readonly space: Space;
  readonly bytes: number;
}

export class SignBitCache {
  readonly #entries = new Map<string, CacheEntry>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(limit: { readonly maxBytes: number } = { maxBytes }) {
    this.#maxBytes = limit.maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The vectors of a space with this many words of signs. */
  async table(
    name: string,
    words: number,
    source: SignBitSource,
  ): Promise<SignBitTable | undefined> {
    const fingerprint = await source.fingerprint();
    const space = await current(this.#entries.get(name)?.space, fingerprint, source);
    this.#keep(name, space);
    return space.tables.get(words);
  }

  evict(name: string): void {
    this.#bytes -= this.#entries.get(name)?.bytes ?? 0;
    this.#entries.delete(name);
  }

  evictAll(prefix: string): void {
    for (const name of this.#entries.keys()) if (name.startsWith(prefix)) this.evict(name);
  }

  #keep(name: string, space: Space): void {
    // Least recently used first.
    this.evict(name);
    const bytes = space.bytes + 2 * name.length;
    this.#entries.set(name, { space, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      this.evict(oldest);
    }
  }
}

async function current(
  known: Space | undefined,
  fingerprint: Fingerprint,
  source: SignBitSource,
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

/** Only grows: a concurrent reader sees what was there when it began. */
class Space {
  readonly #known = new Set<string>();
  /** By their words of signs. */
  readonly tables = new Map<number, GrowingTable>();
  lastRevision = 0;
  #sum = 0;

  /** Including reserved capacity. */
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

  async addAll(pages: AsyncIterable<readonly SignBitRow[]>): Promise<void> {
    for await (const rows of pages) this.#add(rows);
  }

  #add(rows: readonly SignBitRow[]): void {
    for (const { memoryId, revision, signs } of rows) {
      if (this.#known.has(memoryId)) continue;
      this.#known.add(memoryId);
      this.#sum += revision % revisionModulus;
      this.lastRevision = Math.max(this.lastRevision, revision);
      const words = signs.byteLength / 4;
      // Damaged: it is not found.
      if (!Number.isInteger(words)) continue;
      const table = this.tables.get(words) ?? new GrowingTable(words);
      this.tables.set(words, table);
      table.add(memoryId, signs);
    }
  }
}

/** Estimates of the memory for an id and for an empty space. */
const bytesOfId = 160;
const bytesOfSpace = 1_500;

class GrowingTable implements SignBitTable {
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
