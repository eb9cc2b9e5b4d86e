import { describe, expect, it } from 'vitest';
import {
  asServerLog,
  createLog,
  type LogLevel,
  type LogOptions,
} from '../../src/observability/log.ts';
import { settled } from '../support/journal.ts';

const now = () => new Date('2026-03-04T05:06:07.089Z');

function written(options: LogOptions = {}) {
  const lines: string[] = [];
  const log = createLog({ now, ...options, write: (text) => void lines.push(text) });
  return { log, lines };
}

describe('a log line', () => {
  it('is one JSON object with its fields', () => {
    const { log, lines } = written();
    log.warn('Something\nhappened', { runId: 'r1', code: 'storage_failed', nothing: undefined });
    expect(lines).toHaveLength(1);
    expect(lines[0]?.endsWith('\n')).toBe(true);
    expect(lines[0]?.trimEnd()).not.toContain('\n');
    expect(JSON.parse(lines[0] ?? '')).toEqual({
      time: '2026-03-04T05:06:07.089Z',
      level: 'warn',
      msg: 'Something\nhappened',
      runId: 'r1',
      code: 'storage_failed',
    });
  });

  it('cannot be forged by its fields', () => {
    const { log, lines } = written();
    log.error('real', { level: 'info', msg: 'forged', time: 'never' });
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'error', msg: 'real' });
  });

  it('holds no secret, neither in its message nor in its fields', () => {
    const { log, lines } = written();
    log.addSecret('correct horse');
    log.error('no sk-abcdefghij', { error: new Error('correct horse'), password: 'x' });
    expect(lines.join()).not.toMatch(/sk-abc|correct horse|"x"/);
  });

  it('holds no secret in the values of a format string', () => {
    const { log, lines } = written();
    log.addSecret('correct horse');
    log.fastify?.warn('failed with %s', 'correct horse');
    expect(lines.join()).toContain('failed with [redacted]');
  });

  it('is readable on a terminal', () => {
    const { log, lines } = written({ terminal: true });
    log.warn('A run was given up', { runId: 'r1', error: 'two words', more: { a: 1 } });
    expect(lines).toEqual([
      '05:06:07.089 warn  A run was given up runId=r1 error="two words" more={"a":1}\n',
    ]);
  });

  it('shows a stack below it on a terminal', () => {
    const { log, lines } = written({ terminal: true });
    log.error('Failed', { error: new Error('oh') });
    expect(lines[0]).toMatch(
      /^05:06:07.089 error Failed error=\{.*"oh".*\}\n {4}Error: oh\n {8}at /,
    );
  });

  it('shows the output of a program below it on a terminal, line by line', () => {
    const { log, lines } = written({ terminal: true });
    log.warn('It ended', { output: 'one\ntwo\u001b[2J', code: 1 });
    expect(lines).toEqual(['05:06:07.089 warn  It ended code=1\n    one\n    two\\u001b[2J\n']);
  });

  it('is short for a request on a terminal', async () => {
    const { log, lines } = written({ terminal: true });
    const request = { requestId: 'q', method: 'GET', route: '/v1/runs/:id', status: 200, ms: 3.4 };
    log.info('request', { ...request, tenantId: 't', caller: 'k', runId: 'r' });
    log.info('request', { ...request, route: null, status: 404, aborted: true });
    await settled();
    expect(lines.join('')).toBe(
      '05:06:07.089 info  GET /v1/runs/:id 200 3 ms\n' +
        '05:06:07.089 info  GET (no such route) 404 3 ms (closed by the client)\n',
    );
  });

  it('escapes control characters', () => {
    const { log, lines } = written({ terminal: true });
    log.warn('a\u001b[2Jb\u009bc', { name: 'x\u202Ey\r\n' });
    expect(lines.join().slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  });

  it('that cannot be written is dropped', () => {
    const log = createLog({
      write() {
        throw new Error('EPIPE');
      },
    });
    expect(() => log.error('x')).not.toThrow();
    const odd = {
      get field() {
        throw new Error('no');
      },
    };
    expect(() => written().log.warn('x', odd)).not.toThrow();
  });
});

describe('the level', () => {
  const loggedAt = async (level: LogLevel) => {
    const { log, lines } = written({ level });
    log.debug('debug');
    log.info('info');
    log.warn('warn');
    log.error('error');
    await settled();
    return lines
      .join('')
      .split('\n')
      .filter(Boolean)
      .map((line) => (JSON.parse(line) as { level: string }).level);
  };

  it.each([
    ['debug', ['debug', 'info', 'warn', 'error']],
    ['info', ['info', 'warn', 'error']],
    ['warn', ['warn', 'error']],
    ['error', ['error']],
    ['off', []],
  ] as const)('%s says %j, in order', async (level, levels) => {
    expect(await loggedAt(level)).toEqual(levels);
  });

  it('batches lines below warn', async () => {
    const { log, lines } = written();
    for (let n = 0; n < 100; n += 1) log.info(`${n}`);
    expect(lines).toEqual([]);
    await settled();
    expect(lines).toHaveLength(1);
    expect(lines[0]?.split('\n')).toHaveLength(101);
  });
});

it('wraps any log of the core', () => {
  const lines: string[] = [];
  const log = asServerLog({ warn: (text) => void lines.push(text), error: () => undefined });
  log.info('a');
  log.addSecret('b');
  log.warn('c');
  expect(lines).toEqual(['c']);
});
