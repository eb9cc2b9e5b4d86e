import { describe, expect, test } from 'vitest';
import { fakeEnvironment, settled } from '../support/environment.ts';
import { type Completion, Interrupted, Terminal } from '../../src/chat/terminal.ts';

function open(isTTY: boolean, columns = 80) {
  const environment = fakeEnvironment({ isTTY, columns });
  const terminal = new Terminal(environment, environment.stdout);
  return { environment, terminal, types: (text: string) => void environment.stdin.write(text) };
}

const ctrlC = '\u0003';
const ctrlD = '\u0004';
const escape = '\u001B';
const pasteMode = `${escape}[?2004h`;
const paste = (text: string) => `${escape}[200~${text}${escape}[201~`;
const altEnter = `${escape}\r`;

describe('Terminal', () => {
  test('brings back a message of several lines as a whole, and no answer', async () => {
    const { terminal, types } = open(true);
    const says = async (text: string, options = {}) => {
      const asked = terminal.ask({ prompt: 'you › ', ...options });
      await settled();
      types(text);
      return asked;
    };
    const up = `${escape}[A`;
    expect(await says('before\r')).toBe('before');
    expect(await says(`one${altEnter}two\\\rthree\r`)).toBe('one\ntwo\nthree');
    expect(await says('y\r', { fresh: true })).toBe('y');
    expect(await says(`${up}!\r`)).toBe('one\ntwo\nthree!');
    expect(await says(`${up}\r`)).toBe('one\ntwo\nthree!');
    terminal.close();
  });

  test('echoes input at a prompt only', async () => {
    const { terminal, types, environment } = open(true);
    types('secretly');
    await settled();
    expect(environment.out()).toBe(pasteMode);
    const asked = terminal.ask({ prompt: 'you › ' });
    await settled();
    // Text typed before the prompt can be continued.
    expect(environment.out()).toContain('you › ');
    expect(environment.out()).toContain('secretly');
    types(' typed\r');
    expect(await asked).toBe('secretly typed');
    terminal.close();
  });

  test('keeps lines for the next messages in order', async () => {
    const { terminal, types } = open(true);
    types('one\rtwo\r');
    await settled();
    expect(await terminal.ask({ prompt: '› ' })).toBe('one');
    expect(await terminal.ask({ prompt: '› ' })).toBe('two');
    terminal.close();
  });

  test('shows an open prompt again, with its input, below a note', async () => {
    const { terminal, types, environment } = open(true);
    const note = () => terminal.writeAbove(() => void environment.stdout.write('(note)\n'));
    note();
    expect(environment.out()).toBe(`${pasteMode}(note)\n`);
    const asked = terminal.ask({ prompt: '[o]nce > ', fresh: true });
    await settled();
    types('ha');
    await settled();
    const before = environment.out().length;
    note();
    await settled();
    expect(environment.out().slice(before)).toMatch(/^\n\(note\)\n.*\[o\]nce > ha/);
    types('lf\r');
    expect(await asked).toBe('half');
    terminal.close();
  });

  test('replaces an open prompt, but not one at which something was typed', async () => {
    const { terminal, types, environment } = open(true);
    expect(terminal.replacePrompt('@bob › ')).toBe(false);
    const asked = terminal.ask({ prompt: '@ada › ' });
    await settled();
    expect(terminal.replacePrompt('@bob › ')).toBe(true);
    terminal.writeAbove(() => void environment.stdout.write('(note)\n'));
    await settled();
    expect(environment.out()).toContain('@bob › ');
    types('Hi');
    await settled();
    expect(terminal.replacePrompt('@eve › ')).toBe(false);
    terminal.writeAbove(() => void environment.stdout.write('(note)\n'));
    types('\r');
    expect(await asked).toBe('Hi');
    expect(environment.out()).not.toContain('@eve');
    terminal.close();
  });

  test('does not answer a fresh prompt with earlier input', async () => {
    const { terminal, types, environment } = open(true);
    types('a\rhalf a li');
    await settled();
    const asked = terminal.ask({ prompt: '[o]nce > ', fresh: true });
    await settled();
    types('d\r');
    expect(await asked).toBe('d');
    // The earlier line was meant for something else: it is no message either.
    expect(environment.out()).toContain('typed before this request: a\n');
    const message = terminal.ask({ prompt: '› ' });
    types('b\r');
    expect(await message).toBe('b');
    terminal.close();
  });

  test('discards what is typed for a prompt that was closed, before the next one opens', async () => {
    const environment = fakeEnvironment({ isTTY: true });
    const pauses: (() => void)[] = [];
    const wait = (ms: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        expect(ms).toBeGreaterThan(500);
        pauses.push(resolve);
        signal?.addEventListener('abort', () => reject(new Error('aborted')));
      });
    const terminal = new Terminal(environment, environment.stdout, { wait });
    const types = async (text: string) => {
      environment.stdin.write(text);
      await settled();
    };
    await types('a message\r');
    const prompt = '[y]es > ';
    const first = new AbortController();
    const asked = terminal.ask({ prompt, fresh: true, signal: first.signal });
    first.abort(new Error('decided by Ada'));
    await expect(asked).rejects.toThrow('decided by Ada');
    // Not for this prompt: it is said that it is ignored.
    await types('another message\r');
    const second = new AbortController();
    const next = terminal.ask({ prompt, fresh: true, signal: second.signal });
    await settled();
    expect(environment.out()).toContain('typed before this request: another message\n');
    await types('y\ry');
    expect(environment.out()).toContain('of the next second is ignored');
    // The next one can be closed as well before it opens.
    second.abort(new Error('decided by Bob'));
    await expect(next).rejects.toThrow('decided by Bob');
    const third = terminal.ask({ prompt, fresh: true });
    await types('y\ry');
    pauses[1]?.();
    await settled();
    await types('n\r');
    expect(await third).toBe('n');
    // An answered prompt is not a closed one.
    const fourth = terminal.ask({ prompt, fresh: true });
    await types('y\r');
    expect(await fourth).toBe('y');
    expect(pauses).toHaveLength(2);
    expect(environment.out()).toContain('typed before this request: a message\n');
    terminal.close();
  });

  test('does not overwrite text above a prompt that is wider than the screen', async () => {
    const { terminal, types, environment } = open(true, 20);
    const goesUp = new RegExp(`${escape}\\[\\d+A`);
    types('begun before, and long enough for several rows of the screen');
    for (const line of ['yes', 'o']) {
      const before = environment.out().length;
      const asked = terminal.ask({ prompt: '[o]nce  [a]lways  [e]dit  [d]eny > ', fresh: true });
      await settled();
      expect(environment.out().slice(before)).not.toMatch(goesUp);
      types(`${line}\r`);
      expect(await asked).toBe(line);
    }
    const asked = terminal.ask({ prompt: 'you › ' });
    await settled();
    types('a line of more than twenty letters');
    await settled();
    const before = environment.out().length;
    types(ctrlC);
    await settled();
    expect(environment.out().slice(before)).toMatch(/^\^C\n/);
    expect(environment.out().slice(before)).not.toMatch(goesUp);
    types('next\r');
    expect(await asked).toBe('next');
    terminal.close();
  });

  test('redraws a line from its start when the screen becomes narrower', async () => {
    const { terminal, types, environment } = open(true, 40);
    const asked = terminal.ask({ prompt: '> ' });
    types('a line of about thirty letters');
    await settled();
    const before = environment.out().length;
    Object.assign(environment.stdout, { columns: 20 });
    environment.stdout.emit('resize');
    await settled();
    expect(environment.out().slice(before).startsWith(`${escape}[1A`)).toBe(true);
    types('\r');
    expect(await asked).toBe('a line of about thirty letters');
    terminal.close();
  });

  test('offers text to edit', async () => {
    const { terminal, types } = open(true);
    const asked = terminal.ask({ prompt: '> ', prefill: '{"a":1}', fresh: true });
    await settled();
    types('\u007F\u007F2}\r');
    expect(await asked).toBe('{"a":2}');
    terminal.close();
  });

  test('Ctrl-C discards the line first, then interrupts the prompt', async () => {
    const { terminal, types, environment } = open(true);
    const asked = terminal.ask({ prompt: '› ' });
    await settled();
    types(`half${ctrlC}`);
    await settled();
    expect(environment.out()).toContain('^C');
    types(ctrlC);
    await expect(asked).rejects.toThrow(Interrupted);
    terminal.close();
  });

  test('Ctrl-C without a prompt calls onInterrupt', async () => {
    const { terminal, types } = open(true);
    let interrupts = 0;
    terminal.onInterrupt = () => (interrupts += 1);
    types(ctrlC);
    await settled();
    expect(interrupts).toBe(1);
    terminal.close();
  });

  test('Ctrl-D ends the input', async () => {
    const { terminal, types } = open(true);
    const asked = terminal.ask({ prompt: '› ' });
    await settled();
    types(ctrlD);
    expect(await asked).toBeUndefined();
    expect(await terminal.ask({ prompt: '› ' })).toBeUndefined();
  });

  test('pasted lines, and those that end with a backslash or Alt-Enter, are one message', async () => {
    const { terminal, types, environment } = open(true);
    const asked = terminal.ask({ prompt: '› ' });
    types(`see ${paste('one\rtwo\r\tthree')}`);
    await settled();
    expect(environment.out()).toContain('… ');
    types(' ends\\\r');
    await settled();
    types(`here${altEnter}`);
    await settled();
    types('now\r');
    expect(await asked).toBe('see one\ntwo\n\tthree ends\nhere\nnow');
    expect(terminal.pasted).toEqual(['one\ntwo\n\tthree']);
    // The same while an answer streams.
    types(`${paste('four\rfive')}\r`);
    await settled();
    expect(await terminal.ask({ prompt: '› ' })).toBe('four\nfive');
    terminal.close();
    expect(environment.out().endsWith(`${escape}[?2004l`)).toBe(true);
  });

  test.each([
    ['the history', '', `${escape}[A`],
    ['what was cut', '\u0015next', '\u0015\u0019\u001By'],
  ])('pasted text that comes back from %s still counts as pasted', async (_, before, keys) => {
    const { terminal, types } = open(true);
    types(`${paste('see @secret.env')}${before}\r`);
    await settled();
    await terminal.ask({ prompt: '› ' });
    types(`${keys}\r`);
    await settled();
    expect(await terminal.ask({ prompt: '› ' })).toBe('see @secret.env');
    expect(terminal.pasted).toEqual(['see @secret.env']);
    types('see @secret.env\r');
    await settled();
    expect(await terminal.ask({ prompt: '› ' })).toBe('see @secret.env');
    expect(terminal.pasted).toEqual([]);
    terminal.close();
  });

  test('pasted lines do not answer an approval prompt one by one', async () => {
    const { terminal, types } = open(true);
    const asked = terminal.ask({ prompt: '[y]es > ', fresh: true });
    await settled();
    types(`${paste('y\ry')}\r`);
    expect(await asked).toBe('y\ny');
    terminal.close();
  });

  test('the Tab key completes a line', async () => {
    const { terminal, types } = open(true);
    const complete = (line: string): Completion => [
      ['/model '].filter((c) => c.startsWith(line)),
      line,
    ];
    const asked = terminal.ask({ prompt: '› ', complete });
    await settled();
    types('/mo');
    await settled();
    types('\t');
    await settled();
    types('x\r');
    expect(await asked).toBe('/model x');
    terminal.close();
  });

  test('Ctrl-C ends a cancelable prompt with its text', async () => {
    const { terminal, types } = open(true);
    const asked = terminal.ask({ prompt: '> ', prefill: '{}', fresh: true, cancelable: true });
    await settled();
    types(ctrlC);
    await expect(asked).rejects.toThrow(Interrupted);
    const next = terminal.ask({ prompt: '› ' });
    await settled();
    types('hi\r');
    expect(await next).toBe('hi');
    terminal.close();
  });

  test('an aborted prompt is closed and its input discarded', async () => {
    const { terminal, types } = open(true);
    const dismissal = new AbortController();
    const asked = terminal.ask({ prompt: '[o]nce > ', fresh: true, signal: dismissal.signal });
    await settled();
    types('ye');
    await settled();
    dismissal.abort(new Error('answered elsewhere'));
    await expect(asked).rejects.toThrow('answered elsewhere');
    const next = terminal.ask({ prompt: '› ' });
    await settled();
    types('hello\r');
    expect(await next).toBe('hello');
    await expect(terminal.ask({ prompt: '', signal: dismissal.signal })).rejects.toThrow(
      'elsewhere',
    );
    terminal.close();
  });
});

describe('Terminal on a pipe', () => {
  test('returns its lines in order, as messages and answers, and then ends', async () => {
    const { terminal, environment } = open(false);
    environment.stdin.end('first\no\nlast');
    expect(await terminal.ask({ prompt: '› ' })).toBe('first');
    expect(await terminal.ask({ prompt: '[o]nce > ', fresh: true })).toBe('o');
    expect(await terminal.ask({ prompt: '› ' })).toBe('last');
    expect(await terminal.ask({ prompt: '› ' })).toBeUndefined();
    // No prompts are written.
    expect(environment.out()).toBe('');
  });
});
