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
  /** Of these revisions or later ones, the earliest first. */
  since(revision: number): Promise<readonly SignRow[]>;
}

/** What revisions are summed up by. */
export const revisionModulus = 1_000_003;
/** Nodes' clocks differ, and commits overtake each other: this much, in revisions, is read again. */
const overlap = 60_000 * 1_000;
const maxBytes = 64 * 1024 * 1024;

export class SignCache {
  readonly #spaces = new Map<string, Space>();
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
    const space = await this.#current(this.#spaces.get(name), fingerprint, source);
    this.#keep(name, space);
    return space.tables.get(words);
  }

  async #current(
    known: Space | undefined,
    fingerprint: Fingerprint,
    source: SignSource,
  ): Promise<Space> {
    if (known?.is(fingerprint) === true) return known;
    if (known !== undefined && known.size > 0 && known.size < fingerprint.count) {
      known.add(await source.since(known.lastRevision - overlap));
      if (known.is(fingerprint)) return known;
    }
    const space = new Space();
    space.add(await source.since(0));
    return space;
  }

  #keep(name: string, space: Space): void {
    // What was used last is the last to go.
    this.#spaces.delete(name);
    this.#spaces.set(name, space);
    this.#bytes = [...this.#spaces.values()].reduce((sum, { bytes }) => sum + bytes, 0);
    for (const [oldest, { bytes }] of this.#spaces) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#spaces.delete(oldest);
      this.#bytes -= bytes;
    }
  }
}

/** It only ever grows: whoever reads from it meanwhile sees what was there. */
class Space {
  readonly #known = new Set<string>();
  /** By their words of signs. */
  readonly tables = new Map<number, GrowingTable>();
  lastRevision = 0;
  #sum = 0;
  bytes = 0;

  get size(): number {
    return this.#known.size;
  }

  is({ count, sum }: Fingerprint): boolean {
    return this.#known.size === count && this.#sum === sum;
  }

  add(rows: readonly SignRow[]): void {
    for (const { memoryId, revision, signs } of rows) {
      if (this.#known.has(memoryId)) continue;
      this.#known.add(memoryId);
      this.#sum += revision % revisionModulus;
      this.lastRevision = Math.max(this.lastRevision, revision);
      this.bytes += signs.byteLength + bytesOfId;
      const words = signs.byteLength / 4;
      // Damaged: it is not found, and nothing else is lost.
      if (!Number.isInteger(words)) continue;
      const table = this.tables.get(words) ?? new GrowingTable(words);
      this.tables.set(words, table);
      table.add(memoryId, signs);
    }
  }
}

/** What an id costs in a list and in a set, about. */
const bytesOfId = 160;

class GrowingTable implements SignTable {
  readonly ids: string[] = [];
  readonly words: number;
  signs: Uint32Array;

  constructor(words: number) {
    this.words = words;
    this.signs = new Uint32Array(words * 16);
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
