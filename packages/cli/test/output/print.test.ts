import { describe, expect, test } from 'vitest';
import { Print } from '../../src/output/print.ts';
import { fakeEnvironment } from '../support/environment.ts';

const items = [
  { id: 'one', status: 'completed', text: 'short' },
  { id: 'twenty-two', status: 'failed', text: 'a rather long text that goes on and on' },
];
const columns = [
  { title: 'id', value: ({ id }: (typeof items)[0]) => id },
  { title: 'status', value: ({ status }: (typeof items)[0]) => status, status: true },
  { title: 'text', value: ({ text }: (typeof items)[0]) => text },
];

describe('a list', () => {
  test('is a table with aligned columns', () => {
    const environment = fakeEnvironment();
    new Print(environment, false).list(items, columns, 'nothing');
    expect(environment.out().split('\n')).toEqual([
      'ID          STATUS     TEXT',
      'one         completed  short',
      'twenty-two  failed     a rather long text that goes on and on',
      '',
    ]);
  });

  test('is as wide as a usual terminal if the terminal reports no columns', () => {
    const environment = fakeEnvironment({ isTTY: true, columns: 0 });
    expect(new Print(environment, false).terminalColumns).toBe(80);
  });

  test('is coloured and cut to the width of the terminal in its last column', () => {
    const environment = fakeEnvironment({ isTTY: true, columns: 40 });
    new Print(environment, false).list(items, columns, 'nothing');
    const [, , last] = environment.out().split('\n');
    expect(last).toBe('twenty-two  \u001B[31mfailed\u001B[39m     a rather long te…');
  });

  test('has no colour with NO_COLOR or a dumb terminal', () => {
    for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) {
      const environment = fakeEnvironment({ isTTY: true, columns: 200, env });
      new Print(environment, false).list(items, columns, 'nothing');
      expect(environment.out()).not.toContain('\u001B');
    }
  });

  test('is one JSON value per line with --json, and empty without items', () => {
    const environment = fakeEnvironment();
    const print = new Print(environment, true);
    print.list(items, columns, 'nothing');
    print.list([], columns, 'nothing');
    expect(
      environment
        .out()
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(items);
    expect(environment.err()).toBe('');
  });

  test('notes on standard error that there are no items', () => {
    const environment = fakeEnvironment();
    new Print(environment, false).list([], columns, 'nothing');
    expect([environment.out(), environment.err()]).toEqual(['', 'nothing\n']);
  });

  test('escapes control characters in cells', () => {
    const environment = fakeEnvironment({ isTTY: true, columns: 200, env: { NO_COLOR: '1' } });
    new Print(environment, false).list(
      [{ ...items[0], text: '\u001B[2Jgone\nnew line' }] as typeof items,
      columns,
      '',
    );
    expect(environment.out()).not.toContain('\u001B');
    expect(environment.out().split('\n')).toHaveLength(3);
  });
});

test('a record has one line per field, without empty fields', () => {
  const environment = fakeEnvironment();
  new Print(environment, false).record({}, { id: 'x', gone: undefined, request: 'two\nlines' });
  expect(environment.out()).toBe('id       x\nrequest  two\n         lines\n');
});

test('lines of text are left out with --json', () => {
  const environment = fakeEnvironment();
  new Print(environment, true).line('done');
  expect(environment.out()).toBe('');
});
