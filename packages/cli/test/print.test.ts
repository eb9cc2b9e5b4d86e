import { describe, expect, test } from 'vitest';
import { Print } from '../src/print.ts';
import { fakeWorld } from './support/fake-world.ts';

const items = [
  { id: 'one', status: 'completed', text: 'short' },
  { id: 'twenty-two', status: 'failed', text: 'a rather long text that goes on and on' },
];
const columns = [
  { title: 'id', of: ({ id }: (typeof items)[0]) => id },
  { title: 'status', of: ({ status }: (typeof items)[0]) => status, status: true },
  { title: 'text', of: ({ text }: (typeof items)[0]) => text },
];

describe('a list', () => {
  test('is a table whose columns stand under their titles', () => {
    const world = fakeWorld();
    new Print(world, false).list(items, columns, 'nothing');
    expect(world.out().split('\n')).toEqual([
      'ID          STATUS     TEXT',
      'one         completed  short',
      'twenty-two  failed     a rather long text that goes on and on',
      '',
    ]);
  });

  test('is cut to the width of a terminal, in its last column alone, and has its colours', () => {
    const world = fakeWorld({ isTTY: true, columns: 40 });
    new Print(world, false).list(items, columns, 'nothing');
    const [, , last] = world.out().split('\n');
    expect(last).toBe('twenty-two  \u001B[31mfailed\u001B[39m     a rather long te…');
  });

  test('has no colour where nobody wants any', () => {
    for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) {
      const world = fakeWorld({ isTTY: true, columns: 200, env });
      new Print(world, false).list(items, columns, 'nothing');
      expect(world.out()).not.toContain('\u001B');
    }
  });

  test('is one JSON value a line for programs, and nothing at all if it is empty', () => {
    const world = fakeWorld();
    const print = new Print(world, true);
    print.list(items, columns, 'nothing');
    print.list([], columns, 'nothing');
    expect(
      world
        .out()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(items);
    expect(world.err()).toBe('');
  });

  test('says beside the result that there is nothing', () => {
    const world = fakeWorld();
    new Print(world, false).list([], columns, 'nothing');
    expect([world.out(), world.err()]).toEqual(['', 'nothing\n']);
  });

  test('shows nothing of what cells might do to a terminal', () => {
    const world = fakeWorld({ isTTY: true, columns: 200, env: { NO_COLOR: '1' } });
    new Print(world, false).list(
      [{ ...items[0], text: '\u001B[2Jgone\nnew line' }] as typeof items,
      columns,
      '',
    );
    expect(world.out()).not.toContain('\u001B');
    expect(world.out().split('\n')).toHaveLength(3);
  });
});

test('one thing is its fields, without those that are not there', () => {
  const world = fakeWorld();
  new Print(world, false).one({}, { id: 'x', gone: undefined, request: 'two\nlines' });
  expect(world.out()).toBe('id       x\nrequest  two\n         lines\n');
});

test('sentences are for people alone', () => {
  const world = fakeWorld();
  new Print(world, true).say('done');
  expect(world.out()).toBe('');
});
