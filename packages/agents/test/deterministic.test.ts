import type { ModelEvent, ModelRequest } from '@relay/core';
import type { Message } from '@relay/protocol';
import { describe, expect, test, vi } from 'vitest';
import {
  AgentOrchestrator,
  createAgentHarness,
  createDeterministicHarness,
  type Harness,
} from '../src/index.ts';
import {
  bash,
  messages,
  next,
  only,
  outputsOf,
  readAll,
  says,
  shell,
  textOf,
  turns,
} from './support/fixtures.ts';

async function ask(harness: Harness, asked: readonly Message[]): Promise<ModelEvent[]> {
  const request: ModelRequest = { model: 'any', messages: asked, tools: [] };
  const events: ModelEvent[] = [];
  for await (const batch of harness.stream(request, new AbortController().signal)) {
    events.push(...batch);
  }
  return events;
}

const user: Message = { role: 'user', content: 'Begin' };
const answer: Message = { role: 'assistant', content: 'An answer' };
const finish = { type: 'finish', reason: 'stop', usage: { inputTokens: 0, outputTokens: 0 } };

describe('createDeterministicHarness', () => {
  test('plays an array of events as one response, and nothing after it', async () => {
    const harness = createDeterministicHarness([says('One '), says('answer'), bash('tc-1', 'ls')]);
    expect(await ask(harness, [user])).toEqual([
      { type: 'text', text: 'One ' },
      { type: 'text', text: 'answer' },
      { type: 'tool-call', id: 'tc-1', name: 'bash', arguments: '{"command":"ls"}' },
      finish,
    ]);
    expect(await ask(harness, [user, answer])).toEqual([finish]);
  });

  test('plays one response per turn', async () => {
    const harness = createDeterministicHarness(turns([says('First')], [says('Second')]));
    expect(await ask(harness, [user])).toEqual([{ type: 'text', text: 'First' }, finish]);
    expect(await ask(harness, [user, answer])).toEqual([{ type: 'text', text: 'Second' }, finish]);
    expect(await ask(harness, [user, answer, answer])).toEqual([finish]);
  });

  test('selects the response by the transcript alone', async () => {
    const harness = createDeterministicHarness(turns([says('First')], [says('Second')]));
    for (let time = 0; time < 3; time += 1) {
      expect(await ask(harness, [user])).toContainEqual({ type: 'text', text: 'First' });
    }
  });

  test('starts at the first response after an earlier conversation', async () => {
    const harness = createDeterministicHarness(turns([says('First')], [says('Second')]));
    const earlier: Message[] = [user, answer, user, answer, answer];
    expect(await ask(harness, [...earlier, user])).toContainEqual({ type: 'text', text: 'First' });
    expect(await ask(harness, [...earlier, user, answer])).toContainEqual({
      type: 'text',
      text: 'Second',
    });
  });

  test('can return nothing from the first turn on', async () => {
    expect(await ask(createDeterministicHarness([]), [user])).toEqual([finish]);
    expect(await ask(createDeterministicHarness({ responses: [] }), [user])).toEqual([finish]);
  });

  test('plays reasoning and usage', async () => {
    const harness = createDeterministicHarness([
      { type: 'reasoning', content: 'Hm' },
      { type: 'usage', inputTokens: 12, outputTokens: 5 },
    ]);
    const events = await readAll(createAgentHarness({ harness }).invoke({ messages }));
    expect(only(events, 'reasoning').map(({ content }) => content)).toEqual(['Hm']);
    expect(only(events, 'harness_end')[0]).toMatchObject({
      reason: 'completed',
      totalUsage: { inputTokens: 12, outputTokens: 5 },
    });
  });

  test('can fail as a provider does', async () => {
    const harness = createDeterministicHarness([
      says('Half'),
      { type: 'error', message: 'No more' },
    ]);
    const events = await readAll(createAgentHarness({ harness }).invoke({ messages }));
    expect(only(events, 'error')[0]).toMatchObject({
      message: 'No more',
      code: 'provider_rejected',
    });
    expect(only(events, 'harness_end')[0]).toMatchObject({ reason: 'failed' });
  });
});

describe('agents that share a script', () => {
  test('each have their own position, also at the same time', async () => {
    const harness = createDeterministicHarness(
      turns([bash('tc-1', 'one')], [bash('tc-2', 'two')], [says('Done')]),
    );
    const agent = createAgentHarness({ harness });
    const { tool, ran } = shell(async () => {
      await new Promise((resolve) => setTimeout(resolve, 2));
      return { context: 'ok' };
    });
    const permissions = { allowlist: [{ tool: 'bash' }] };
    const all = await Promise.all(
      [1, 2, 3].map(() => readAll(agent.invoke({ messages, tools: [tool], permissions }))),
    );
    expect(all.map(textOf)).toEqual(['Done', 'Done', 'Done']);
    expect(ran.toSorted()).toEqual(['one', 'one', 'one', 'two', 'two', 'two']);
  });
});

describe('an unanswered relay', () => {
  test('expires, and the run continues to its end', async () => {
    const harness = createDeterministicHarness(turns([bash('tc-1', 'rm -rf /')], [says('Then')]), {
      relayTimeoutMs: 30,
    });
    const { tool, ran } = shell();
    const agent = createAgentHarness({ harness });
    const events = await readAll(agent.invoke({ messages, tools: [tool] }));
    expect(only(events, 'relay')).toHaveLength(1);
    expect(outputsOf(events)).toEqual({
      'tc-1': { status: 'expired', reason: 'The approval expired without a decision' },
    });
    expect(textOf(events)).toBe('Then');
    expect(ran).toEqual([]);
    // The answer comes too late, and changes nothing.
    only(events, 'relay')[0]?.respond({ approved: true });
    expect(ran).toEqual([]);
  });

  test('waits two seconds by default', () => {
    expect(createDeterministicHarness([]).relayTimeoutMs).toBe(2_000);
    expect(createDeterministicHarness([], { relayTimeoutMs: 5 }).relayTimeoutMs).toBe(5);
  });

  test.each([Infinity, Number.NaN, 2 ** 60])('can wait forever: %s', async (relayTimeoutMs) => {
    const harness = createDeterministicHarness([bash('tc-1', 'ls')], { relayTimeoutMs });
    const { tool, ran } = shell();
    const stream = createAgentHarness({ harness }).invoke({ messages, tools: [tool] });
    const relay = await next(stream, 'relay');
    await new Promise((resolve) => setTimeout(resolve, 20));
    relay.respond({ approved: true });
    await readAll(stream);
    expect(ran).toEqual(['ls']);
  });

  test('expires by fake timers', async () => {
    vi.useFakeTimers();
    try {
      const harness = createDeterministicHarness([bash('tc-1', 'ls')], { relayTimeoutMs: 60_000 });
      const stream = createAgentHarness({ harness }).invoke({ messages, tools: [shell().tool] });
      const reading = readAll(stream);
      await vi.advanceTimersByTimeAsync(59_000);
      await vi.advanceTimersByTimeAsync(1_001);
      expect(outputsOf(await reading)).toMatchObject({ 'tc-1': { status: 'expired' } });
    } finally {
      vi.useRealTimers();
    }
  });

  test('expires many times in sequence and in parallel', async () => {
    const script = turns(...[1, 2, 3, 4].map((n) => [bash(`tc-${n}`, 'x'), bash(`tc-${n}b`, 'y')]));
    const all = await Promise.all(
      Array.from({ length: 40 }, (_, n) => {
        const harness = createDeterministicHarness(script, { relayTimeoutMs: n % 5 });
        return readAll(createAgentHarness({ harness }).invoke({ messages, tools: [shell().tool] }));
      }),
    );
    for (const events of all) {
      expect(Object.values(outputsOf(events))).toHaveLength(8);
      for (const output of Object.values(outputsOf(events))) {
        expect(output).toMatchObject({ status: 'expired' });
      }
    }
  });

  test('runs the call only if it was answered in time, also at the last instant', async () => {
    const relayTimeoutMs = 6;
    const harness = createDeterministicHarness([bash('tc-1', 'x')], { relayTimeoutMs });
    await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const { tool, ran } = shell();
        const orchestrator = new AgentOrchestrator(createAgentHarness({ harness }));
        orchestrator.spawn({ messages, tools: [tool] });
        let counted: boolean | undefined;
        for await (const { event } of orchestrator.events()) {
          if (event.type !== 'relay') continue;
          const answer = () => (counted = orchestrator.resolveRelay(event.id, { approved: true }));
          setTimeout(answer, n % 10);
        }
        if (counted !== true) expect(ran).toEqual([]);
        if (ran.length > 0) expect(counted).toBe(true);
      }),
    );
  });
});
