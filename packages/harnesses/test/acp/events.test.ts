/** What agents report, in the messages that real ones have sent, as events of a session. */
import type { ToolCallUpdate } from '@agentclientprotocol/sdk';
import { type AgentSessionEvent, sessionEventSchema } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { reportCall, reportEnd, reportStart, TranscriptBuffer } from '../../src/acp/events.ts';
import { ToolCalls } from '../../src/acp/tool-calls.ts';

const options = { harness: 'agent', workspace: '/ws', now: 50 };

describe('a transcript', () => {
  const piece = (text: string, messageId?: string, isThought = false) => ({
    text,
    messageId,
    isThought,
  });
  const chunks = (events: readonly AgentSessionEvent[]) =>
    events.map((event) => {
      expect(sessionEventSchema.safeParse(event).success).toBe(true);
      if (event.type !== 'transcript.chunk') throw new Error(event.type);
      const { id, content, sequence, metadata } = event.chunk;
      return [id, sequence, content.length, ...(metadata === undefined ? [] : [metadata])];
    });

  it('joins the pieces of a message to chunks of 4 KB', () => {
    const buffer = new TranscriptBuffer();
    const events: AgentSessionEvent[] = [];
    for (let count = 0; count < 1_000; count += 1)
      events.push(...buffer.add(piece('0123456789', 'm'), 0));
    events.push(...buffer.flush(0), ...buffer.flush(0));
    expect(chunks(events)).toEqual([
      ['m', 1, 4_096],
      ['m', 2, 4_096],
      ['m', 3, 1_808],
    ]);
    expect(buffer.isEmpty).toBe(true);
  });

  it('splits a long piece, but no character', () => {
    const buffer = new TranscriptBuffer();
    const events = [
      ...buffer.add(piece(`${'x'.repeat(4_095)}😀${'y'.repeat(9_000)}`, 'm'), 0),
      ...buffer.end(0),
    ];
    expect(chunks(events)).toEqual([
      ['m', 1, 4_095],
      ['m', 2, 4_096],
      ['m', 3, 4_096],
      ['m', 4, 810],
    ]);
  });

  it('ends a message where another begins, and marks thoughts', () => {
    const buffer = new TranscriptBuffer();
    const events = [
      ...buffer.add(piece('Warning'), 0),
      ...buffer.add(piece('a', 'one'), 0),
      ...buffer.add(piece('b', 'one'), 0),
      ...buffer.add(piece('hmm', undefined, true), 0),
      ...buffer.end(0),
      ...buffer.add(piece('c'), 0),
      ...buffer.end(0),
    ];
    expect(chunks(events)).toEqual([
      ['message-1', 1, 7],
      ['one', 1, 2],
      ['message-3', 1, 3, { thought: true }],
      ['message-4', 1, 1],
    ]);
  });
});

describe('a tool call', () => {
  interface Reports {
    readonly permission?: 'allowed' | 'denied';
  }

  function reports(
    updates: readonly Omit<ToolCallUpdate, 'toolCallId'>[],
    { permission }: Reports = {},
  ) {
    const calls = new ToolCalls();
    const events: AgentSessionEvent[] = [];
    updates.forEach((fields, index) => {
      const update = { toolCallId: 't', ...fields };
      const call = calls.merge(update, 0);
      const isLast = index === updates.length - 1;
      if (isLast && permission !== undefined) calls.change('t', { permission });
      if (isLast && permission === 'allowed') {
        const started = reportStart(calls.get('t') ?? call, options);
        events.push(...started.events);
        calls.change('t', { reported: started.reported });
      }
      const current = calls.get('t') ?? call;
      const { events: reported, reported: marks } = isLast
        ? reportEnd(current, update, options)
        : reportCall(current, options);
      events.push(...reported);
      calls.change('t', { reported: marks });
    });
    for (const event of events) expect(sessionEventSchema.safeParse(event).success).toBe(true);
    return events;
  }

  const bash = [
    {
      name: 'Bash',
      rawInput: {},
      status: 'pending',
      title: 'Terminal',
      kind: 'execute',
      content: [],
    },
    { rawInput: { command: 'echo hi', description: 'Say' }, title: 'echo hi' },
  ] as const;

  it.each([
    [
      'a command of Claude Code',
      [...bash, { status: 'completed', rawOutput: 'hi' }] as const,
      { permission: 'allowed' } as const,
      [
        { type: 'tool.called', tool: 'bash', input: { command: 'echo hi' } },
        { type: 'command.started', command: 'echo hi' },
        { type: 'command.completed', command: 'echo hi', durationMs: 50 },
        { type: 'tool.completed', tool: 'bash', output: 'hi', durationMs: 50 },
      ],
    ],
    [
      'a command of opencode, with its exit code',
      [
        { title: 'bash', kind: 'execute', status: 'pending', rawInput: { cwd: '/ws' } },
        { status: 'in_progress', rawInput: { command: 'false', cwd: '/ws' } },
        { status: 'completed', rawOutput: { output: '(no output)', metadata: { exit: 1 } } },
      ] as const,
      {},
      [
        { type: 'tool.called', tool: 'bash', input: { command: 'false' } },
        { type: 'command.started', command: 'false' },
        { type: 'command.completed', command: 'false', exitCode: 1, durationMs: 50 },
        { type: 'tool.completed', tool: 'bash', output: '(no output)', durationMs: 50 },
      ],
    ],
    [
      'a command of Codex that failed',
      [
        {
          kind: 'execute',
          title: 'x',
          status: 'in_progress',
          rawInput: { command: 'x', cwd: '/ws/sub' },
        },
        { status: 'failed', _meta: { terminal_exit: { exit_code: 127 } } },
      ] as const,
      { permission: 'allowed' } as const,
      [
        { type: 'tool.called', tool: 'bash', input: { command: 'x', cwd: 'sub' } },
        { type: 'command.started', command: 'x', cwd: 'sub' },
        { type: 'command.failed', command: 'x', error: 'The tool failed', exitCode: 127 },
        { type: 'tool.failed', tool: 'bash', error: 'The tool failed' },
      ],
    ],
    [
      'a command that was denied, and never started',
      [...bash, { status: 'failed', rawOutput: 'User refused permission to run tool' }] as const,
      { permission: 'denied' } as const,
      [
        { type: 'tool.called', tool: 'bash', input: { command: 'echo hi' } },
        { type: 'tool.failed', tool: 'bash', error: 'User refused permission to run tool' },
      ],
    ],
    [
      'an edit of Claude Code, with the lines around it',
      [
        {
          kind: 'edit',
          rawInput: { file_path: '/ws/a.txt', old_string: 'two', new_string: 'TWO' },
          content: [{ type: 'diff', path: '/ws/a.txt', oldText: 'two', newText: 'TWO' }],
        },
        {
          content: [
            { type: 'diff', path: '/ws/a.txt', oldText: 'one\ntwo\n', newText: 'one\nTWO\n' },
          ],
        },
        { status: 'completed', rawOutput: 'Updated' },
      ] as const,
      { permission: 'allowed' } as const,
      [
        expect.objectContaining({ type: 'tool.called', tool: 'patch' }),
        {
          type: 'file.changed',
          path: 'a.txt',
          operation: 'update',
          diff: '--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO',
        },
        { type: 'tool.completed', tool: 'patch', output: 'Updated', durationMs: 50 },
      ],
    ],
    [
      'a change of Codex in two files',
      [
        {
          kind: 'edit',
          title: 'Editing files',
          content: [
            { type: 'diff', path: '/ws/new', oldText: null, newText: 'x\n' },
            { type: 'diff', path: '/ws/old', oldText: 'a\n', newText: 'b\n' },
          ],
        },
        { status: 'completed' },
      ] as const,
      { permission: 'allowed' } as const,
      [
        expect.objectContaining({ type: 'tool.called', tool: 'patch' }),
        expect.objectContaining({ type: 'file.changed', path: 'new', operation: 'create' }),
        expect.objectContaining({ type: 'file.changed', path: 'old', operation: 'update' }),
        { type: 'tool.completed', tool: 'patch', durationMs: 50 },
      ],
    ],
    [
      'a deleted file',
      [{ kind: 'delete', locations: [{ path: '/ws/a' }] }, { status: 'completed' }] as const,
      {},
      [
        expect.objectContaining({ type: 'tool.called', tool: 'patch' }),
        { type: 'file.changed', path: 'a', operation: 'delete' },
        { type: 'tool.completed', tool: 'patch', durationMs: 50 },
      ],
    ],
  ])('is reported: %s', (_what, updates, how, events) => {
    expect(reports(updates as never, how)).toEqual(events);
  });

  it('does not report more than can be stored', () => {
    const [, end] = reports([
      { kind: 'other', title: 'x', rawInput: { a: 1 } },
      { status: 'completed', rawOutput: 'y'.repeat(10_000_000) },
    ]);
    const output = end?.type === 'tool.completed' ? String(end.output) : '';
    expect(output.length).toBeLessThan(40_000);
    expect(output).toMatch(/… \d+ more characters$/);
  });
});
