import { describe, expect, it } from 'vitest';
import { bashSettings } from '../../src/config/config-file.ts';

const there = () => undefined;
const missing = () => 'bubblewrap is not installed (no bwrap on the PATH)';
const open = { sandbox: undefined };

describe('bashSettings', () => {
  it('has no sandbox by default and does not look for one', () => {
    expect(bashSettings(open, undefined, missing)).toEqual({
      sandbox: undefined,
      network: false,
      environment: [],
    });
  });

  it('prefers the environment to the file', () => {
    const file = { sandbox: 'bwrap', network: true, environment: ['JAVA_HOME'] } as const;
    expect(bashSettings(open, file, there)).toEqual(file);
    expect(bashSettings({ sandbox: 'bwrap' }, {}, there)).toMatchObject({ sandbox: 'bwrap' });
  });

  it.each([
    ['RELAY_SANDBOX is bwrap, but bubblewrap is not installed', { sandbox: 'bwrap' }, {}],
    ['relay.config: bash.sandbox is bwrap, but', open, { sandbox: 'bwrap' }],
    ['bash.network requires bash.sandbox', open, { network: true }],
    ['bash.environment[1]: RELAY_X may hold a secret', open, { environment: ['A', 'RELAY_X'] }],
    ['bash.environment[0]', open, { environment: ['LD_PRELOAD'] }],
  ] as const)('stops the start: %s', (message, config, file) => {
    expect(() => bashSettings(config, file, missing)).toThrow(message);
  });
});
