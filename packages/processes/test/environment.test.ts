import { describe, expect, it } from 'vitest';
import { cleanEnvironment, refusedVariable } from '../src/environment.ts';

describe('the environment of a command', () => {
  it('has the harmless variables, and nothing else', () => {
    const env = {
      PATH: '/bin',
      LANG: 'C',
      LC_ALL: 'C',
      TZ: 'UTC',
      HOME: '/root',
      RELAY_MASTER_KEY: 'secret',
      OPENAI_API_KEY: 'secret',
      AWS_SECRET_ACCESS_KEY: 'secret',
      BASH_ENV: '/tmp/x',
      NODE_OPTIONS: '--require x',
      SSH_AUTH_SOCK: '/tmp/agent',
      LC_: 'x',
    };
    expect(cleanEnvironment({ env, pass: [], home: '/home', workspace: '/ws' })).toEqual({
      PATH: '/bin',
      LANG: 'C',
      LC_ALL: 'C',
      TZ: 'UTC',
      TERM: 'dumb',
      HOME: '/home',
    });
    expect(
      cleanEnvironment({ env, pass: ['SSH_AUTH_SOCK', 'NONE'], home: '/home', workspace: '/ws' }),
    ).toMatchObject({
      SSH_AUTH_SOCK: '/tmp/agent',
    });
  });

  it('always has a PATH', () => {
    expect(
      cleanEnvironment({ env: {}, pass: [], home: '/home', workspace: '/ws' })['PATH'],
    ).toContain('/usr/bin');
  });

  it('has no relative folder and no folder of the workspace in its PATH', () => {
    const pathOf = (PATH: string) =>
      cleanEnvironment({ env: { PATH }, pass: [], home: '/home', workspace: '/ws' });
    expect(
      pathOf('.:/bin::bin:/ws:/ws/node_modules/.bin:/wsx:/usr/../ws/a:/usr/bin'),
    ).toMatchObject({
      PATH: '/bin:/wsx:/usr/bin',
    });
    expect(pathOf(':.')['PATH']).toContain('/usr/bin');
  });

  it.each(['RELAY_MASTER_KEY', 'relay_x', 'BASH_ENV', 'LD_PRELOAD', 'PS4', 'a-b', '', 'A=B'])(
    'is never given %j',
    (name) => {
      expect(refusedVariable(name)).toBeDefined();
    },
  );

  it.each(['JAVA_HOME', 'SSH_AUTH_SOCK', 'HOME', '_x1'])('may be given %s', (name) => {
    expect(refusedVariable(name)).toBeUndefined();
  });
});
