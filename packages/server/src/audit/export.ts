/**
 * The audit trail as JSON lines, oldest first: entries with their chain hashes, and at last a head that
 * is signed with a private key that only Relay has. Whoever stores the lines verifies them with the
 * public key, and continues after the head's cursor.
 */
import {
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign as signBytes,
  verify as verifyBytes,
} from 'node:crypto';
import type { AuditEntry, AuditTrail } from '@relay/core';
import { canonicalJson, defined, RelayError } from '@relay/protocol';
import { z } from 'zod';
import { type AuditPosition, type AuditSigner, chainHash, initialHash } from './signer.ts';

/** Small, so that other requests are served between two pages. */
const pageSize = 200;

/** The DER encoding of an Ed25519 private key before its 32 bytes. */
const privateKeyPrefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/** Signs the heads of exports. The public key is the same as long as the root key is. */
export class HeadSigner {
  readonly #key: KeyObject;
  /** In PEM. */
  readonly publicKey: string;

  constructor(seed: Buffer) {
    const der = Buffer.concat([privateKeyPrefix, seed]);
    this.#key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
    const pem = createPublicKey(this.#key).export({ format: 'pem', type: 'spki' });
    this.publicKey = pem.toString();
  }

  sign(head: Omit<ExportHead, 'signature' | 'publicKey'>): ExportHead {
    const signed = { ...head, publicKey: this.publicKey };
    const signature = signBytes(null, bytesOf(signed), this.#key).toString('base64');
    return { ...signed, signature };
  }
}

/** What is signed: the head in canonical JSON, without its signature. */
function bytesOf(head: Omit<ExportHead, 'signature'>): Buffer {
  return Buffer.from(canonicalJson(head));
}

export interface ExportHead {
  readonly type: 'head';
  readonly tenantId: string;
  /** The position before the first line. */
  readonly after: AuditPosition;
  /** The position of the last entry. */
  readonly seq: number;
  readonly hash: string;
  readonly at: string;
  /** Continues the export after the last entry. */
  readonly cursor: string;
  /** The trail was changed: nothing from this entry on is exported. */
  readonly problem?: { readonly seq: number; readonly problem: string };
  readonly publicKey: string;
  readonly signature: string;
}

export interface ExportedEntry {
  readonly type: 'entry';
  readonly id: string;
  readonly seq: number;
  readonly at: string;
  readonly who: AuditEntry['who'];
  readonly action: string;
  readonly what: AuditEntry['what'];
  readonly why?: string;
  /** SHA-256 of the JSON array of the previous hash, `seq`, `id` and `text`. */
  readonly hash: string;
  /** The entry as it was written, which the hash covers. */
  readonly text: string;
}

export interface ExportOptions {
  readonly tenantId: string;
  readonly trail: AuditTrail;
  readonly signer: AuditSigner;
  readonly heads: HeadSigner;
  /** The end of the trail when the export began. */
  readonly end: AuditPosition;
  readonly after?: AuditPosition | undefined;
  readonly limit?: number | undefined;
  readonly now: number;
}

function cursorOf({ seq, hash }: AuditPosition): string {
  return `${seq}.${hash}`;
}

export function positionOf(cursor: string): AuditPosition {
  const [seq = '', hash = ''] = cursor.split('.');
  return { seq: Number(seq), hash };
}

/** Throws if the trail does not contain the cursor, before anything is written. */
export async function checkCursor({ trail, tenantId, end, after }: ExportOptions): Promise<void> {
  if (after === undefined) return;
  const [entry] = after.seq === 0 ? [] : await trail.read({ after: after.seq - 1, limit: 1 });
  const hash = after.seq === 0 ? initialHash(tenantId) : entry?.hash;
  if (after.seq <= end.seq && hash === after.hash) return;
  throw new RelayError(
    'cursor_past_end',
    'The audit trail does not contain this cursor: entries were removed or changed since, or it is from another tenant',
  );
}

/** The lines of an export. Holds one page, however long the trail is. */
export async function* exportLines(options: ExportOptions): AsyncGenerator<string> {
  const { tenantId, trail, signer, heads, end, limit = Infinity } = options;
  const after = options.after ?? { seq: 0, hash: initialHash(tenantId) };
  const last = Math.min(end.seq, after.seq + limit);
  let head = after;
  let problem: ExportHead['problem'];
  while (head.seq < last && problem === undefined) {
    const page = await trail.read({
      after: head.seq === 0 ? Number.MIN_SAFE_INTEGER : head.seq,
      limit: Math.min(pageSize, last - head.seq),
    });
    if (page.length === 0) problem = { seq: head.seq + 1, problem: 'The entry is missing' };
    let lines = '';
    for (const entry of page) {
      const reason = signer.problemOf(tenantId, entry, head);
      if (reason !== undefined) {
        problem = { seq: head.seq + 1, problem: reason };
        break;
      }
      const { id, seq, hash, text } = entry;
      const { at, who, action, what, why } = JSON.parse(text) as AuditEntry;
      const line: ExportedEntry = defined({
        type: 'entry',
        id,
        seq,
        at: new Date(at).toISOString(),
        who,
        action,
        what,
        why: why ?? undefined,
        hash,
        text,
      });
      lines += `${JSON.stringify(line)}\n`;
      head = { seq, hash };
    }
    yield lines;
  }
  const signed = heads.sign({
    type: 'head',
    tenantId,
    after,
    ...head,
    at: new Date(options.now).toISOString(),
    cursor: cursorOf(head),
    ...defined({ problem }),
  });
  yield `${JSON.stringify(signed)}\n`;
}

export type ExportVerdict =
  | { readonly ok: true; readonly entries: number; readonly head: ExportHead }
  | { readonly ok: false; readonly entries: number; readonly problem: string };

/**
 * Verifies an exported file by itself, line by line. `publicKey` and `after` were saved from an earlier
 * export: without them, a file that was made with another key, or begins later, is not noticed.
 */
export async function verifyExport(
  lines: AsyncIterable<string>,
  known: { readonly publicKey?: string | undefined; readonly after?: string | undefined } = {},
): Promise<ExportVerdict> {
  let first: ExportedEntry | undefined;
  let last: ExportedEntry | undefined;
  let head: ExportHead | undefined;
  let entries = 0;
  const bad = (problem: string): ExportVerdict => ({ ok: false, entries, problem });
  for await (const line of lines) {
    if (line === '') continue;
    if (head !== undefined) return bad('There are lines after the head');
    const value = parsed(line);
    if (value === undefined) return bad(`Line ${entries + 1} is neither an entry nor a head`);
    if (value.type === 'head') {
      head = value;
      continue;
    }
    const isNext =
      last === undefined ||
      (value.seq === last.seq + 1 && value.hash === chainHash(value, last.hash));
    if (!isNext) return bad(`Entry ${value.seq} was changed, or does not follow ${last?.seq}`);
    if (!isAsWritten(value)) return bad(`Entry ${value.seq} differs from its text`);
    first ??= value;
    last = value;
    entries += 1;
  }
  if (head === undefined) return bad('The file has no head: it is not complete');
  const { signature, ...signed } = head;
  const publicKey = readPublicKey(known.publicKey ?? head.publicKey);
  if (publicKey === undefined) return bad('The public key is not in PEM');
  if (!verifyBytes(null, bytesOf(signed), publicKey, Buffer.from(signature, 'base64'))) {
    return bad('The signature of the head is not valid for this public key');
  }
  const { after } = head;
  if (known.after !== undefined && known.after !== cursorOf(after)) {
    return bad('The file does not continue after the given cursor');
  }
  if (after.seq === 0 && after.hash !== initialHash(head.tenantId)) {
    return bad('The file does not begin at the beginning of the trail');
  }
  if (
    first !== undefined &&
    (first.seq !== after.seq + 1 || first.hash !== chainHash(first, after.hash))
  ) {
    return bad(`Entry ${first.seq} was changed, or does not follow ${after.seq}`);
  }
  const end = last ?? after;
  if (end.seq !== head.seq || end.hash !== head.hash) return bad('The last entries are missing');
  if (head.problem !== undefined) {
    return bad(`The trail was changed at entry ${head.problem.seq}: ${head.problem.problem}`);
  }
  return { ok: true, entries, head };
}

function readPublicKey(pem: string): KeyObject | undefined {
  try {
    return createPublicKey(pem);
  } catch {
    return undefined;
  }
}

/** With the fields that are needed to verify it: the file may come from anywhere. */
const lineSchema = z.discriminatedUnion('type', [
  z.looseObject({
    type: z.literal('entry'),
    id: z.string(),
    seq: z.int(),
    at: z.string(),
    hash: z.string(),
    text: z.string(),
  }),
  z.looseObject({
    type: z.literal('head'),
    tenantId: z.string(),
    after: z.looseObject({ seq: z.int(), hash: z.string() }),
    seq: z.int(),
    hash: z.string(),
    publicKey: z.string(),
    signature: z.string(),
  }),
]);

function parsed(line: string): ExportedEntry | ExportHead | undefined {
  try {
    const value = JSON.parse(line) as ExportedEntry | ExportHead;
    return lineSchema.safeParse(value).success ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The fields repeat the text, which the hash covers. */
function isAsWritten({ at, who, action, what, why, text }: ExportedEntry): boolean {
  const shown = { at: Date.parse(at), who, action, what, why: why ?? null };
  try {
    return canonicalJson(shown) === canonicalJson(JSON.parse(text));
  } catch {
    return false;
  }
}
