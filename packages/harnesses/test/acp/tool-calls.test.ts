/** What agents ask for, in the messages that real ones have sent, as the calls that rules name. */
import type { ToolCallUpdate } from '@agentclientprotocol/sdk';
import { describe, expect, it } from 'vitest';
import {
  announcedBy,
  differenceOf,
  maxInputChars,
  normalise,
  ToolCalls,
} from '../../src/acp/tool-calls.ts';

const options = { harness: 'agent', workspace: '/ws' };

/** The call after these updates and the request, which comes last. */
function callOf(...updates: ToolCallUpdate[]) {
  const calls = new ToolCalls();
  for (const update of updates) calls.merge(update, 0);
  return normalise(calls.get('t')?.announced ?? announcedBy({ toolCallId: 't' }), options);
}

const update = (fields: Omit<ToolCallUpdate, 'toolCallId'>): ToolCallUpdate => ({
  toolCallId: 't',
  ...fields,
});

const claude = {
  bash: [
    update({
      name: 'Bash',
      rawInput: {},
      status: 'pending',
      title: 'Terminal',
      kind: 'execute',
      content: [],
    }),
    update({
      rawInput: { command: 'echo hi >> b.txt', description: 'Append a line' },
      title: 'echo hi >> b.txt',
      content: [{ type: 'content', content: { type: 'text', text: 'Append a line' } }],
    }),
    update({
      name: 'Bash',
      status: 'pending',
      rawInput: { command: 'echo hi >> b.txt', description: 'Append a line' },
      title: 'echo hi >> b.txt',
      kind: 'execute',
      locations: [{ path: '/ws/b.txt' }],
    }),
  ],
  edit: [
    update({
      name: 'Edit',
      rawInput: {},
      status: 'pending',
      title: 'Edit',
      kind: 'edit',
      content: [],
      locations: [],
    }),
    update({
      rawInput: {
        replace_all: false,
        file_path: '/ws/a.txt',
        old_string: 'two',
        new_string: 'TWO',
      },
      title: 'Edit a.txt',
      content: [{ type: 'diff', path: '/ws/a.txt', oldText: 'two', newText: 'TWO' }],
      locations: [{ path: '/ws/a.txt' }],
    }),
    update({
      name: 'Edit',
      status: 'pending',
      rawInput: {
        file_path: '/ws/a.txt',
        old_string: 'two',
        new_string: 'TWO',
        replace_all: false,
      },
      title: 'Edit a.txt',
      kind: 'edit',
      content: [{ type: 'diff', path: '/ws/a.txt', oldText: 'two', newText: 'TWO' }],
      locations: [{ path: '/ws/a.txt' }],
    }),
  ],
};

const opencode = {
  bash: [
    update({
      title: 'bash',
      kind: 'execute',
      status: 'pending',
      locations: [{ path: '/ws' }],
      rawInput: { cwd: '/ws' },
    }),
    update({
      title: 'echo hi',
      kind: 'execute',
      status: 'pending',
      locations: [],
      rawInput: { command: 'echo hi' },
    }),
  ],
  late: update({
    status: 'in_progress',
    kind: 'execute',
    title: 'echo hi',
    locations: [{ path: '/ws' }],
    rawInput: { command: 'echo hi', description: 'Say', cwd: '/ws' },
  }),
  edit: [
    update({ title: 'edit', kind: 'edit', status: 'pending', locations: [], rawInput: {} }),
    update({
      status: 'in_progress',
      kind: 'edit',
      title: 'edit',
      locations: [{ path: '/ws/a.txt' }],
      rawInput: { filePath: '/ws/a.txt', oldString: 'two', newString: 'TWO' },
    }),
    update({
      title: '/ws/a.txt',
      kind: 'edit',
      status: 'pending',
      locations: [{ path: '/ws/a.txt' }],
      rawInput: {
        filepath: '/ws/a.txt',
        diff: '--- /ws/a.txt\n+++ /ws/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n',
      },
      content: [
        {
          type: 'diff',
          path: '/ws/a.txt',
          oldText: 'one\ntwo\nthree\n',
          newText: 'one\nTWO\nthree\n',
        },
      ],
    }),
  ],
};

const codex = {
  bash: [
    update({
      kind: 'execute',
      title: 'echo hi',
      status: 'in_progress',
      content: [{ type: 'terminal', terminalId: 't' }],
      rawInput: { command: 'echo hi', cwd: '/ws/sub' },
    }),
    update({
      title: 'echo hi',
      rawInput: { command: 'echo hi', cwd: '/ws/sub' },
      kind: 'execute',
      status: 'pending',
    }),
  ],
  edit: [
    update({
      kind: 'edit',
      title: 'Editing files',
      status: 'in_progress',
      content: [
        {
          type: 'diff',
          oldText: null,
          newText: 'content\n',
          path: '/ws/c.txt',
          _meta: { kind: 'add' },
        },
        {
          type: 'diff',
          oldText: 'x\n',
          newText: 'y\n',
          path: '/etc/hosts',
          _meta: { kind: 'update' },
        },
      ],
    }),
    update({
      title: 'Edit files',
      locations: [{ path: '/ws/c.txt' }],
      kind: 'edit',
      status: 'pending',
    }),
  ],
  mcp: [
    update({
      kind: 'execute',
      title: 'mcp.relay.send_message',
      status: 'in_progress',
      rawInput: { server: 'relay', tool: 'send_message', arguments: { to: '@ada', text: 'hi' } },
    }),
    update({ kind: 'execute', status: 'pending' }),
  ],
};

describe('a call of an agent', () => {
  it.each([
    ['a command of Claude Code', claude.bash, 'bash', [{ command: 'echo hi >> b.txt' }], true],
    [
      'an edit of Claude Code',
      claude.edit,
      'patch',
      [
        {
          filePath: 'a.txt',
          diff: '--- a.txt\n+++ a.txt\n@@ -1,1 +1,1 @@\n-two\n\\ No newline at end of file\n+TWO\n\\ No newline at end of file',
        },
      ],
      true,
    ],
    ['a command of opencode', opencode.bash, 'bash', [{ command: 'echo hi' }], true],
    [
      'an edit of opencode',
      opencode.edit,
      'patch',
      [
        {
          filePath: 'a.txt',
          diff: '--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three',
        },
      ],
      true,
    ],
    [
      'a command of Codex in another folder',
      codex.bash,
      'bash',
      [{ command: 'echo hi', cwd: 'sub' }],
      true,
    ],
    [
      'a change of Codex in several files, one of them outside',
      codex.edit,
      'patch',
      [
        { filePath: '/etc/hosts', diff: '--- /etc/hosts\n+++ /etc/hosts\n@@ -1,1 +1,1 @@\n-x\n+y' },
        { filePath: 'c.txt', diff: '--- /dev/null\n+++ c.txt\n@@ -0,0 +1,1 @@\n+content' },
      ],
      true,
    ],
    [
      'a tool of an MCP server in Codex',
      codex.mcp,
      'agent.mcp.relay.send_message',
      [{ server: 'relay', tool: 'send_message', arguments: { to: '@ada', text: 'hi' } }],
      true,
    ],
    [
      'a tool of an MCP server in Claude Code',
      [
        update({
          name: 'mcp__relay__send_message',
          title: 'mcp__relay__send_message',
          kind: 'other',
          rawInput: { to: '@ada' },
        }),
      ],
      'agent.mcp__relay__send_message',
      [{ to: '@ada' }],
      true,
    ],
    [
      'a command of Gemini, which is only in the title',
      [
        update({
          title: 'echo hi >> b.txt',
          kind: 'execute',
          status: 'pending',
          content: [],
          locations: [],
        }),
      ],
      'bash',
      [{ command: 'echo hi >> b.txt' }],
      false,
    ],
    [
      'a list of words',
      [update({ kind: 'execute', rawInput: { command: ['bash', '-lc', "it's"] } })],
      'bash',
      [{ command: String.raw`bash -lc 'it'\''s'` }],
      true,
    ],
    [
      'a command with a switch that only a person can judge',
      [update({ kind: 'execute', rawInput: { command: 'ls', dangerouslyDisableSandbox: true } })],
      'bash',
      [{ command: 'ls' }],
      false,
    ],
    [
      'a file that is read',
      [update({ kind: 'read', rawInput: { file_path: '/ws//x/./a.txt', offset: 3 } })],
      'read',
      [{ filePath: 'x/a.txt' }],
      true,
    ],
    [
      'a path that leads where a link decides, as it is',
      [update({ kind: 'read', rawInput: { file_path: 'link/../a.txt' } })],
      'read',
      [{ filePath: '/ws/link/../a.txt' }],
      true,
    ],
    [
      'a path in the home of the agent',
      [update({ kind: 'edit', rawInput: { file_path: '~/.claude/settings.json', content: '{}' } })],
      'patch',
      [{ filePath: '~/.claude/settings.json' }],
      false,
    ],
    [
      'a command that names two folders',
      [update({ kind: 'execute', rawInput: { command: 'ls', cwd: '/ws', workdir: '/etc' } })],
      'bash',
      [{ command: 'ls', cwd: '/etc' }],
      false,
    ],
    [
      'a command with a folder that is no text',
      [update({ kind: 'execute', rawInput: { command: 'ls', cwd: ['/etc'] } })],
      'bash',
      [{ command: 'ls' }],
      false,
    ],
    [
      'a file that is read, and changed besides',
      [
        update({
          kind: 'read',
          rawInput: { filePath: 'a' },
          content: [{ type: 'diff', path: 'a', newText: 'x' }],
        }),
      ],
      'read',
      [{ filePath: 'a' }],
      false,
    ],
    [
      'an edit with an argument that its diff does not show',
      [
        update({
          kind: 'edit',
          rawInput: { filePath: 'a', new_string: 'x', old_string: 'y', replace_all: true },
        }),
      ],
      'patch',
      [{ filePath: 'a' }],
      false,
    ],
    [
      'an edit whose diff is not that of its arguments',
      [
        update({
          kind: 'edit',
          rawInput: { filePath: 'a', content: 'evil' },
          content: [{ type: 'diff', path: 'a', newText: 'good' }],
        }),
      ],
      'patch',
      [{ filePath: 'a' }],
      false,
    ],
    [
      'an address that something is sent to',
      [update({ kind: 'fetch', rawInput: { url: 'https://a.test/', method: 'POST', body: 'x' } })],
      'fetch',
      [{ url: 'https://a.test/' }],
      false,
    ],
    [
      'a tool whose name is too long to tell it from others',
      [update({ kind: 'other', name: 'n'.repeat(101), rawInput: { a: 1 } })],
      `agent.${'n'.repeat(100)}`,
      [{ a: 1 }],
      false,
    ],
    [
      'a file outside that is read',
      [update({ kind: 'read', locations: [{ path: '/etc/passwd' }] })],
      'read',
      [{ filePath: '/etc/passwd' }],
      true,
    ],
    [
      'a deleted file',
      [update({ kind: 'delete', locations: [{ path: '/ws/a' }] })],
      'patch',
      [{ filePath: 'a', diff: '--- a\n+++ /dev/null' }],
      true,
    ],
    [
      'a change of which only the file is known',
      [update({ kind: 'edit', locations: [{ path: '/ws/a' }] })],
      'patch',
      [{ filePath: 'a' }],
      false,
    ],
    [
      'an address',
      [update({ kind: 'fetch', rawInput: { url: 'https://a.test/', prompt: 'x' } })],
      'fetch',
      [{ url: 'https://a.test/' }],
      true,
    ],
    [
      'a command that calls itself a file',
      [update({ kind: 'read', rawInput: { filePath: 'a', command: 'rm a' } })],
      'read',
      [{ filePath: 'a', command: 'rm a' }],
      false,
    ],
    [
      'anything else, with all of its arguments',
      [
        update({
          kind: 'search',
          title: 'Find\n`*.ts`',
          rawInput: { pattern: '*.ts', description: 'x' },
        }),
      ],
      'agent.Find `*.ts`',
      [{ pattern: '*.ts', description: 'x' }],
      true,
    ],
    ['nothing at all', [update({})], 'agent.unknown', [{}], false],
  ])('is normalised: %s', (_what, updates, tool, inputs, isConcrete) => {
    expect(callOf(...updates)).toMatchObject({ tool, inputs, isConcrete });
  });

  it('shows what is not part of it', () => {
    expect(callOf(...claude.bash).shown).toEqual({ description: 'Append a line' });
    const background = { command: 'ls', timeout: 1_000, run_in_background: true };
    expect(callOf(update({ kind: 'execute', title: 'List', rawInput: background }))).toMatchObject({
      inputs: [{ command: 'ls' }],
      isConcrete: true,
      shown: { title: 'List', timeout: 1_000, run_in_background: true },
    });
  });

  it('shows the arguments that are not part of it', () => {
    const url = 'https://a.test/';
    const post = update({ kind: 'fetch', rawInput: { url, body: 'secret' } });
    expect(callOf(post).shown).toEqual({ body: 'secret' });
    const cwd = update({ kind: 'execute', rawInput: { command: 'ls', cwd: '/ws', workdir: 'x' } });
    expect(callOf(cwd).shown).toEqual({ cwd: '/ws', workdir: 'x' });
    const edit = update({
      kind: 'edit',
      rawInput: { filePath: 'a', content: 'evil' },
      content: [{ type: 'diff', path: 'a', newText: 'good' }],
    });
    expect(callOf(edit).shown).toEqual({ content: 'evil' });
  });

  it('is forgotten with all that it announced when too much was announced, the oldest first', () => {
    const calls = new ToolCalls();
    const text = 'x'.repeat(maxInputChars);
    for (let count = 0; count < 40; count += 1) {
      calls.merge(
        { toolCallId: `t${count}`, kind: 'edit', rawInput: { filePath: 'a', content: text } },
        0,
      );
    }
    expect(calls.get('t0')).toBeUndefined();
    expect(calls.get('t39')?.announced.raw['content']).toBe(text);
    for (let count = 0; count < 40; count += 1) {
      calls.merge({ toolCallId: `v${count}`, kind: 'other', title: text }, 0);
    }
    expect(calls.get('v0')).toBeUndefined();
    expect(calls.get('v39')?.announced.title).toBe(text);
    for (let count = 0; count < 3_000; count += 1) calls.merge({ toolCallId: `u${count}` }, 0);
    expect(calls.get('v39')).toBeUndefined();
    calls.clear(new Set());
    expect(calls.isAnyOpen).toBe(false);
  });
});

describe('an update after the approval', () => {
  function difference(asked: readonly ToolCallUpdate[], later: ToolCallUpdate) {
    const calls = new ToolCalls();
    for (const each of asked) calls.merge(each, 0);
    const approved = calls.get('t')?.announced;
    return approved === undefined ? undefined : differenceOf(approved, later, options);
  }

  const hunk = [
    { type: 'diff', path: '/ws/a.txt', oldText: 'one\ntwo\nthree', newText: 'one\nTWO\nthree' },
  ] as const;

  it.each([
    ['opencode repeats the command', opencode.bash, opencode.late],
    [
      'Claude Code shows the lines around an edit',
      claude.edit,
      update({ content: [...hunk], locations: [{ path: '/ws/a.txt', line: 1 }] }),
    ],
    [
      'opencode repeats the edit in its other form',
      opencode.edit,
      update({
        status: 'in_progress',
        rawInput: { filePath: '/ws/a.txt', oldString: 'two', newString: 'TWO' },
      }),
    ],
    [
      'opencode shows the edit as it was made',
      opencode.edit,
      update({
        status: 'completed',
        title: 'ws/a.txt',
        content: [{ type: 'diff', path: '/ws/a.txt', oldText: 'two', newText: 'TWO' }],
        rawOutput: { output: 'Edit applied successfully.' },
      }),
    ],
    [
      'a formatter has changed the file',
      claude.edit,
      update({
        status: 'completed',
        content: [{ type: 'diff', path: '/ws/a.txt', oldText: 'two', newText: 'Two;' }],
      }),
    ],
    ['Codex says that it is done', codex.edit, update({ status: 'completed' })],
    [
      'Claude Code describes it otherwise',
      claude.bash,
      update({
        rawInput: { command: 'echo hi >> b.txt', description: 'Something else', timeout: 5 },
      }),
    ],
    [
      'Claude Code shows the lines around one of several places',
      claude.edit,
      update({
        content: [
          { type: 'diff', path: '/ws/a.txt', oldText: 'two\r\ntwo\n', newText: 'two\nTWO' },
        ],
      }),
    ],
    [
      'opencode repeats a removal in its other form',
      [
        update({
          kind: 'edit',
          content: [{ type: 'diff', path: 'a', oldText: 'one\ntwo\n', newText: 'one\n' }],
        }),
      ],
      update({ rawInput: { filePath: 'a', oldString: 'two', newString: '' } }),
    ],
    [
      'an edit leaves out what it does not say',
      claude.edit,
      update({ rawInput: { file_path: 'a.txt', replace_all: false, extra: null } }),
    ],
  ])('is the same call if %s', (_what, asked, later) => {
    expect(difference(asked, later)).toBeUndefined();
  });

  it.each([
    [
      'another command',
      claude.bash,
      update({ rawInput: { command: 'rm -rf /' } }),
      'the command "rm -rf /" instead of "echo hi >> b.txt"',
    ],
    [
      'another folder',
      codex.bash,
      update({ rawInput: { command: 'echo hi', cwd: '/' } }),
      'the folder "/" instead of "sub"',
    ],
    [
      'another file',
      codex.edit,
      update({ locations: [{ path: '/ws/d.txt' }] }),
      'the file "d.txt"',
    ],
    [
      'another change',
      codex.edit,
      update({ content: [{ type: 'diff', path: '/ws/c.txt', oldText: null, newText: 'evil\n' }] }),
      'another change of "c.txt"',
    ],
    [
      'another text',
      claude.edit,
      update({ rawInput: { file_path: '/ws/a.txt', new_string: 'evil' } }),
      'another value of "new_string"',
    ],
    [
      'an empty file',
      codex.edit,
      update({ content: [{ type: 'diff', path: '/ws/c.txt', oldText: 'content', newText: '' }] }),
      'another change of "c.txt"',
    ],
    [
      'a text in place of nothing',
      [
        update({
          kind: 'edit',
          content: [{ type: 'diff', path: '/ws/a', oldText: 'x', newText: '' }],
        }),
      ],
      update({ content: [{ type: 'diff', path: '/ws/a', oldText: 'x', newText: 'evil' }] }),
      'another change of "a"',
    ],
    [
      'a change in place of none',
      [
        update({
          kind: 'edit',
          content: [{ type: 'diff', path: '/ws/a', oldText: 'x', newText: 'x' }],
        }),
      ],
      update({ content: [{ type: 'diff', path: '/ws/a', oldText: 'y', newText: 'evil' }] }),
      'another change of "a"',
    ],
    [
      'more than the lines around it',
      claude.edit,
      update({
        content: [{ type: 'diff', path: '/ws/a.txt', oldText: 'one\ntwo', newText: 'evil\nTWO' }],
      }),
      'another change of "a.txt"',
    ],
    [
      'another change than that of the arguments',
      [update({ kind: 'edit', rawInput: { filePath: 'a', content: 'good' } })],
      update({ content: [{ type: 'diff', path: 'a', newText: 'evil' }] }),
      'another change of "a"',
    ],
    [
      'another text than its diff',
      codex.edit.map((each) => ({ ...each, content: each.content?.slice(0, 1) ?? null })),
      update({ rawInput: { content: 'evil' } }),
      'another change of "c.txt"',
    ],
    [
      'a switch that was not asked for',
      claude.bash,
      update({ rawInput: { command: 'echo hi >> b.txt', dangerouslyDisableSandbox: true } }),
      'another value of "dangerouslyDisableSandbox"',
    ],
    [
      'another command of another tool',
      [update({ kind: 'other', name: 'shell', rawInput: { command: 'ls' } })],
      update({ rawInput: { command: 'rm x' } }),
      'another value of "command"',
    ],
    [
      'another description, which is an argument of another tool',
      [update({ kind: 'other', name: 'issue', rawInput: { description: 'a' } })],
      update({ rawInput: { description: 'b' } }),
      'another value of "description"',
    ],
    [
      'another tool',
      [update({ kind: 'other', name: 'show', rawInput: { id: 1 } })],
      update({ name: 'delete' }),
      'the tool "delete" instead of "show"',
    ],
    ['another kind', claude.edit, update({ kind: 'execute' }), 'the kind execute instead of edit'],
    [
      'another argument of a tool',
      codex.mcp,
      update({ rawInput: { server: 'relay', tool: 'send_message', arguments: { to: '@eve' } } }),
      'another value of "arguments"',
    ],
  ])('differs if it shows %s', (_what, asked, later, text) => {
    expect(difference(asked, later)).toContain(text);
  });
});
