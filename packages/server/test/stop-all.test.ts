import { describe, expect, it } from 'vitest';
import { stopAll } from '../src/compose.ts';

describe('stopAll', () => {
  it('runs every step in order, and then throws the error', async () => {
    const done: string[] = [];
    const stopping = stopAll([
      async () => void done.push('first'),
      async () => {
        throw new Error('second');
      },
      () => void done.push('third'),
    ]);
    await expect(stopping).rejects.toThrow('second');
    expect(done).toEqual(['first', 'third']);
  });

  it('throws all errors of several failed steps', async () => {
    const fail = (what: string) => () => Promise.reject(new Error(what));
    const error: unknown = await stopAll([fail('a'), fail('b')]).catch((thrown: unknown) => thrown);
    expect((error as AggregateError).errors.map(String)).toEqual(['Error: a', 'Error: b']);
  });
});
