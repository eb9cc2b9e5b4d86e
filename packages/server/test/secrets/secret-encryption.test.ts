import { randomBytes } from 'node:crypto';
import { readdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ownMasterKey, parseMasterKey } from '../../src/secrets/master-key.ts';
import {
  masterKeyOf,
  type SecretContext,
  rewrap,
  encryptSecret,
  DecryptionFailed,
  decryptSecret,
} from '../../src/secrets/secret-encryption.ts';

const master = masterKeyOf(randomBytes(32));
const other = masterKeyOf(randomBytes(32));
const context: SecretContext = {
  tenantId: 't1',
  provider: 'openai',
  recordId: 'r1',
  baseUrl: 'https://api.example',
  label: null,
};

describe('an encrypted secret', () => {
  it('returns any secret unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (secret) => {
        expect(decryptSecret(encryptSecret(secret, context, master), context, [master])).toBe(
          secret,
        );
      }),
    );
  });

  it('reveals nothing of the secret and differs each time', () => {
    const [one, two] = [
      encryptSecret('sk-canary', context, master),
      encryptSecret('sk-canary', context, master),
    ];
    expect(one).not.toContain('canary');
    expect(one).not.toContain(Buffer.from('sk-canary').toString('base64'));
    expect(JSON.parse(one)).not.toEqual(JSON.parse(two));
    const keys = [one, two].map((text) => (JSON.parse(text) as { key: unknown }).key);
    expect(keys[0]).not.toEqual(keys[1]);
  });

  it.each<[string, Partial<SecretContext>]>([
    ['tenant', { tenantId: 't2' }],
    ['provider', { provider: 'anthropic' }],
    ['record', { recordId: 'r2' }],
    ['base URL', { baseUrl: 'https://evil.example' }],
    ['base URL, such as the default one', { baseUrl: null }],
    ['label', { label: 'other' }],
  ])('does not open for another %s', (_, moved) => {
    const text = encryptSecret('sk-canary', context, master);
    expect(() => decryptSecret(text, { ...context, ...moved }, [master])).toThrow(DecryptionFailed);
  });

  it('does not confuse records with similar ids', () => {
    const bound = { ...context, recordId: 'd' };
    const text = encryptSecret('sk', { ...bound, tenantId: 'a', provider: 'b"c' }, master);
    const alike = { ...bound, tenantId: 'a","b', provider: 'c' };
    expect(() => decryptSecret(text, alike, [master])).toThrow(DecryptionFailed);
  });

  it('does not open with another master key', () => {
    expect(() => decryptSecret(encryptSecret('sk', context, master), context, [other])).toThrow(
      'Encrypted with another master key',
    );
  });

  it('detects every changed byte and every swapped part', () => {
    const text = encryptSecret('sk-canary', context, master);
    const parts = JSON.parse(text) as Record<string, Record<string, string>>;
    for (const box of ['key', 'secret']) {
      for (const field of ['iv', 'tag', 'data']) {
        const bytes = Buffer.from(parts[box]?.[field] ?? '', 'base64');
        bytes[0] = (bytes[0] ?? 0) ^ 1;
        const changed = structuredClone(parts);
        changed[box]![field] = bytes.toString('base64');
        expect(() => decryptSecret(JSON.stringify(changed), context, [master])).toThrow(
          DecryptionFailed,
        );
      }
    }
    const another = JSON.parse(encryptSecret('sk-other', context, master)) as typeof parts;
    const mixed = { ...parts, key: another['key'] };
    expect(() => decryptSecret(JSON.stringify(mixed), context, [master])).toThrow(DecryptionFailed);
  });

  it.each(['', '{}', 'null', '{"v":2}', 'not json'])('is not %j', (text) => {
    expect(() => decryptSecret(text, context, [master])).toThrow(DecryptionFailed);
  });
});

describe('a new master key', () => {
  it('rewraps a secret, which the old key cannot decrypt any more', () => {
    const text = encryptSecret('sk-canary', context, master);
    const again = rewrap(text, context, [other, master]);
    expect(decryptSecret(again ?? '', context, [other])).toBe('sk-canary');
    expect(() => decryptSecret(again ?? '', context, [master])).toThrow(DecryptionFailed);
    expect(rewrap(again ?? '', context, [other, master])).toBeUndefined();
  });

  it('cannot decrypt secrets of the old key', () => {
    expect(() => rewrap(encryptSecret('sk', context, master), context, [other])).toThrow(
      DecryptionFailed,
    );
  });
});

describe('a master key', () => {
  const bytes = randomBytes(32);

  it.each([
    ['hex', bytes.toString('hex')],
    ['HEX', bytes.toString('hex').toUpperCase()],
    ['base64', bytes.toString('base64')],
    ['base64 without its end', bytes.toString('base64').replace('=', '')],
    ['base64url', bytes.toString('base64url')],
  ])('is read from %s', (_, text) => {
    expect(parseMasterKey('KEY', text)).toEqual(masterKeyOf(bytes));
  });

  it.each(['', 'short', 'g'.repeat(64), randomBytes(31).toString('base64'), 'a'.repeat(65)])(
    'is not %j',
    (text) => {
      expect(() => parseMasterKey('RELAY_MASTER_KEY', text)).toThrow(
        'RELAY_MASTER_KEY must be 32 bytes, as 64 hexadecimal digits or in base64',
      );
    },
  );

  it('never shows in an error', () => {
    const text = 'not-a-key-but-secret-all-the-same';
    expect(() => parseMasterKey('KEY', text)).toThrow(
      expect.not.objectContaining({ message: text }),
    );
  });

  it('is created once in the data folder, readable by its owner only', () => {
    const dir = mkdtempSync(join(tmpdir(), 'relay-master-'));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    const first = ownMasterKey(dir);
    const path = join(dir, 'master-key');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(dir)).toEqual(['master-key']);
    expect(ownMasterKey(dir)).toEqual(first);
    expect(readFileSync(path, 'utf8')).not.toContain(first.id);
    writeFileSync(path, 'damaged');
    expect(() => ownMasterKey(dir)).toThrow(/master-key must be 32 bytes/);
  });

  it('is not created beside a store, whose key is another one, unless it replaces that', () => {
    const dir = mkdtempSync(join(tmpdir(), 'relay-master-'));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    writeFileSync(join(dir, 'relay.db'), '');
    expect(() => ownMasterKey(dir)).toThrow(/master-key is missing, and RELAY_MASTER_KEY is not/);
    expect(readdirSync(dir)).toEqual(['relay.db']);
    ownMasterKey(dir, { isNew: true });
    expect(readdirSync(dir)).toEqual(['master-key', 'relay.db']);
  });
});
