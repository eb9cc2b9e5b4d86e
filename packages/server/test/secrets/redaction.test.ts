import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeApiKey } from '../../src/secrets/keys.ts';
import { Redactor } from '../../src/secrets/redaction.ts';

describe('a secret', () => {
  it('is not shown in part where a long text is truncated', () => {
    const redactor = new Redactor();
    const secret = 'hunter2-hunter2-hunter2-hunter2-hunter2';
    redactor.addSecret(secret);
    for (const before of [16_384 - 30, 24_576 - 20, 24_576 - 5]) {
      const text = `${'x '.repeat(before / 2)}${secret}${' y'.repeat(20_000)}`;
      expect(redactor.text(text)).not.toContain('hunter2');
      expect(redactor.text(`${secret} `.repeat(2_000))).not.toContain('hunter2');
    }
    expect(redactor.text('z'.repeat(16_384))).toHaveLength(16_384);
    expect(redactor.text('z'.repeat(16_385))).toBe(`${'z'.repeat(16_384)}…`);
  });

  it.each([
    makeApiKey(),
    'relay_sess_0123',
    'sk-proj-abcdefghijklmnop',
    'sk-ant-api03-abcdefghijklmnopqrstuv-wxyz',
    `AIza${'x'.repeat(35)}`,
    'AKIAABCDEFGHIJKLMNOP',
    `ghp_${'a'.repeat(36)}`,
    'xoxb-1234567890-abcdef',
    `eyJ${'a'.repeat(20)}.eyJ${'b'.repeat(20)}.${'c'.repeat(43)}`,
    '-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----',
    'postgres://ada:hunter2@db.example/relay',
  ])('is hidden by its form: %s', (secret) => {
    const shown = new Redactor().text(`before ${secret} after`);
    expect(shown).toContain('[redacted]');
    expect(shown.startsWith('before ')).toBe(true);
    expect(shown.endsWith('after')).toBe(true);
    for (let at = 0; at + 12 <= secret.length; at += 12) {
      expect(shown).not.toContain(secret.slice(at, at + 12));
    }
  });

  it.each(['Bearer', 'bearer', 'Internal', 'Basic'])('is hidden behind %s', (scheme) => {
    expect(new Redactor().text(`authorization: ${scheme} abc.def, x`)).toBe(
      `authorization: ${scheme} [redacted], x`,
    );
  });

  it.each(['authorization', 'Cookie', 'apiKey', 'api_key', 'password', 'token', 'sealed'])(
    'is hidden in a field named %s, whatever it looks like',
    (name) => {
      expect(new Redactor().clean({ deep: { [name]: ['hunter2'] } })).toEqual({
        deep: { [name]: '[redacted]' },
      });
    },
  );

  it('that was used is redacted at every occurrence', () => {
    const redactor = new Redactor();
    redactor.addSecret('hunter2-is-mine');
    expect(redactor.text('xhunter2-is-minexhunter2-is-mine')).toBe('x[redacted]x[redacted]');
    expect(redactor.clean({ 'hunter2-is-mine': [new Error('no hunter2-is-mine')] })).toEqual({
      '[redacted]': [expect.objectContaining({ message: 'no [redacted]' })],
    });
  });

  it('is redacted as encoded in JSON and in a URL', () => {
    const redactor = new Redactor();
    const secret = 'a "quoted" sécret\n';
    redactor.addSecret(secret);
    for (const shown of [secret, JSON.stringify(secret), encodeURIComponent(secret)]) {
      expect(redactor.text(`<${shown}>`)).not.toMatch(/quoted|cret/);
    }
  });

  it('is redacted entirely if it starts with another secret', () => {
    const redactor = new Redactor();
    redactor.addSecret('secret-1');
    redactor.addSecret('secret-1-and-more');
    expect(redactor.text('secret-1-and-more')).toBe('[redacted]');
    expect(redactor.text('secret-1-and')).toBe('[redacted]-and');
  });

  it('never survives, whatever surrounds it', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 6, maxLength: 40 }),
        fc.array(fc.string()),
        (key, parts) => {
          const redactor = new Redactor();
          redactor.addSecret(key);
          fc.pre(!'[redacted]'.includes(key));
          const shown = redactor.text(parts.join(key)).split('[redacted]');
          for (const part of shown) expect(part.includes(key)).toBe(false);
        },
      ),
    );
  });
});

describe('text without a secret', () => {
  it.each([
    'The run 01963a5c-7890-7abc-8ef0-000000000001 was given up',
    'task-force and desk-top and risk-free',
    'ENOENT: no such file or directory',
    'a bear in the internals',
  ])('stays as it is: %s', (text) => {
    expect(new Redactor().text(text)).toBe(text);
  });

  it('includes words that are too short to be secrets', () => {
    const redactor = new Redactor();
    redactor.addSecret('run');
    expect(redactor.text('a run')).toBe('a run');
  });
});

describe('a value', () => {
  it('becomes plain data', () => {
    const circular: Record<string, unknown> = { big: 10n, fn: () => 1, nothing: undefined };
    circular['self'] = circular;
    expect(JSON.stringify(new Redactor().clean(circular))).toContain('[nested]');
    expect(new Redactor().clean({ list: Array.from({ length: 500 }, (_, n) => n) })).toMatchObject({
      list: { length: 100 },
    });
  });

  it('keeps the cause and the stack of an error', () => {
    const error = new Error('outer', { cause: Object.assign(new Error('inner'), { code: 'E1' }) });
    expect(new Redactor().clean({ error })).toEqual({
      error: {
        name: 'Error',
        message: 'outer',
        stack: expect.stringContaining('redaction.test.ts'),
        cause: expect.objectContaining({ message: 'inner', code: 'E1' }),
      },
    });
  });

  it('is truncated if it is very long', () => {
    expect(new Redactor().text('x'.repeat(100_000)).length).toBeLessThan(17_000);
  });
});

it('keeps a bounded number of secrets, the newest ones', () => {
  const redactor = new Redactor();
  for (let n = 0; n < 25_000; n += 1) redactor.addSecret(`secret-number-${n}-end`);
  expect(redactor.text('secret-number-24999-end')).toBe('[redacted]');
  expect(redactor.text('secret-number-1-end')).toBe('secret-number-1-end');
});

it('scans a text once, however many secrets are known', () => {
  const line = 'GET /v1/runs/:id 200 in 3 ms '.repeat(5);
  const cost = (secrets: number) => {
    const redactor = new Redactor();
    for (let n = 0; n < secrets; n += 1) redactor.addSecret(`${n}-${Math.random()}`);
    const times = Array.from({ length: 5 }, () => {
      const since = performance.now();
      for (let n = 0; n < 200; n += 1) redactor.text(line);
      return performance.now() - since;
    });
    return Math.min(...times);
  };
  cost(10);
  expect(cost(10_000)).toBeLessThan(50 * cost(10));
});

describe('what a tool returned', () => {
  it('has no known keys and no keys of Relay, and stays as it is otherwise', () => {
    const redactor = new Redactor();
    redactor.addSecret('a-known-"key"-0123');
    redactor.addSecret('postgres');
    const own = `relay_live_${'x1'.repeat(22)}`;
    const text = `Basic authentication of postgres, ${'long '.repeat(10_000)}sk-example-not-a-key`;
    expect(redactor.withoutKeys(text)).toBe(text);
    expect(redactor.withoutKeys(`a-known-"key"-0123a-known-"key"-0123 ${own}!`)).toBe(
      '[redacted][redacted] [redacted]!',
    );
    const json = JSON.stringify({ deep: ['a-known-"key"-0123'] });
    expect(JSON.parse(redactor.withoutKeys(json))).toEqual({ deep: ['[redacted]'] });
  });
});
