/**
 * Envelope encryption of secrets: AES-256-GCM with a new data key for each record, and the data key
 * wrapped with a master key. Both are bound to the record (tenant, provider, id) and to where the secret
 * is sent (base URL), so a row that was moved or changed cannot be decrypted. A record names its master key: rotation only rewraps data keys.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

export interface SecretContext {
  readonly tenantId: string;
  readonly provider: string;
  readonly recordId: string;
  readonly baseUrl: string | null;
  readonly label: string | null;
}

export interface MasterKey {
  /** A fingerprint, by which encrypted secrets name their key. */
  readonly id: string;
  readonly bytes: Buffer;
}

interface Ciphertext {
  readonly iv: string;
  readonly tag: string;
  readonly data: string;
}

interface EncryptedSecret {
  readonly v: 1;
  readonly master: string;
  readonly key: Ciphertext;
  readonly secret: Ciphertext;
}

const keyBytes = 32;
const ivBytes = 12;
const algorithm = 'aes-256-gcm';

export class DecryptionFailed extends Error {
  override readonly name = 'DecryptionFailed';
}

export function masterKeyOf(bytes: Buffer): MasterKey {
  if (bytes.byteLength !== keyBytes) throw new TypeError('A master key has 32 bytes');
  const id = createHash('sha256').update('relay master key').update(bytes).digest('hex');
  return { id: id.slice(0, 16), bytes };
}

export function encryptSecret(secret: string, context: SecretContext, master: MasterKey): string {
  const dataKey = randomBytes(keyBytes);
  const encrypted: EncryptedSecret = {
    v: 1,
    master: master.id,
    key: encrypt(dataKey, master.bytes, aadOf(context, `key:${master.id}`)),
    secret: encrypt(Buffer.from(secret, 'utf8'), dataKey, aadOf(context, 'secret')),
  };
  dataKey.fill(0);
  return JSON.stringify(encrypted);
}

export function decryptSecret(
  text: string,
  context: SecretContext,
  masters: readonly MasterKey[],
): string {
  const encrypted = parse(text);
  const dataKey = unwrap(encrypted, context, masters);
  const secret = decrypt(encrypted.secret, dataKey, aadOf(context, 'secret'));
  dataKey.fill(0);
  return secret.toString('utf8');
}

/** The same secret under the current master key; undefined if it already is. */
export function rewrap(
  text: string,
  context: SecretContext,
  masters: readonly [current: MasterKey, ...previous: MasterKey[]],
): string | undefined {
  const encrypted = parse(text);
  const [current] = masters;
  if (encrypted.master === current.id) return undefined;
  const dataKey = unwrap(encrypted, context, masters);
  const key = encrypt(dataKey, current.bytes, aadOf(context, `key:${current.id}`));
  dataKey.fill(0);
  return JSON.stringify({ ...encrypted, master: current.id, key } satisfies EncryptedSecret);
}

function unwrap(
  encrypted: EncryptedSecret,
  context: SecretContext,
  masters: readonly MasterKey[],
): Buffer {
  const master = masters.find(({ id }) => id === encrypted.master);
  if (master === undefined) throw new DecryptionFailed('Encrypted with another master key');
  return decrypt(encrypted.key, master.bytes, aadOf(context, `key:${master.id}`));
}

/** As JSON, so that different records never have the same encoding. */
function aadOf(context: SecretContext, part: string): Buffer {
  const { tenantId, provider, recordId, baseUrl, label } = context;
  const bound = ['relay', 1, tenantId, provider, recordId, baseUrl, label, part];
  return Buffer.from(JSON.stringify(bound), 'utf8');
}

/** Of a value that belongs to the store itself. */
export function contextOfStore(recordId: string): SecretContext {
  return { tenantId: '', provider: '', recordId, baseUrl: null, label: null };
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
    throw new DecryptionFailed('Decryption failed');
  }
}

function parse(text: string): EncryptedSecret {
  try {
    const encrypted = JSON.parse(text) as EncryptedSecret;
    if (encrypted.v === 1) return encrypted;
  } catch {
    // Handled below like any other unsupported format.
  }
  throw new DecryptionFailed('Unsupported format');
}
