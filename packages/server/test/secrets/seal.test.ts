import { randomBytes } from 'node:crypto';
import { readdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ownMasterKey, parseMasterKey } from '../../src/secrets/master-key.ts';
import {
  masterKeyOf,
  type SealContext,
  rewrap,
  seal,
  SealBroken,
  unseal,
} from '../../src/secrets/seal.ts';

const master = masterKeyOf(randomBytes(32));
const other = masterKeyOf(randomBytes(32));
const context: SealContext = { tenantId: 't1', provider: 'openai', recordId: 'r1' };

describe('a seal', () => {
  it('returns any secret unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (secret) => {
        expect(unseal(seal(secret, context, master), context, [master])).toBe(secret);
      }),
    );
  });

  it('reveals nothing of the secret and differs each time', () => {
    const [one, two] = [seal('sk-canary', context, master), seal('sk-canary', context, master)];
    expect(one).not.toContain('canary');
    expect(one).not.toContain(Buffer.from('sk-canary').toString('base64'));
    expect(JSON.parse(one)).not.toEqual(JSON.parse(two));
    const keys = [one, two].map((text) => (JSON.parse(text) as { key: unknown }).key);
    expect(keys[0]).not.toEqual(keys[1]);
  });

  it.each<[string, Partial<SealContext>]>([
    ['tenant', { tenantId: 't2' }],
    ['provider', { provider: 'anthropic' }],
    ['record', { recordId: 'r2' }],
  ])('does not open for another %s', (_, moved) => {
    const text = seal('sk-canary', context, master);
    expect(() => unseal(text, { ...context, ...moved }, [master])).toThrow(SealBroken);
  });

  it('does not confuse records with similar ids', () => {
    const text = seal('sk', { tenantId: 'a', provider: 'b"c', recordId: 'd' }, master);
    const alike = { tenantId: 'a","b', provider: 'c', recordId: 'd' };
    expect(() => unseal(text, alike, [master])).toThrow(SealBroken);
  });

  it('does not open with another master key', () => {
    expect(() => unseal(seal('sk', context, master), context, [other])).toThrow(
      'Sealed with another master key',
    );
  });

  it('detects every changed byte and every swapped part', () => {
    const text = seal('sk-canary', context, master);
    const parts = JSON.parse(text) as Record<string, Record<string, string>>;
    for (const box of ['key', 'secret']) {
      for (const field of ['iv', 'tag', 'data']) {
        const bytes = Buffer.from(parts[box]?.[field] ?? '', 'base64');
        bytes[0] = (bytes[0] ?? 0) ^ 1;
        const changed = structuredClone(parts);
        changed[box]![field] = bytes.toString('base64');
        expect(() => unseal(JSON.stringify(changed), context, [master])).toThrow(SealBroken);
      }
    }
    const another = JSON.parse(seal('sk-other', context, master)) as typeof parts;
    const mixed = { ...parts, key: another['key'] };
    expect(() => unseal(JSON.stringify(mixed), context, [master])).toThrow(SealBroken);
  });

  it.each(['', '{}', 'null', '{"v":2}', 'not json'])('is not %j', (text) => {
    expect(() => unseal(text, context, [master])).toThrow(SealBroken);
  });
});

describe('a new master key', () => {
  it('rewraps a secret, which the old key cannot unseal any more', () => {
    const text = seal('sk-canary', context, master);
    const again = rewrap(text, context, [other, master]);
    expect(unseal(again ?? '', context, [other])).toBe('sk-canary');
    expect(() => unseal(again ?? '', context, [master])).toThrow(SealBroken);
    expect(rewrap(again ?? '', context, [other, master])).toBeUndefined();
  });

  it('cannot unseal secrets of the old key', () => {
    expect(() => rewrap(seal('sk', context, master), context, [other])).toThrow(SealBroken);
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
});
