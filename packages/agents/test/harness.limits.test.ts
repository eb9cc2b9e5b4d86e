/** What a run may use up, and how it stays within the window of its model. */
import { describe, expect, test } from 'vitest';
import {
  agentTool,
  createAgentHarness,
  createDeterministicHarness,
  defineAgent,
  type Harness,
  type ModelRequest,
  ProviderFailure,
} from '../src/index.ts';
import {
  harnessWith,
  delegate,
  messages,
  only,
  outputsOf,
  readAll,
  says,
  shell,
  textOf,
  turns,
} from './support/fixtures.ts';

const permissions = { allowlist: [{ tool: 'bash' }] };

/** A model that always wants one more call, unless it is offered none. */
function insatiable(): Harness {
  return {
    async *stream({ tools, messages: read }) {
      yield tools.length === 0
        ? [{ type: 'text', text: 'That is all' }]
        : [
            {
              type: 'tool-call',
              id: `c${read.length}`,
              name: 'bash',
              arguments: '{"command":"ls"}',
            },
          ];
      yield [{ type: 'finish', reason: 'stop', usage: { inputTokens: 10, outputTokens: 5 } }];
    },
  };
}

describe('the limit of an answer', () => {
  test('fails the invocation when the model does not end', async () => {
    const endless: Harness = {
      maxAnswerChars: 100,
      async *stream() {
        for (;;) yield [{ type: 'text', text: 'again ' }];
      },
    };
    const events = await readAll(createAgentHarness({ harness: endless }).invoke({ messages }));
    expect(JSON.stringify(only(events, 'error'))).toContain('more than 100 characters');
    expect(only(events, 'harness_end')[0]?.reason).toBe('failed');
  });
});

describe('a limit', () => {
  test.each([
    ['turns of the harness', { harness: { maxIterations: 3 } }, 'iterations', 3],
    ['turns of the invocation', { invoke: { maxIterations: 2 } }, 'iterations', 2],
    ['tokens', { invoke: { limits: { tokens: 30 } } }, 'tokens', 2],
    ['tool calls', { invoke: { limits: { toolCalls: 1 } } }, 'toolCalls', 1],
    ['tool calls, none at all', { invoke: { limits: { toolCalls: 0 } } }, 'toolCalls', 0],
    [
      'tokens of the harness, under those of the invocation',
      { harness: { limits: { tokens: 15 } }, invoke: { limits: { toolCalls: 9 } } },
      'tokens',
      1,
    ],
  ])(
    'of %s ends the run after one last turn without tools',
    async (_what, options, limit, calls) => {
      const given: { harness?: object; invoke?: object } = options;
      const { tool, ran } = shell();
      const agent = createAgentHarness({ harness: insatiable(), ...given.harness });
      const events = await readAll(
        agent.invoke({ messages, tools: [tool], permissions, ...given.invoke }),
      );
      expect(only(events, 'limit').map((event) => event.limit)).toEqual([limit]);
      expect(ran).toHaveLength(calls);
      expect(textOf(events)).toBe('That is all');
      expect(only(events, 'harness_end')[0]?.reason).toBe('limit');
    },
  );

  test('on time also ends a run that waits for an answer', async () => {
    const { tool, ran } = shell();
    const agent = createAgentHarness({ harness: insatiable() });
    const events = await readAll(agent.invoke({ messages, tools: [tool], limits: { timeMs: 60 } }));
    expect(only(events, 'relay')).toHaveLength(1);
    expect(only(events, 'limit').map(({ limit }) => limit)).toEqual(['time']);
    expect(only(events, 'harness_end')[0]?.reason).toBe('limit');
    expect(ran).toEqual([]);
  });

  test('on cost uses the prices of the harness', async () => {
    const { tool, ran } = shell();
    const price = () => ({ inputPerMillion: 1_000, outputPerMillion: 1_000 });
    const agent = createAgentHarness({ harness: { ...insatiable(), price } });
    const limits = { costUsd: 0.02 };
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions, limits }));
    expect(only(events, 'limit').map(({ limit }) => limit)).toEqual(['cost']);
    expect(ran).toHaveLength(2);
    expect(only(events, 'harness_end')[0]?.totalUsage.costUsd).toBeCloseTo(0.045);
  });

  test('on depth removes the agent tool where it cannot be used', async () => {
    const offered: string[][] = [];
    const watched = (harness: Harness): Harness => ({
      stream(request, signal) {
        offered.push(request.tools.map(({ name }) => name));
        return harness.stream(request, signal);
      },
    });
    const root = watched(
      createDeterministicHarness(turns([delegate('tc-1', 'helper')], [says('x')])),
    );
    const helper = watched(createDeterministicHarness([says('y')]));
    const agent = createAgentHarness({
      harness: { ...root, resolve: (name) => (name === 'helper' ? helper : root) },
      agents: [defineAgent({ name: 'helper', model: 'helper', tools: [agentTool] })],
      limits: { depth: 1 },
    });
    await readAll(agent.invoke({ messages, model: 'root', tools: [agentTool] }));
    expect(offered).toEqual([['agent'], [], ['agent']]);
  });

  test('on sub-agents rejects the next one', async () => {
    const harness = harnessWith({
      root: turns([delegate('tc-1', 'helper'), delegate('tc-2', 'helper')], [says('Done')]),
      helper: [says('Helped')],
    });
    const agents = [defineAgent({ name: 'helper', model: 'helper', tools: [] })];
    const agent = createAgentHarness({ harness, agents });
    const limits = { subAgents: 1 };
    const events = await readAll(agent.invoke({ messages, tools: [agentTool], limits }));
    expect(outputsOf(events)).toMatchObject({
      'tc-1': { context: 'Helped' },
      'tc-2': { status: 'error', code: 'limit_reached' },
    });
  });

  test('of an agent applies to that agent', async () => {
    const { tool, ran } = shell();
    const agent = defineAgent({ name: 'short', maxIterations: 1, tools: [tool] });
    const loop = createAgentHarness({ harness: insatiable(), maxIterations: 9 });
    await readAll(loop.invoke({ messages, agent, permissions }));
    expect(ran).toHaveLength(1);
  });
});

describe('compaction', () => {
  const long = 'word '.repeat(400);

  /** Calls the tool until it has a summary of what was before, and answers then. */
  function forgetful(requests: ModelRequest[], contextTokens?: number): Harness {
    return {
      ...(contextTokens === undefined ? {} : { contextTokens }),
      async *stream(request) {
        requests.push(request);
        const texts = request.messages.map(({ content }) => JSON.stringify(content));
        const usage = { inputTokens: 1, outputTokens: 1 };
        if (texts.some((text) => text.includes('<conversation>'))) {
          yield [{ type: 'text', text: 'They want words.' }];
        } else if (texts.some((text) => text.includes('They want words.'))) {
          yield [{ type: 'text', text: 'I remember' }];
        } else {
          const id = `c${request.messages.length}`;
          yield [{ type: 'tool-call', id, name: 'bash', arguments: '{"command":"ls"}' }];
        }
        yield [{ type: 'finish', reason: 'stop', usage }];
      },
    };
  }

  test.each([
    ['that the model declares', 2_000, {}],
    ['that the program sets', undefined, { windowTokens: 2_000 }],
  ])('keeps the conversation within the window %s', async (_what, window, compaction) => {
    const requests: ModelRequest[] = [];
    const { tool } = shell(() => ({ context: long }));
    const agent = createAgentHarness({ harness: forgetful(requests, window), compaction });
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(textOf(events)).toBe('I remember');
    const summarizing = requests.filter(({ tools }) => tools.length === 0);
    expect(summarizing).toHaveLength(1);
    const last =
      requests
        .at(-1)
        ?.messages.map(({ content }) => JSON.stringify(content))
        .join('') ?? '';
    expect(last).toContain('They want words.');
    expect(last.length).toBeLessThan(long.length * 4);
  });

  test('uses the model that is configured for it', async () => {
    const requests: ModelRequest[] = [];
    const { tool } = shell(() => ({ context: long }));
    const compaction = { windowTokens: 2_000, model: 'small' };
    const agent = createAgentHarness({ harness: forgetful(requests), compaction, model: 'large' });
    await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(requests.find(({ tools }) => tools.length === 0)?.model).toBe('small');
    expect(requests[0]?.model).toBe('large');
  });

  test('runs when a provider rejects the prompt as too long', async () => {
    const requests: ModelRequest[] = [];
    const forgetting = forgetful(requests);
    const harness: Harness = {
      stream(request, signal) {
        const chars = JSON.stringify(request.messages).length;
        if (request.tools.length > 0 && chars > 12_000) {
          throw new ProviderFailure('Too long', { retryable: false, contextExceeded: true });
        }
        return forgetting.stream(request, signal);
      },
    };
    const { tool } = shell(() => ({ context: long }));
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(textOf(events)).toBe('I remember');
    expect(only(events, 'error')).toEqual([]);
  });

  test('does not run for a model with an unknown window', async () => {
    const requests: ModelRequest[] = [];
    const { tool, ran } = shell(() => ({ context: long }));
    const agent = createAgentHarness({ harness: forgetful(requests), maxIterations: 6 });
    await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(ran).toHaveLength(6);
  });
});
