import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { rowAuthenticator } from '../../src/secrets/row-authenticator.ts';
import { masterKeyOf } from '../../src/secrets/secret-encryption.ts';

const [first, second] = [masterKeyOf(randomBytes(32)), masterKeyOf(randomBytes(32))];

describe('the code of a row', () => {
  const rows = rowAuthenticator([first]);
  const mac = rows.sign('row');

  it('is valid for its text alone', () => {
    expect(rows.verify('row', mac)).toBe(true);
    expect(rows.verify('Row', mac)).toBe(false);
    expect(rows.sign('row')).toBe(mac);
  });

  it('cannot be shortened, emptied or taken from another key', () => {
    const [id = '', code = ''] = mac.split('.');
    const forged = [
      '',
      '.',
      id,
      `${id}.`,
      `${id}.${code.slice(0, 8)}`,
      code,
      `${mac}A`,
      `${mac}.x`,
    ];
    for (const text of [...forged, rowAuthenticator([second]).sign('row')]) {
      expect(rows.verify('row', text), text).toBe(false);
    }
    expect(rows.verify('row', `${second.id}.${code}`)).toBe(false);
  });

  it('stays valid while its master key is the previous one', () => {
    const both = rowAuthenticator([second, first]);
    expect([both.verify('row', mac), both.isCurrent(mac)]).toEqual([true, false]);
    const anew = both.sign('row');
    expect([both.isCurrent(anew), rows.verify('row', anew)]).toEqual([true, false]);
    expect(rowAuthenticator([second]).verify('row', mac)).toBe(false);
    expect(rowAuthenticator([second]).verify('row', anew)).toBe(true);
  });
});
