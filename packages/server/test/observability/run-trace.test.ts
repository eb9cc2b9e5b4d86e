import type { RunEvent, StoredEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, it } from 'vitest';
import {
  RunTrace,
  timestampOf,
  type Span,
  spanIdOf,
  traceIdOf,
} from '../../src/observability/run-trace.ts';

const runId = uuidv7();
const root = { agentId: uuidv7() };
const sub = { agentId: uuidv7(), parentId: root.agentId };
const begin = timestampOf(runId);
const usage = { inputTokens: 3, outputTokens: 4 };

/** Events at given moments after the run was made. */
function journal(...script: readonly (readonly [ms: number, event: RunEvent])[]): StoredEvent[] {
  return script.map(([ms, event], n) => ({
    ...event,
    seq: n + 1,
    at: new Date(begin + ms).toISOString(),
  }));
}

function spansOf(events: readonly StoredEvent[]): Span[] {
  const trace = new RunTrace(runId, 'tenant');
  return events.flatMap((event) => trace.apply(event));
}

const started: RunEvent = { type: 'agent.started', ...root, name: 'assistant', model: 'gpt-4o' };
const turn = (n: number, of = root): RunEvent => ({
  type: 'turn.started',
  ...of,
  turn: n,
  textId: uuidv7(),
  reasoningId: uuidv7(),
});
const completed = (n: number, of = root): RunEvent => ({
  type: 'turn.completed',
  ...of,
  turn: n,
  finishReason: 'stop',
  usage,
});
const call = { ...root, toolCallId: 'call_1', name: 'agent' };
const intent: RunEvent = { type: 'tool.started', ...call, input: {}, idempotencyKey: 'k' };

describe('a model call', () => {
  it('begins when its model could be called, not with its first token', () => {
    const [chat] = spansOf(journal([10, started], [50, turn(1)], [90, completed(1)]));
    expect(chat).toMatchObject({
      name: 'chat gpt-4o',
      kind: 'client',
      startMs: begin + 10,
      endMs: begin + 90,
      attributes: {
        'relay.first_token_ms': 40,
        'gen_ai.provider.name': 'openai',
        'gen_ai.usage.input_tokens': 3,
        'gen_ai.usage.output_tokens': 4,
      },
    });
  });

  it.each([
    ['gpt-4o', 'openai', 'gpt-4o'],
    ['claude-opus-4-5', 'anthropic', 'claude-opus-4-5'],
    ['gemini-2.5-pro', 'gcp.gemini', 'gemini-2.5-pro'],
    ['google:gemini-x', 'gcp.gemini', 'gemini-x'],
    ['mistral:large', 'mistral_ai', 'large'],
    ['groq:llama', 'groq', 'llama'],
    ['my-own:model/a', 'my-own', 'model/a'],
    ['demo', 'demo', 'demo'],
    ['something-else', undefined, 'something-else'],
  ])('of %s has the provider %s of the conventions, and the model %s', (name, provider, model) => {
    const agent: RunEvent = { ...started, model: name } as RunEvent;
    const [chat] = spansOf(journal([0, agent], [5, turn(1)], [9, completed(1)]));
    expect(chat?.attributes['gen_ai.provider.name']).toBe(provider);
    expect(chat?.attributes['gen_ai.request.model']).toBe(model);
  });

  it('names the model that answered, and counts cached and reasoning tokens', () => {
    const detailed: RunEvent = {
      type: 'turn.completed',
      ...root,
      turn: 1,
      finishReason: 'stop',
      responseModel: 'gpt-4o-2024-08-06',
      usage: { ...usage, cachedInputTokens: 2, cacheWriteTokens: 1, reasoningTokens: 3 },
    };
    const [chat] = spansOf(journal([0, started], [5, turn(1)], [9, detailed]));
    expect(chat?.attributes).toMatchObject({
      'gen_ai.response.model': 'gpt-4o-2024-08-06',
      'gen_ai.usage.input_tokens': 3,
      'gen_ai.usage.cache_read.input_tokens': 2,
      'gen_ai.usage.cache_creation.input_tokens': 1,
      'gen_ai.usage.output_tokens': 4,
      'gen_ai.usage.reasoning.output_tokens': 3,
    });
    const [plain] = spansOf(journal([0, started], [5, turn(1)], [9, completed(1)]));
    expect(plain?.attributes['gen_ai.usage.cache_read.input_tokens']).toBeUndefined();
  });

  it('starts again after its tools, after a decision and after a failed attempt', () => {
    const spans = spansOf(
      journal(
        [0, started],
        [5, turn(1)],
        [9, completed(1)],
        [10, intent],
        [20, { type: 'tool.completed', ...call }],
        [30, turn(2)],
        [
          40,
          {
            type: 'turn.discarded',
            ...root,
            turn: 2,
            textId: uuidv7(),
            after: 1,
            reason: 'retry',
            code: 'provider_failed',
          },
        ],
        [60, turn(2)],
        [70, completed(2)],
        [80, { type: 'run.resumed', progress: { partialOutput: '', toolsInvoked: [] } }],
        [95, turn(3)],
        [99, completed(3)],
      ),
    );
    const chats = spans.filter(({ name }) => name.startsWith('chat'));
    expect(chats.map(({ startMs, endMs }) => [startMs - begin, endMs - begin])).toEqual([
      [0, 9],
      [20, 40],
      [40, 70],
      [80, 99],
    ]);
    expect(chats.map(({ error }) => error)).toEqual([
      undefined,
      'provider_failed',
      undefined,
      undefined,
    ]);
    expect(new Set(chats.map(({ id }) => id)).size).toBe(4);
  });

  it('that was cancelled ends with the agent', () => {
    const spans = spansOf(
      journal(
        [0, started],
        [5, turn(1)],
        [9, { type: 'agent.ended', ...root, reason: 'canceled', iterations: 0, usage }],
      ),
    );
    expect(spans.map(({ name, error }) => [name, error])).toEqual([
      ['chat gpt-4o', 'canceled'],
      ['invoke_agent assistant', undefined],
    ]);
  });
});

describe('a sub-agent', () => {
  it('is a child of the call that spawned it', () => {
    const spans = spansOf(
      journal(
        [0, started],
        [1, intent],
        [
          2,
          {
            type: 'agent.started',
            ...sub,
            name: 'helper',
            model: 'demo',
            spawned: { toolCallId: 'call_1', nth: 1, task: 'secret task', tools: [] },
          },
        ],
        [3, turn(1, sub)],
        [4, completed(1, sub)],
        [5, { type: 'agent.ended', ...sub, reason: 'completed', iterations: 1, usage }],
        [6, { type: 'tool.completed', ...call, durationMs: 4 }],
      ),
    );
    const [chat, agent, tool] = spans;
    expect(chat?.parentId).toBe(agent?.id);
    expect(agent?.parentId).toBe(tool?.id);
    expect(tool?.parentId).toBe(spanIdOf(runId, 'agent', root.agentId));
    expect((tool?.endMs ?? 0) - (tool?.startMs ?? 0)).toBe(4);
    expect(JSON.stringify(spans)).not.toContain('secret');
  });
});

describe('a tool call', () => {
  const ended = (event: RunEvent) => spansOf(journal([0, started], [10, intent], [30, event]))[0];

  it('lasts from its intent to its result if there is no measured duration', () => {
    const span = ended({ type: 'tool.completed', ...call });
    expect([span?.startMs, span?.endMs]).toEqual([begin + 10, begin + 30]);
  });

  it('has an error code, not a message', () => {
    const span = ended({
      type: 'tool.failed',
      ...call,
      code: 'tool_failed',
      error: 'no such file: /home/ada/secret',
    });
    expect(span?.error).toBe('tool_failed');
    expect(JSON.stringify(span)).not.toContain('secret');
  });

  it('that was denied has no duration', () => {
    const [span] = spansOf(
      journal([0, started], [5, { type: 'tool.denied', ...call, status: 'denied', reason: 'no' }]),
    );
    expect(span).toMatchObject({ startMs: begin + 5, endMs: begin + 5 });
    expect(span?.attributes['relay.tool.outcome']).toBe('denied');
  });

  it('with a sentence as its name has no name', () => {
    const odd = { ...root, toolCallId: 'please delete the file', name: 'please delete it' };
    const [span] = spansOf(
      journal([5, { type: 'tool.failed', ...odd, code: 'unknown_tool', error: 'x' }]),
    );
    expect(span?.name).toBe('execute_tool');
    expect(JSON.stringify(span)).not.toContain('please');
  });
});

describe('an approval', () => {
  const approvalId = uuidv7();
  const approval = { ...root, approvalId, toolCallId: 'call_1' };

  it.each([
    ['expired', { type: 'approval.expired', ...approval }],
    ['closed', { type: 'approval.closed', ...approval, reason: 'secret' }],
  ] as const)(
    'that %s is exported even if this node has not seen the request',
    (outcome, event) => {
      const [span] = spansOf(journal([5_000, event]));
      expect(span).toMatchObject({ name: 'approval', startMs: timestampOf(approvalId) });
      expect(span?.attributes['relay.approval.outcome']).toBe(outcome);
      expect(JSON.stringify(span)).not.toContain('secret');
    },
  );
});

describe('the ids', () => {
  it('are valid in OpenTelemetry', () => {
    expect(traceIdOf(runId)).toMatch(/^[0-9a-f]{32}$/);
    expect(spanIdOf(runId, 'run')).toMatch(/^[0-9a-f]{16}$/);
    expect(spanIdOf(runId, 'a', 'bc')).not.toBe(spanIdOf(runId, 'ab', 'c'));
  });

  it('contain their creation time', () => {
    const before = Date.now();
    const made = timestampOf(uuidv7());
    expect(made).toBeGreaterThanOrEqual(before - 1);
    expect(made).toBeLessThanOrEqual(Date.now() + 1_000);
  });
});
