import type { RunHandle, RunStreamEvent } from '@relay/sdk';
import { describe, expect, test } from 'vitest';
import { followRun, Transcript } from '../../src/output/transcript.ts';
import { Print } from '../../src/output/print.ts';
import { fakeEnvironment, type FakeEnvironment } from '../support/environment.ts';

type Unnumbered<Event> = Event extends unknown ? Omit<Event, 'seq'> : never;

type Events = readonly Unnumbered<RunStreamEvent>[];

/** On a terminal without styles. */
function shown(...events: Events): string {
  return shownIn(fakeEnvironment({ isTTY: true, env: { NO_COLOR: '1' } }), events);
}

function shownIn(environment: FakeEnvironment, events: Events): string {
  const transcript = new Transcript(new Print(environment, false));
  for (const [index, event] of events.entries()) transcript.show({ ...event, seq: index + 1 });
  return environment.out();
}

const done = {
  type: 'done',
  status: 'completed',
  output: '',
  usage: { inputTokens: 0, outputTokens: 0 },
} as const;
const say = (text: string) => ({ type: 'token', text }) as const;

describe('a transcript', () => {
  test('prints text continuously and every other event on its own line', () => {
    const text = shown(
      say('I look'),
      say(' it up.'),
      { type: 'tool_call', id: 'c', name: 'calculator', input: { a: 1 } },
      { type: 'tool_result', id: 'c', output: 2 },
      say('It is 2.'),
      done,
    );
    expect(text).toBe('I look it up.\n→ calculator {"a":1}\n← 2\nIt is 2.\n');
  });

  test('prints who sent a message to the run, with nothing that a terminal would execute', () => {
    const from = { type: 'session', id: 's', name: 'ada\u001b[2J' } as const;
    const text = shown(
      say('So '),
      { type: 'reset', after: 1 },
      { type: 'message', id: 'm', from, content: 'Wait' },
      say('Yes.'),
      done,
    );
    expect(text).toContain(': "Wait"\nYes.\n');
    expect(text).toMatch(/\n@ ada/);
    expect(text).not.toContain('\u001b[2J');
  });

  test.each([
    ['length', '(cut at the token limit)'],
    ['refusal', '(the model refused)'],
    ['content_filter', '(blocked by the provider’s content filter)'],
    ['context_exceeded', '(cut: the context window is full)'],
  ] as const)('says that an answer is not whole: %s', (finishReason, note) => {
    expect(shown(say('Once'), { ...done, finishReason })).toBe(`Once\n${note}\n`);
    expect(shown(say('Once'), { ...done, finishReason: 'stop' })).toBe('Once\n');
  });

  test('does not mention an answer that was interrupted before its first word', () => {
    const call = { type: 'tool_call', id: 'c', name: 'calculator', input: {} } as const;
    const again = { type: 'reset', after: 1 } as const;
    expect(shown(again, again, say('Hi'), done)).toBe('Hi\n');
    expect(shown(say('I look'), call, again, say('Hi'), done)).toBe(
      'I look\n→ calculator {}\nHi\n',
    );
  });

  test('reports discarded text, approvals and errors', () => {
    const call = { toolCallId: 'c', tool: 'send_note', params: {}, agentId: 'a' };
    const text = shown(
      say('Half an'),
      { type: 'reset', after: 0 },
      { type: 'approval_requested', id: 'r1', kind: 'permission', ...call },
      { type: 'approval_expiring', id: 'r1', expiresAt: '2026-11-15T12:00:00Z' },
      { type: 'approval_resolved', id: 'r1', status: 'expired' },
      { type: 'approval_requested', id: 'q1', kind: 'question', ...call },
      { type: 'approval_resolved', id: 'q1', status: 'approved', executedParams: { size: 2 } },
      { type: 'error', error: 'The provider\nfailed', code: 'provider_failed', retryable: true },
    );
    expect(text.split('\n')).toEqual([
      'Half an',
      '· the answer was interrupted and starts again:',
      '? send_note waits for approval (id r1)',
      '! approval r1 expires at 2026-11-15 12:00:00Z',
      '· expired',
      '? send_note waits for an answer (id q1)',
      '· answered',
      '✗ The provider failed [provider_failed]',
      '',
    ]);
  });

  test('says whose the results and decisions of calls are that run together', () => {
    const request = { kind: 'permission', params: {}, agentId: 'a' } as const;
    const text = shown(
      { type: 'tool_call', id: 'c1', name: 'find', input: {} },
      { type: 'tool_call', id: 'c2', name: 'pay', input: {} },
      { type: 'approval_requested', id: 'r1', toolCallId: 'c2', tool: 'pay', ...request },
      { type: 'tool_result', id: 'c1', output: 1 },
      { type: 'approval_resolved', id: 'r1', status: 'approved' },
      { type: 'tool_result', id: 'c2', output: 2 },
      { type: 'tool_call', id: 'c3', name: 'find', input: {} },
      { type: 'tool_result', id: 'c3', output: 3 },
    );
    expect(text.split('\n')).toEqual([
      '→ find {}',
      '→ pay {}',
      '? pay waits for approval (id r1)',
      '← find 1',
      '· pay approved',
      '← pay 2',
      '→ find {}',
      '← 3',
      '',
    ]);
  });

  test('prints text in a pipe when it is complete, and nothing of what was discarded', () => {
    const events = [
      say('Half an'),
      { type: 'reset', after: 0 },
      say('A whole'),
      say(' one'),
    ] as const;
    const call = { type: 'tool_call', id: 'c', name: 'calculator', input: {} } as const;
    expect(shownIn(fakeEnvironment(), events)).toBe('');
    expect(shownIn(fakeEnvironment(), [...events, done])).toBe('A whole one\n');
    expect(shownIn(fakeEnvironment(), [...events, call])).toBe('A whole one\n→ calculator {}\n');
  });

  test('goes on in the same line of a pipe after a note, which is elsewhere', () => {
    const environment = fakeEnvironment();
    const transcript = new Transcript(new Print(environment, false));
    transcript.text('One ');
    transcript.breakLine();
    transcript.text('answer');
    transcript.endText();
    expect(environment.out()).toBe('One answer\n');
  });

  test('shows the arguments that a call runs with if the approver changed them', () => {
    const resolved = { type: 'approval_resolved', id: 'r1', status: 'approved' } as const;
    expect(shown({ ...resolved, executedParams: { text: 'better\u001b[2J' } })).toBe(
      '· approved\n→ changed by the approver to {"text":"better\\u001b[2J"}\n',
    );
    expect(shown(resolved)).toBe('· approved\n');
  });

  test('shows the answer to an unknown outcome, and the answers that it asks for', () => {
    const resolved = { type: 'approval_resolved', id: 'r1', status: 'approved' } as const;
    expect(shown({ ...resolved, outcome: 'completed' })).toBe('· completed\n');
    const call = { toolCallId: 'c', tool: 'pay', params: {}, agentId: 'a' };
    expect(shown({ type: 'approval_requested', id: 'r1', kind: 'outcome', ...call })).toBe(
      '? pay was started before a crash or a stop of the server and may have taken effect: ' +
        'relay approvals answer r1 (--completed JSON | --failed [REASON] | --rerun)\n',
    );
  });

  test('joins surrogate pairs that arrive in two events', () => {
    expect(shown(say('a\uD83D'), say('\uDE00b'), done)).toBe('a😀b\n');
    expect(shown(say('a\uD83D'), done)).toBe('a\\u{d83d}\n');
  });

  test('escapes control characters of models and tools', () => {
    const text = shown(
      say('\u001B[2J'),
      { type: 'tool_call', id: 'c', name: 'x\u001B[1A', input: '\u009B' },
      { type: 'error', error: '\u0007', code: 'internal', retryable: false },
    );
    // oxlint-disable-next-line no-control-regex
    expect(text).not.toMatch(/[\u0000-\u0009\u000B-\u001F\u0080-\u009F]/);
  });

  test('shortens a large result', () => {
    const text = shown({ type: 'tool_result', id: 'c', output: 'x'.repeat(10_000) });
    expect(text.length).toBeLessThan(500);
  });
});

describe('followRun', () => {
  const run = (status: 'completed' | 'failed' | 'canceled', error?: object) =>
    ({
      async *[Symbol.asyncIterator]() {
        yield { ...done, status, seq: 1 };
      },
      result: async () => ({ ...done, id: 'r', status, ...(error === undefined ? {} : { error }) }),
    }) as unknown as RunHandle;

  test('throws if the run fails or is canceled', async () => {
    const follow = (handle: RunHandle) => followRun(new Print(fakeEnvironment(), false), handle);
    await expect(follow(run('completed'))).resolves.toBeUndefined();
    await expect(follow(run('canceled'))).rejects.toMatchObject({ code: 'run_canceled', exit: 7 });
    const error = { message: 'No money', code: 'budget_exceeded', retryable: true };
    await expect(follow(run('failed', error))).rejects.toMatchObject({
      message: 'No money',
      code: 'budget_exceeded',
      exit: 7,
    });
  });

  test('prints one JSON value per line with --json', async () => {
    const environment = fakeEnvironment();
    await followRun(new Print(environment, true), run('completed'));
    expect(JSON.parse(environment.out())).toMatchObject({ type: 'done', seq: 1 });
    expect(environment.err()).toBe('');
  });
});
