import { describe, expect, test } from 'vitest';
import { fakeWorld, settled } from '../support/fake-world.ts';
import { Interrupted, Terminal } from '../../src/chat/terminal.ts';

function scene(isTTY: boolean, columns = 80) {
  const world = fakeWorld({ isTTY, columns });
  const terminal = new Terminal(world, world.stdout);
  return { world, terminal, types: (text: string) => void world.stdin.write(text) };
}

const ctrlC = '\u0003';
const ctrlD = '\u0004';
const escape = '\u001B';

describe('a terminal', () => {
  test('shows what is typed at a prompt, and nothing of it while nothing is asked', async () => {
    const { terminal, types, world } = scene(true);
    types('secretly');
    await settled();
    expect(world.out()).toBe('');
    const asked = terminal.ask({ prompt: 'you › ' });
    await settled();
    // What was begun is there to be finished.
    expect(world.out()).toContain('you › ');
    expect(world.out()).toContain('secretly');
    types(' typed\r');
    expect(await asked).toBe('secretly typed');
    terminal.close();
  });

  test('keeps lines for the next message in the order in which they were typed', async () => {
    const { terminal, types } = scene(true);
    types('one\rtwo\r');
    await settled();
    expect(await terminal.ask({ prompt: '› ' })).toBe('one');
    expect(await terminal.ask({ prompt: '› ' })).toBe('two');
    terminal.close();
  });

  test('shows a question again, with what is typed already, below what is said beside it', async () => {
    const { terminal, types, world } = scene(true);
    const say = () => terminal.beside(() => void world.stdout.write('(by the way)\n'));
    say();
    expect(world.out()).toBe('(by the way)\n');
    const asked = terminal.ask({ prompt: '[o]nce > ', fresh: true });
    await settled();
    types('ha');
    await settled();
    const before = world.out().length;
    say();
    await settled();
    expect(world.out().slice(before)).toMatch(/^\n\(by the way\)\n.*\[o\]nce > ha/);
    types('lf\r');
    expect(await asked).toBe('half');
    terminal.close();
  });

  test('lets nothing that was typed before a question answer it', async () => {
    const { terminal, types } = scene(true);
    types('a\rhalf a li');
    await settled();
    const asked = terminal.ask({ prompt: '[o]nce > ', fresh: true });
    await settled();
    types('d\r');
    expect(await asked).toBe('d');
    // The line from before is still a message.
    expect(await terminal.ask({ prompt: '› ' })).toBe('a');
    terminal.close();
  });

  test('leaves alone what stands above a question that is wider than the screen', async () => {
    const { terminal, types, world } = scene(true, 20);
    const goesUp = new RegExp(`${escape}\\[\\d+A`);
    types('begun before, and long enough for several rows of the screen');
    for (const line of ['yes', 'o']) {
      const before = world.out().length;
      const asked = terminal.ask({ prompt: '[o]nce  [a]lways  [e]dit  [d]eny > ', fresh: true });
      await settled();
      expect(world.out().slice(before)).not.toMatch(goesUp);
      types(`${line}\r`);
      expect(await asked).toBe(line);
    }
    const asked = terminal.ask({ prompt: 'you › ' });
    await settled();
    types('a line of more than twenty letters');
    await settled();
    const before = world.out().length;
    types(ctrlC);
    await settled();
    expect(world.out().slice(before)).toMatch(/^\^C\n/);
    expect(world.out().slice(before)).not.toMatch(goesUp);
    types('next\r');
    expect(await asked).toBe('next');
    terminal.close();
  });

  test('draws a line anew from where it begins when the screen has become narrower', async () => {
    const { terminal, types, world } = scene(true, 40);
    const asked = terminal.ask({ prompt: '> ' });
    types('a line of about thirty letters');
    await settled();
    const before = world.out().length;
    Object.assign(world.stdout, { columns: 20 });
    world.stdout.emit('resize');
    await settled();
    expect(world.out().slice(before).startsWith(`${escape}[1A`)).toBe(true);
    types('\r');
    expect(await asked).toBe('a line of about thirty letters');
    terminal.close();
  });

  test('offers text to be changed', async () => {
    const { terminal, types } = scene(true);
    const asked = terminal.ask({ prompt: '> ', prefill: '{"a":1}', fresh: true });
    await settled();
    types('\u007F\u007F2}\r');
    expect(await asked).toBe('{"a":2}');
    terminal.close();
  });

  test('Ctrl-C gives up a line first, then the question', async () => {
    const { terminal, types, world } = scene(true);
    const asked = terminal.ask({ prompt: '› ' });
    await settled();
    types(`half${ctrlC}`);
    await settled();
    expect(world.out()).toContain('^C');
    types(ctrlC);
    await expect(asked).rejects.toThrow(Interrupted);
    terminal.close();
  });

  test('Ctrl-C while nothing is asked goes to whoever listens', async () => {
    const { terminal, types } = scene(true);
    let heard = 0;
    terminal.onInterrupt = () => (heard += 1);
    types(ctrlC);
    await settled();
    expect(heard).toBe(1);
    terminal.close();
  });

  test('Ctrl-D ends it, now and from then on', async () => {
    const { terminal, types } = scene(true);
    const asked = terminal.ask({ prompt: '› ' });
    await settled();
    types(ctrlD);
    expect(await asked).toBeUndefined();
    expect(await terminal.ask({ prompt: '› ' })).toBeUndefined();
  });

  test('a question that is no longer asked lets go of the prompt, with what stood there', async () => {
    const { terminal, types } = scene(true);
    const over = new AbortController();
    const asked = terminal.ask({ prompt: '[o]nce > ', fresh: true, signal: over.signal });
    await settled();
    types('ye');
    await settled();
    over.abort(new Error('answered elsewhere'));
    await expect(asked).rejects.toThrow('answered elsewhere');
    const next = terminal.ask({ prompt: '› ' });
    await settled();
    types('hello\r');
    expect(await next).toBe('hello');
    await expect(terminal.ask({ prompt: '', signal: over.signal })).rejects.toThrow('elsewhere');
    terminal.close();
  });
});

describe('a pipe', () => {
  test('gives its lines one by one, as messages and answers alike, and then ends', async () => {
    const { terminal, world } = scene(false);
    world.stdin.end('first\no\nlast');
    expect(await terminal.ask({ prompt: '› ' })).toBe('first');
    expect(await terminal.ask({ prompt: '[o]nce > ', fresh: true })).toBe('o');
    expect(await terminal.ask({ prompt: '› ' })).toBe('last');
    expect(await terminal.ask({ prompt: '› ' })).toBeUndefined();
    // Nobody sees prompts there.
    expect(world.out()).toBe('');
  });
});
