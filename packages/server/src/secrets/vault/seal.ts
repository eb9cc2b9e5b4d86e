/**
 * How a secret is sealed: a fresh data key for each record, AES-256-GCM, and the data key wrapped by a
 * master key. Both are bound to where the record belongs (tenant, provider, record), so that a row
 * which is moved elsewhere does not open. A seal names its master key, which makes rotation a matter
 * of wrapping data keys anew.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

/** Where a secret belongs. */
export interface Place {
  readonly tenantId: string;
  readonly provider: string;
  readonly recordId: string;
}

export interface MasterKey {
  /** A fingerprint, so that a seal can say which key opens it. */
  readonly id: string;
  readonly bytes: Buffer;
}

interface Boxed {
  readonly iv: string;
  readonly tag: string;
  readonly data: string;
}

interface Seal {
  readonly v: 1;
  readonly master: string;
  readonly key: Boxed;
  readonly secret: Boxed;
}

const keyBytes = 32;
const ivBytes = 12;
const algorithm = 'aes-256-gcm';

/** The seal cannot be opened: another key, another place, or damaged bytes. It says no more. */
export class SealBroken extends Error {
  override readonly name = 'SealBroken';
}

export function masterKeyOf(bytes: Buffer): MasterKey {
  if (bytes.byteLength !== keyBytes) throw new TypeError('A master key has 32 bytes');
  const id = createHash('sha256').update('relay master key').update(bytes).digest('hex');
  return { id: id.slice(0, 16), bytes };
}

export function seal(secret: string, place: Place, master: MasterKey): string {
  const dataKey = randomBytes(keyBytes);
  const sealed: Seal = {
    v: 1,
    master: master.id,
    key: encrypt(dataKey, master.bytes, boundTo(place, `key:${master.id}`)),
    secret: encrypt(Buffer.from(secret, 'utf8'), dataKey, boundTo(place, 'secret')),
  };
  dataKey.fill(0);
  return JSON.stringify(sealed);
}

export function unseal(text: string, place: Place, masters: readonly MasterKey[]): string {
  const sealed = parse(text);
  const dataKey = unwrap(sealed, place, masters);
  const secret = decrypt(sealed.secret, dataKey, boundTo(place, 'secret'));
  dataKey.fill(0);
  return secret.toString('utf8');
}

/** The same secret under another master key; undefined if it is under that one already. */
export function rewrap(
  text: string,
  place: Place,
  masters: readonly [current: MasterKey, ...previous: MasterKey[]],
): string | undefined {
  const sealed = parse(text);
  const [current] = masters;
  if (sealed.master === current.id) return undefined;
  const dataKey = unwrap(sealed, place, masters);
  const key = encrypt(dataKey, current.bytes, boundTo(place, `key:${current.id}`));
  dataKey.fill(0);
  return JSON.stringify({ ...sealed, master: current.id, key } satisfies Seal);
}

function unwrap(sealed: Seal, place: Place, masters: readonly MasterKey[]): Buffer {
  const master = masters.find(({ id }) => id === sealed.master);
  if (master === undefined) throw new SealBroken('It was sealed with another master key');
  return decrypt(sealed.key, master.bytes, boundTo(place, `key:${master.id}`));
}

/** Lengths go in too: no two places can be written the same way. */
function boundTo({ tenantId, provider, recordId }: Place, part: string): Buffer {
  return Buffer.from(JSON.stringify(['relay', 1, tenantId, provider, recordId, part]), 'utf8');
}

function encrypt(plain: Buffer, key: Buffer, aad: Buffer): Boxed {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv(algorithm, key, iv).setAAD(aad);
  const data = Buffer.concat([cipher.update(plain), cipher.final()]);
  return {
    iv: iv.toString('base64'),
    tag: cipher.getAuthTag().toString('base64'),
    data: data.toString('base64'),
  };
}

function decrypt(boxed: Boxed, key: Buffer, aad: Buffer): Buffer {
  try {
    const tag = Buffer.from(boxed.tag, 'base64');
    const decipher = createDecipheriv(algorithm, key, Buffer.from(boxed.iv, 'base64'), {
      authTagLength: 16,
    });
    decipher.setAAD(aad).setAuthTag(tag);
    return Buffer.concat([decipher.update(Buffer.from(boxed.data, 'base64')), decipher.final()]);
  } catch {
    throw new SealBroken('It cannot be opened here');
  }
}

function parse(text: string): Seal {
  try {
    const sealed = JSON.parse(text) as Seal;
    if (sealed.v === 1) return sealed;
  } catch {
    // The same as any other seal that cannot be read.
  }
  throw new SealBroken('It is not a seal that this version reads');
}
