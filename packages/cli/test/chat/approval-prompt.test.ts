import { describe, expect, test } from 'vitest';
import { ApprovalPrompt } from '../../src/chat/approval-prompt.ts';
import { type ApprovalRequest, type Decision, requestFromEvent } from '../../src/chat/client.ts';
import type { OpenEditor } from '../../src/chat/editor.ts';
import { Interrupted, type PromptOptions, type Terminal } from '../../src/chat/terminal.ts';

/** A user who types these lines, and the prompts and lines that the user sees. */
function user(...lines: readonly (string | Error)[]) {
  return userWith(undefined, ...lines);
}

function userWith(openEditor: OpenEditor | undefined, ...lines: readonly (string | Error)[]) {
  const prompts: PromptOptions[] = [];
  const written: string[] = [];
  const left = [...lines];
  const terminal = {
    isInteractive: true,
    ask: async (options: PromptOptions) => {
      prompts.push(options);
      const line = left.shift();
      if (line instanceof Error) throw line;
      return line;
    },
  } as unknown as Terminal;
  const prompt = new ApprovalPrompt({
    terminal,
    paint: (_, text) => text,
    writeLine: (line) => void written.push(line),
    openEditor,
  });
  const ask = (request: ApprovalRequest, rejected?: Decision) =>
    prompt.ask(request, new AbortController().signal, rejected);
  return { ask, prompts, written };
}

const permission: ApprovalRequest = {
  id: 'r1',
  kind: 'permission',
  tool: 'send_note',
  params: { to: 'ada' },
  text: 'send_note {\n  "to": "ada"\n}',
  flags: [],
  agents: ['assistant'],
  canEdit: true,
};

describe('permission prompt', () => {
  test.each([
    ['y', { approved: true }],
    ['Yes', { approved: true }],
    ['o', { approved: true }],
    ['once', { approved: true }],
    [' A ', { approved: true, always: true }],
    ['always', { approved: true, always: true }],
  ])('accepts %j', async (line, decision) => {
    expect(await user(line).ask(permission)).toEqual(decision);
  });

  test('prompts again until the choice is valid, and shows the request again for an empty line', async () => {
    const { ask, prompts, written } = user('', 'yep', 'r', 'ok', '\u001B[A', 'y');
    expect(await ask(permission)).toEqual({ approved: true });
    const rejected = written.filter((line) => line === '  Invalid choice: type y, n, a or e.');
    expect(rejected).toHaveLength(4);
    expect(written.filter((line) => line === '? send_note needs approval:')).toHaveLength(2);
    expect(prompts).toHaveLength(6);
    expect(prompts.every(({ fresh }) => fresh === true)).toBe(true);
  });

  test('can be denied with or without a reason', async () => {
    expect(await user('d', ' not now ').ask(permission)).toEqual({
      approved: false,
      reason: 'not now',
    });
    for (const choice of ['n', 'no', 'deny']) {
      expect(await user(choice, '').ask(permission)).toEqual({ approved: false });
    }
  });

  test('can be edited until it is valid JSON, starting from the last attempt', async () => {
    const { ask, prompts, written } = user('e', '{"to": ', '{"to": "eve"}');
    expect(await ask(permission)).toEqual({ approved: true, input: { to: 'eve' } });
    expect(prompts.map(({ prefill }) => prefill)).toEqual([undefined, '{"to":"ada"}', '{"to": ']);
    expect(written.at(-1)).toContain('Invalid JSON');
    // An empty line returns to the choices.
    expect(await user('e', '', 'o').ask(permission)).toEqual({ approved: true });
  });

  test('is edited again from the arguments that the server has rejected', async () => {
    const rejected = { approved: true, input: { to: 7 } };
    const onLine = user('e', '{"to":"7"}');
    expect(await onLine.ask(permission, rejected)).toEqual({ approved: true, input: { to: '7' } });
    expect(onLine.prompts.at(-1)?.prefill).toBe('{"to":7}');
    const inEditor = userWith(async (text) => text.replace('7', '"7"'), 'e');
    expect(await inEditor.ask(permission, rejected)).toEqual({
      approved: true,
      input: { to: '7' },
    });
    // Without an edit, the arguments of the call count.
    expect(await user('y').ask(permission, rejected)).toEqual({ approved: true });
  });

  test('returns to the choice on Ctrl-C at the arguments or the reason', async () => {
    const { ask } = user('e', new Interrupted(), 'n', new Interrupted(), 'y');
    expect(await ask(permission)).toEqual({ approved: true });
    await expect(user(new Interrupted()).ask(permission)).rejects.toThrow(Interrupted);
  });

  test('opens the editor until the arguments are valid JSON', async () => {
    const opened: string[] = [];
    const edits = ['{"to": ', '{"to": "eve"}\n'];
    const { ask, written } = userWith(
      async (text) => {
        opened.push(text);
        return edits.shift();
      },
      'e',
      '',
    );
    expect(await ask(permission)).toEqual({ approved: true, input: { to: 'eve' } });
    expect(opened).toEqual(['{\n  "to": "ada"\n}\n', '{"to": ']);
    expect(written.at(-1)).toContain('Invalid JSON');
  });

  test('approves nothing if the editor fails or changes nothing', async () => {
    for (const edit of [async () => undefined, async (text: string) => text]) {
      const { ask, written } = userWith(edit, 'e', 'n', '');
      expect(await ask(permission)).toEqual({ approved: false });
      expect(written.join()).toMatch(/nothing was changed/i);
    }
  });

  test('opens a text of several lines by itself', async () => {
    const params = { filePath: 'a.md', content: 'one\ntwo' };
    const { ask, prompts } = userWith(async (text) => `${text}!\n`, 'e', '1');
    expect(await ask({ ...permission, params })).toEqual({
      approved: true,
      input: { filePath: 'a.md', content: 'one\ntwo!' },
    });
    expect(prompts.at(-1)?.prompt).toBe('  Edit [1] content (2 lines)  [2] all as JSON > ');
  });

  test('cannot be edited without a key', async () => {
    const { ask, prompts } = user('e', 'o');
    expect(await ask({ ...permission, canEdit: false })).toEqual({ approved: true });
    expect(prompts[0]?.prompt).not.toContain('[e]dit');
  });

  test('has no decision when the input has ended', async () => {
    expect(await user().ask(permission)).toBeUndefined();
  });

  test('shows the whole call, its warnings and the requesting agents', async () => {
    const { ask, written } = user('o');
    await ask({ ...permission, flags: ['bidi'], agents: ['assistant', 'helper'] });
    const shown = written.join('\n');
    expect(shown).toContain('send_note needs approval (assistant › helper)');
    expect(shown).toContain('      "to": "ada"');
    expect(shown).toContain(
      '! Warning: the request contains characters that reverse the direction of text',
    );
  });

  test('without a key is built from the event', () => {
    const approval = { id: 'r', kind: 'permission', tool: 'x', params: { a: '\u202Eb' } } as const;
    expect(requestFromEvent(approval)).toMatchObject({
      text: 'x {\n  "a": "\\u{202e}b"\n}',
      flags: ['bidi'],
      canEdit: false,
    });
  });
});

describe('prompt for a call that a rule demands an approval of', () => {
  test('does not offer "always"', async () => {
    const { ask, prompts, written } = user('a', 'always', 'o');
    expect(await ask({ ...permission, rule: { list: 'ask', index: 0, source: 'policy' } })).toEqual(
      { approved: true },
    );
    expect(prompts[0]?.prompt).toBe('  [y]es  [n]o  [e]dit > ');
    expect(written).toContain('  A rule demands an approval of each such call.');
  });

  test('says so if the tool demands it, not a rule, for each call or for this one', async () => {
    const { ask, written } = user('o', 'o');
    const rule = { list: 'needsApproval', index: 0, source: 'builtin' } as const;
    await ask({ ...permission, rule });
    await ask({ ...permission, rule: { ...rule, reason: 'it can start programs' } });
    expect(written.filter((line) => line.includes('approval of') || line.includes('each'))).toEqual(
      [
        '  This tool needs an approval for each call.',
        '  The tool demands an approval of this call: it can start programs.',
      ],
    );
  });
});

describe('prompt for an unknown outcome', () => {
  const outcome: ApprovalRequest = { ...permission, kind: 'outcome' };

  test.each([
    [['r'], { outcome: 'rerun' }],
    [['rerun'], { outcome: 'rerun' }],
    [['c', '{"sent": true}'], { outcome: 'completed', output: { sent: true } }],
    [['c', '', 'c', 'null'], { outcome: 'completed', output: null }],
    [['completed', 'it went out'], { outcome: 'completed', output: 'it went out' }],
    [['o', 'f', ''], { outcome: 'failed' }],
    [['failed', 'No trace of it'], { outcome: 'failed', reason: 'No trace of it' }],
  ])('accepts %j', async (lines, decision) => {
    expect(await user(...lines).ask(outcome)).toEqual(decision);
  });
});

describe('prompt for a question', () => {
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
  const question: ApprovalRequest = {
    ...permission,
    kind: 'question',
    prompt: 'Which shirt?',
    schema,
  };

  test('asks for each field and parses it by its schema', async () => {
    const { ask, prompts, written } = user('a', 'M', '2', 'yes', '');
    expect(await ask(question)).toEqual({
      approved: true,
      input: { size: 'M', count: 2, gift: true },
    });
    // Before the choice between answering and declining.
    expect(written.map((line) => line.trim())).toEqual([
      expect.stringContaining('Which shirt?'),
      'size (S | M)',
      'count',
      'gift (yes | no), optional',
      'note, for the parcel, optional',
    ]);
    expect(prompts.map(({ prompt }) => prompt)).toContain('  size (S | M) > ');
    expect(prompts.map(({ prompt }) => prompt)).toContain('  note, for the parcel, optional > ');
  });

  test('shows the choices of an answer without fields, with their titles', async () => {
    const oneOf = [{ const: 'S', title: 'Small' }, { const: 'M' }];
    const { ask, written, prompts } = user('a', 'M');
    expect(await ask({ ...question, schema: { type: 'string', oneOf } })).toMatchObject({
      input: 'M',
    });
    expect(written[1]).toBe('    Answer (S: Small | M)');
    expect(prompts.map(({ prompt }) => prompt)).toContain('  Answer (S: Small | M) > ');
  });

  test('takes JSON or text without an object schema', async () => {
    const free = { ...question, schema: undefined };
    expect(await user('a', '[1, 2]').ask(free)).toEqual({ approved: true, input: [1, 2] });
    expect(await user('a', 'just words').ask(free)).toEqual({
      approved: true,
      input: 'just words',
    });
  });

  test('can be declined, and is denied without a key', async () => {
    expect(await user('d', 'busy').ask(question)).toEqual({ approved: false, reason: 'busy' });
    const keyless = await user('a').ask({ ...question, canEdit: false });
    expect(keyless).toMatchObject({ approved: false });
  });
});
