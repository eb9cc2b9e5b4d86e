import { describe, expect, test } from 'vitest';
import { Asker } from '../../src/chat/asker.ts';
import { plainRequest, type Request } from '../../src/chat/request.ts';
import type { Asking, Terminal } from '../../src/chat/terminal.ts';

/** Somebody who has these lines to say, and what they were asked. */
function person(...lines: readonly string[]) {
  const asked: Asking[] = [];
  const said: string[] = [];
  const left = [...lines];
  const terminal = {
    ask: async (asking: Asking) => {
      asked.push(asking);
      return left.shift();
    },
  } as unknown as Terminal;
  const asker = new Asker({
    terminal,
    paint: (_, text) => text,
    say: (line) => void said.push(line),
  });
  const ask = (request: Request) => asker.ask(request, new AbortController().signal);
  return { ask, asked, said };
}

const permission: Request = {
  id: 'r1',
  kind: 'permission',
  tool: 'send_note',
  params: { to: 'ada' },
  text: 'send_note {\n  "to": "ada"\n}',
  flags: [],
  agents: ['assistant'],
  canEdit: true,
};

describe('a permission', () => {
  test.each([
    ['o', { approved: true }],
    ['once', { approved: true }],
    [' A ', { approved: true, always: true }],
    ['always', { approved: true, always: true }],
  ])('%j is an answer', async (line, decision) => {
    expect(await person(line).ask(permission)).toEqual(decision);
  });

  test('is asked again as long as nothing that is an answer is said', async () => {
    const { ask, asked, said } = person('', 'yes', 'y', 'ok', '\u001B[A', 'o');
    expect(await ask(permission)).toEqual({ approved: true });
    const told = said.filter((line) => line === '  That is no answer here: type o, a, e or d.');
    expect(told).toHaveLength(4);
    expect(asked).toHaveLength(6);
    expect(asked.every(({ fresh }) => fresh === true)).toBe(true);
  });

  test('is denied with or without a reason', async () => {
    expect(await person('d', ' not now ').ask(permission)).toEqual({
      approved: false,
      reason: 'not now',
    });
    expect(await person('deny', '').ask(permission)).toEqual({ approved: false });
  });

  test('is edited until it is JSON, from where the last attempt ended', async () => {
    const { ask, asked, said } = person('e', '{"to": ', '{"to": "eve"}');
    expect(await ask(permission)).toEqual({ approved: true, input: { to: 'eve' } });
    expect(asked.map(({ prefill }) => prefill)).toEqual(['', '{"to":"ada"}', '{"to": ']);
    expect(said.at(-1)).toContain('That is not JSON');
    // An empty line goes back to the question.
    expect(await person('e', '', 'o').ask(permission)).toEqual({ approved: true });
  });

  test('is not edited where that is impossible', async () => {
    const { ask, asked } = person('e', 'o');
    expect(await ask({ ...permission, canEdit: false })).toEqual({ approved: true });
    expect(asked[0]?.prompt).not.toContain('[e]dit');
  });

  test('is left alone when there is nobody to answer', async () => {
    expect(await person().ask(permission)).toBeUndefined();
  });

  test('shows all of the call, what to beware of, and who asks', async () => {
    const { ask, said } = person('o');
    await ask({ ...permission, flags: ['bidi'], agents: ['assistant', 'helper'] });
    const shown = said.join('\n');
    expect(shown).toContain('send_note wants to run (assistant › helper)');
    expect(shown).toContain('      "to": "ada"');
    expect(shown).toContain('Beware, it holds: bidi');
  });

  test('of a stream without a key is written out here', () => {
    const approval = { id: 'r', kind: 'permission', tool: 'x', params: { a: '\u202Eb' } } as const;
    expect(plainRequest(approval)).toMatchObject({
      text: 'x {\n  "a": "\\u{202e}b"\n}',
      flags: ['characters that do not show'],
      canEdit: false,
    });
  });
});

describe('an outcome that nobody knows', () => {
  const outcome: Request = { ...permission, kind: 'outcome' };

  test.each([
    [['r'], { approved: true }],
    [['i', '{"sent": true}'], { approved: true, output: { sent: true } }],
    [['i', 'it went out'], { approved: true, output: 'it went out' }],
    [['o', 'f', ''], { approved: false }],
  ])('%j', async (lines, decision) => {
    expect(await person(...lines).ask(outcome)).toEqual(decision);
  });
});

describe('a question of a tool', () => {
  const schema = {
    type: 'object',
    properties: {
      size: { type: 'string', enum: ['S', 'M'] },
      count: { type: 'integer' },
      gift: { type: 'boolean' },
      note: { type: 'string', description: 'for the parcel' },
    },
    required: ['size', 'count'],
  };
  const question: Request = { ...permission, kind: 'question', prompt: 'Which shirt?', schema };

  test('is answered field by field, each read as its schema says', async () => {
    const { ask, asked, said } = person('a', 'M', '2', 'yes', '');
    expect(await ask(question)).toEqual({
      approved: true,
      input: { size: 'M', count: 2, gift: true },
    });
    expect(said[0]).toContain('Which shirt?');
    expect(asked.map(({ prompt }) => prompt)).toContain('  size (S | M) > ');
    expect(asked.map(({ prompt }) => prompt)).toContain('  note, for the parcel, may be empty > ');
  });

  test('of any other shape takes JSON or text', async () => {
    const free = { ...question, schema: undefined };
    expect(await person('a', '[1, 2]').ask(free)).toEqual({ approved: true, input: [1, 2] });
    expect(await person('a', 'just words').ask(free)).toEqual({
      approved: true,
      input: 'just words',
    });
  });

  test('is declined, and cannot be answered without a key', async () => {
    expect(await person('d', 'busy').ask(question)).toEqual({ approved: false, reason: 'busy' });
    const keyless = await person('a').ask({ ...question, canEdit: false });
    expect(keyless).toMatchObject({ approved: false });
  });
});
