import { describe, expect, it } from 'vitest';
import { SecretRedactor, secretsOf } from '../../src/mcp/secrets.ts';

describe('the secrets of an MCP server', () => {
  it('are its headers, and the variables whose names say so', () => {
    expect(
      secretsOf({ url: 'https://x.example', headers: { a: 'Bearer abcdefgh', b: 'x' } }),
    ).toEqual(['Bearer abcdefgh', 'abcdefgh']);
    const env = { GITHUB_TOKEN: 'ghp_12345678', LANG: 'en_US.UTF-8', API_KEY: 'short' };
    expect(secretsOf({ command: 'x', env })).toEqual(['ghp_12345678']);
    expect(secretsOf({ command: 'x' })).toEqual([]);
  });

  it.each(['GITHUB_PAT', 'PGPASS', 'DB_PWD', 'SENTRY_DSN', 'SESSION_COOKIE'])(
    'are in a variable named %s',
    (name) => {
      expect(secretsOf({ command: 'x', env: { [name]: 'a-secret-value' } })).toEqual([
        'a-secret-value',
      ]);
    },
  );

  it.each(['COMPATIBLE', 'PATH_TO_DOCS'])('are not in a variable named %s', (name) => {
    expect(secretsOf({ command: 'x', env: { [name]: 'a-plain-value' } })).toEqual([]);
  });

  it('are the passwords and keys in a URL, encoded and decoded', () => {
    const url = 'https://me:pass%2Fword@x.example/mcp?api_key=key%20of%20mine&profile=developer';
    const secrets = ['pass%2Fword', 'pass/word', 'key%20of%20mine', 'key of mine'];
    expect(secretsOf({ url })).toEqual(secrets);
    expect(secretsOf({ command: 'x', env: { DATABASE: url } })).toEqual(secrets);
    expect(secretsOf({ url: 'https://x.example/mcp?token' })).toEqual([]);
  });

  it('are redacted in texts, results and errors, also escaped in JSON', () => {
    const redactor = new SecretRedactor({ command: 'x', env: { TOKEN: 'quo"ted\\secret' } });
    expect(redactor.text('it is quo"ted\\secret.')).toBe('it is [redacted].');
    const result = { deep: [{ 'quo"ted\\secret': 'a quo"ted\\secret' }] };
    expect(redactor.output({ context: 'fine', result })).toEqual({
      context: 'fine',
      result: { deep: [{ '[redacted]': 'a [redacted]' }] },
    });
    expect(redactor.error(new Error('bad quo"ted\\secret'))).toEqual(new Error('bad [redacted]'));
    const other = new TypeError('fine');
    expect(redactor.error(other)).toBe(other);
    expect(redactor.error('thrown')).toBe('thrown');
  });
});
