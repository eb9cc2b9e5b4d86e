import { AnswerTooLarge } from '@relay/core';
import { describe, expect, it } from 'vitest';
import { ToolCallFragments } from '../../src/chat-completions/tool-call-fragments.ts';

function whole(...deltas: readonly unknown[][]) {
  const fragments = new ToolCallFragments(4 * 1024 * 1024);
  for (const delta of deltas) fragments.add(delta);
  return fragments.complete();
}

function fragment(
  index: number | undefined,
  fields: { id?: string; name?: string; args?: string },
) {
  const { id, name, args } = fields;
  return { index, id, type: 'function', function: { name, arguments: args } };
}

const call = (id: string, name: string, args: string) => ({
  type: 'tool-call',
  id,
  name,
  arguments: args,
});

describe('ToolCallFragments', () => {
  it('joins the arguments of one call in order', () => {
    expect(
      whole(
        [fragment(0, { id: 'call_1', name: 'add', args: '' })],
        [fragment(0, { args: '{"a":' })],
        [fragment(0, { args: '1}' })],
      ),
    ).toEqual([call('call_1', 'add', '{"a":1}')]);
  });

  it('accepts mixed fragments of several calls, even in one frame', () => {
    expect(
      whole(
        [fragment(0, { id: 'call_1', name: 'add' }), fragment(1, { id: 'call_2', name: 'sub' })],
        [fragment(1, { args: '{"b":' }), fragment(0, { args: '{"a":' })],
        [fragment(0, { args: '1}' })],
        [fragment(1, { args: '2}' })],
      ),
    ).toEqual([call('call_1', 'add', '{"a":1}'), call('call_2', 'sub', '{"b":2}')]);
  });

  it('distinguishes calls by id if every index is 0', () => {
    expect(
      whole(
        [fragment(0, { id: 'a', name: 'add', args: '{}' })],
        [fragment(0, { id: 'b', name: 'add', args: '{"x":1}' })],
      ),
    ).toEqual([call('a', 'add', '{}'), call('b', 'add', '{"x":1}')]);
  });

  it('distinguishes calls by id without an index', () => {
    expect(
      whole(
        [fragment(undefined, { id: 'a', name: 'add', args: '{"x"' })],
        [fragment(undefined, { args: ':1}' })],
        [fragment(undefined, { id: 'b', name: 'add', args: '{}' })],
      ),
    ).toEqual([call('a', 'add', '{"x":1}'), call('b', 'add', '{}')]);
  });

  it('keeps one call if a server repeats id and name, or sends a new id with each fragment', () => {
    expect(
      whole(
        [fragment(0, { id: 'a', name: 'add', args: '{' })],
        [fragment(0, { id: 'a', name: 'add', args: '}' })],
      ),
    ).toEqual([call('a', 'add', '{}')]);
    expect(
      whole(
        [fragment(0, { id: 'a', name: 'add', args: '{' })],
        [fragment(0, { id: 'z', args: '}' })],
      ),
    ).toEqual([call('a', 'add', '{}')]);
  });

  it('accepts id and name after the index', () => {
    expect(whole([fragment(0, {})], [fragment(0, { id: 'a', name: 'add', args: '{}' })])).toEqual([
      call('a', 'add', '{}'),
    ]);
  });

  it('leaves a missing id empty, for the loop to generate', () => {
    expect(whole([fragment(0, { name: 'add', args: '{}' })])).toEqual([call('', 'add', '{}')]);
  });

  it('leaves an id empty that is too long', () => {
    expect(whole([fragment(0, { id: 'x'.repeat(257), name: 'add', args: '{}' })])).toEqual([
      call('', 'add', '{}'),
    ]);
    const longest = 'x'.repeat(256);
    expect(whole([fragment(0, { id: longest, name: 'add', args: '{}' })])).toEqual([
      call(longest, 'add', '{}'),
    ]);
  });

  it('ignores fragments that are not objects', () => {
    expect(whole([null, 3, 'x', fragment(0, { id: 'a', name: 'add' }), { index: 0 }])).toEqual([
      call('a', 'add', ''),
    ]);
    expect(
      whole([
        { index: 0, id: 'a', function: null },
        { index: 0, function: { name: 'n' } },
      ]),
    ).toEqual([call('a', 'n', '')]);
  });

  it('fails retryably without a name', () => {
    expect(() => whole([fragment(0, { id: 'a', args: '{}' })])).toThrow(
      expect.objectContaining({
        message: 'The provider sent a tool call without a name',
        retryable: true,
      }),
    );
  });

  it('refuses calls that are too long', () => {
    const fragments = new ToolCallFragments(4 * 1024 * 1024);
    fragments.add([fragment(0, { id: 'a', name: 'add' })]);
    const mebibyte = 'x'.repeat(1024 * 1024);
    const flood = () => {
      for (let n = 0; n < 20; n += 1) fragments.add([fragment(0, { args: mebibyte })]);
    };
    expect(flood).toThrow(AnswerTooLarge);
    const many = Array.from({ length: 2_000 }, (_, index) =>
      fragment(index, { id: `c${index}`, name: 'n' }),
    );
    expect(() => whole(many)).toThrow(AnswerTooLarge);
  });
});
