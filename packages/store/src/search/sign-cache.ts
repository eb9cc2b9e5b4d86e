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

interface Space {
  readonly rows: ReadonlyMap<string, SignRow>;
  readonly lastRevision: number;
  readonly fingerprint: Fingerprint;
  /** By their words of signs. */
  readonly tables: ReadonlyMap<number, SignTable>;
  readonly bytes: number;
}

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
    const known = this.#spaces.get(name);
    const isCurrent = known !== undefined && isSame(known.fingerprint, fingerprint);
    const space = isCurrent ? known : await read(source, fingerprint, known);
    this.#keep(name, space);
    return space.tables.get(words);
  }

  #keep(name: string, space: Space): void {
    this.#bytes += space.bytes - (this.#spaces.get(name)?.bytes ?? 0);
    // What was used last is the last to go.
    this.#spaces.delete(name);
    this.#spaces.set(name, space);
    for (const [oldest, { bytes }] of this.#spaces) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#spaces.delete(oldest);
      this.#bytes -= bytes;
    }
  }
}

async function read(
  source: SignSource,
  fingerprint: Fingerprint,
  known: Space | undefined,
): Promise<Space> {
  if (known !== undefined && known.rows.size > 0) {
    const grown = spaceOf([
      ...known.rows.values(),
      ...(await source.since(known.lastRevision - overlap)),
    ]);
    if (isSame(grown.fingerprint, fingerprint)) return grown;
  }
  return spaceOf(await source.since(0));
}

function spaceOf(all: readonly SignRow[]): Space {
  const rows = new Map(all.map((row) => [row.memoryId, row]));
  let [sum, bytes, lastRevision] = [0, 0, 0];
  const byWords = new Map<number, SignRow[]>();
  for (const row of rows.values()) {
    sum += row.revision % revisionModulus;
    lastRevision = Math.max(lastRevision, row.revision);
    bytes += 2 * row.signs.byteLength + 200;
    const words = row.signs.byteLength / 4;
    // Damaged: it is not found, and nothing else is lost.
    if (!Number.isInteger(words)) continue;
    const group = byWords.get(words);
    if (group === undefined) byWords.set(words, [row]);
    else group.push(row);
  }
  const tables = new Map(
    [...byWords].map(([words, group]) => [words, tableOf(words, group)] as const),
  );
  return { rows, lastRevision, fingerprint: { count: rows.size, sum }, tables, bytes };
}

function tableOf(words: number, rows: readonly SignRow[]): SignTable {
  const bytes = new Uint8Array(rows.length * words * 4);
  for (const [place, { signs }] of rows.entries()) bytes.set(signs, place * words * 4);
  return { ids: rows.map(({ memoryId }) => memoryId), words, signs: new Uint32Array(bytes.buffer) };
}

function isSame(one: Fingerprint, other: Fingerprint): boolean {
  return one.count === other.count && one.sum === other.sum;
}
