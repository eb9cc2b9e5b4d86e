/**
 * Envelope encryption of secrets: AES-256-GCM with a new data key for each record, and the data key
 * wrapped with a master key. Both are bound to the record (tenant, provider, id), so a row that was
 * moved elsewhere does not unseal. A seal names its master key: rotation only rewraps data keys.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

export interface SealContext {
  readonly tenantId: string;
  readonly provider: string;
  readonly recordId: string;
}

export interface MasterKey {
  /** A fingerprint, by which seals name their key. */
  readonly id: string;
  readonly bytes: Buffer;
}

interface Ciphertext {
  readonly iv: string;
  readonly tag: string;
  readonly data: string;
}

interface Seal {
  readonly v: 1;
  readonly master: string;
  readonly key: Ciphertext;
  readonly secret: Ciphertext;
}

const keyBytes = 32;
const ivBytes = 12;
const algorithm = 'aes-256-gcm';

export class SealBroken extends Error {
  override readonly name = 'SealBroken';
}

export function masterKeyOf(bytes: Buffer): MasterKey {
  if (bytes.byteLength !== keyBytes) throw new TypeError('A master key has 32 bytes');
  const id = createHash('sha256').update('relay master key').update(bytes).digest('hex');
  return { id: id.slice(0, 16), bytes };
}

export function seal(secret: string, context: SealContext, master: MasterKey): string {
  const dataKey = randomBytes(keyBytes);
  const sealed: Seal = {
    v: 1,
    master: master.id,
    key: encrypt(dataKey, master.bytes, aadOf(context, `key:${master.id}`)),
    secret: encrypt(Buffer.from(secret, 'utf8'), dataKey, aadOf(context, 'secret')),
  };
  dataKey.fill(0);
  return JSON.stringify(sealed);
}

export function unseal(text: string, context: SealContext, masters: readonly MasterKey[]): string {
  const sealed = parse(text);
  const dataKey = unwrap(sealed, context, masters);
  const secret = decrypt(sealed.secret, dataKey, aadOf(context, 'secret'));
  dataKey.fill(0);
  return secret.toString('utf8');
}

/** The same secret under the current master key; undefined if it already is. */
export function rewrap(
  text: string,
  context: SealContext,
  masters: readonly [current: MasterKey, ...previous: MasterKey[]],
): string | undefined {
  const sealed = parse(text);
  const [current] = masters;
  if (sealed.master === current.id) return undefined;
  const dataKey = unwrap(sealed, context, masters);
  const key = encrypt(dataKey, current.bytes, aadOf(context, `key:${current.id}`));
  dataKey.fill(0);
  return JSON.stringify({ ...sealed, master: current.id, key } satisfies Seal);
}

function unwrap(sealed: Seal, context: SealContext, masters: readonly MasterKey[]): Buffer {
  const master = masters.find(({ id }) => id === sealed.master);
  if (master === undefined) throw new SealBroken('Sealed with another master key');
  return decrypt(sealed.key, master.bytes, aadOf(context, `key:${master.id}`));
}

/** As JSON, so that different records never have the same encoding. */
function aadOf({ tenantId, provider, recordId }: SealContext, part: string): Buffer {
  return Buffer.from(JSON.stringify(['relay', 1, tenantId, provider, recordId, part]), 'utf8');
}

function encrypt(plain: Buffer, key: Buffer, aad: Buffer): Ciphertext {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv(algorithm, key, iv).setAAD(aad);
  const data = Buffer.concat([cipher.update(plain), cipher.final()]);
  return {
    iv: iv.toString('base64'),
    tag: cipher.getAuthTag().toString('base64'),
    data: data.toString('base64'),
  };
}

function decrypt(ciphertext: Ciphertext, key: Buffer, aad: Buffer): Buffer {
  try {
    const tag = Buffer.from(ciphertext.tag, 'base64');
    const decipher = createDecipheriv(algorithm, key, Buffer.from(ciphertext.iv, 'base64'), {
      authTagLength: 16,
    });
    decipher.setAAD(aad).setAuthTag(tag);
    return Buffer.concat([
      decipher.update(Buffer.from(ciphertext.data, 'base64')),
      decipher.final(),
    ]);
  } catch {
    throw new SealBroken('Decryption failed');
  }
}

function parse(text: string): Seal {
  try {
    const sealed = JSON.parse(text) as Seal;
    if (sealed.v === 1) return sealed;
  } catch {
    // Handled below like any other unsupported seal.
  }
  throw new SealBroken('Unsupported format');
}
