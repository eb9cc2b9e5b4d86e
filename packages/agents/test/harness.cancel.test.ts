/** Leaving early cancels the run, however it is done, and nothing hangs. */
import { createScriptedModel, finish, text, toolCall } from '@relay/core/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  createAgentHarness,
  createDeterministicHarness,
  type Harness,
  type ToolOutput,
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
  turns,
  typesOf,
} from './support/fixtures.ts';

const unhandled: unknown[] = [];
const note = (reason: unknown) => void unhandled.push(reason);

beforeEach(() => void process.on('unhandledRejection', note));
afterEach(async () => {
  await new Promise((resolve) => setTimeout(resolve, 5));
  process.off('unhandledRejection', note);
  expect(unhandled.splice(0)).toEqual([]);
});

/** A model that says one word and then nothing more, until it is stopped. */
function endless(): Harness & { readonly stopped: () => boolean } {
  let stopped = false;
  return {
    stopped: () => stopped,
    async *stream(_request, signal) {
      yield [{ type: 'text', text: 'One' }];
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      stopped = true;
    },
  };
}

/** A tool that runs until its signal aborts. */
function waitingTool() {
  let aborted = 0;
  const { tool, ran, contexts } = shell(
    (_command, { signal }) =>
      new Promise<ToolOutput>((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          aborted += 1;
          reject(new Error('Stopped'));
        });
      }),
  );
  return { tool, ran, contexts, aborted: () => aborted };
}

const asking = () =>
  createDeterministicHarness(turns([bash('tc-1', 'rm')], [says('Done')]), {
    relayTimeoutMs: Infinity,
  });
const permissions = { allowlist: [{ tool: 'bash' }] };

describe('leaving the loop', () => {
  test('stops the model', async () => {
    const harness = endless();
    for await (const event of createAgentHarness({ harness }).invoke({ messages })) {
      if (event.type === 'text') break;
    }
    expect(harness.stopped()).toBe(true);
  });

  test('aborts the signal of a running tool', async () => {
    const { tool, aborted } = waitingTool();
    const harness = createDeterministicHarness([bash('tc-1', 'sleep')]);
    const agent = createAgentHarness({ harness });
    for await (const event of agent.invoke({ messages, tools: [tool], permissions })) {
      if (event.type === 'tool_call') break;
    }
    expect(aborted()).toBe(1);
  });

  test('does not wait forever for a tool that ignores its signal', async () => {
    const { tool } = shell(() => new Promise<never>(() => undefined));
    const harness = createDeterministicHarness([bash('tc-1', 'sleep')]);
    const agent = createAgentHarness({ harness });
    const began = performance.now();
    for await (const event of agent.invoke({ messages, tools: [tool], permissions })) {
      if (event.type === 'tool_call') break;
    }
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test('closes a waiting relay, and later answers are ignored', async () => {
    const { tool, ran } = shell();
    const agent = createAgentHarness({ harness: asking() });
    let respond: (() => void) | undefined;
    for await (const event of agent.invoke({ messages, tools: [tool] })) {
      if (event.type !== 'relay') continue;
      respond = () => event.respond({ approved: true });
      break;
    }
    respond?.();
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(ran).toEqual([]);
  });

  test('by an exception propagates the exception', async () => {
    const harness = endless();
    const reading = (async () => {
      for await (const event of createAgentHarness({ harness }).invoke({ messages })) {
        if (event.type === 'text') throw new Error('Of the program');
      }
    })();
    await expect(reading).rejects.toThrow('Of the program');
    expect(harness.stopped()).toBe(true);
  });

  test('by return or throw works while the next event is awaited', async () => {
    for (const leave of ['return', 'throw'] as const) {
      const harness = endless();
      const stream = createAgentHarness({ harness }).invoke({ messages });
      await next(stream, 'text');
      const waiting = stream.next();
      if (leave === 'return') await stream.return();
      else await expect(stream.throw?.(new Error('Enough'))).rejects.toThrow('Enough');
      expect(await waiting).toEqual({ done: true, value: undefined });
      expect(harness.stopped()).toBe(true);
    }
  });

  test('by the end of an await using block works too', async () => {
    const harness = endless();
    {
      await using stream = createAgentHarness({ harness }).invoke({ messages });
      await next(stream, 'text');
    }
    expect(harness.stopped()).toBe(true);
  });

  test('at the first event leaves no unhandled rejection', async () => {
    const harness = endless();
    const stream = createAgentHarness({ harness }).invoke({ messages });
    await stream.next();
    await stream.return();
    expect(await stream.next()).toEqual({ done: true, value: undefined });
  });

  test('before the first read does not start the run', async () => {
    const model = createScriptedModel([[text('Hi'), finish()]]);
    const stream = createAgentHarness({ harness: model }).invoke({ messages });
    await stream.return();
    expect(await readAll(stream)).toEqual([]);
    expect(model.requests).toHaveLength(0);
  });

  test('at once, without awaiting, leaves no unhandled rejection', async () => {
    const stream = createAgentHarness({ harness: endless() }).invoke({ messages });
    const [first, left] = [stream.next(), stream.return()];
    expect(await first).toEqual({ done: true, value: undefined });
    await left;
  });

  test('after the end changes nothing', async () => {
    const harness = createDeterministicHarness([says('Hello')]);
    const stream = createAgentHarness({ harness }).invoke({ messages });
    await readAll(stream);
    expect(await stream.return()).toEqual({ done: true, value: undefined });
  });
});

describe('the signal', () => {
  test('cancels the run; the reader sees its end', async () => {
    const controller = new AbortController();
    const harness = endless();
    const { signal } = controller;
    const events = [];
    for await (const event of createAgentHarness({ harness }).invoke({ messages, signal })) {
      events.push(event);
      if (event.type === 'text') controller.abort(new Error('Too slow'));
    }
    expect(typesOf(events)).toEqual(['harness_start', 'text', 'harness_end']);
    expect(only(events, 'harness_end')[0]?.reason).toBe('canceled');
    expect(harness.stopped()).toBe(true);
  });

  test('reaches a run that waits for an answer', async () => {
    const controller = new AbortController();
    const { tool, ran } = shell();
    const agent = createAgentHarness({ harness: asking() });
    const events = [];
    for await (const event of agent.invoke({
      messages,
      tools: [tool],
      signal: controller.signal,
    })) {
      events.push(event);
      if (event.type === 'relay') setTimeout(() => controller.abort('Changed my mind'), 5);
    }
    expect(outputsOf(events)).toMatchObject({
      'tc-1': { status: 'error', error: 'Changed my mind' },
    });
    expect(only(events, 'harness_end')[0]?.reason).toBe('canceled');
    expect(ran).toEqual([]);
  });

  test('that is already aborted prevents the model call', async () => {
    const model = createScriptedModel([[toolCall('c1', 'bash', { command: 'ls' }), finish()]]);
    const { tool, ran } = shell();
    const agent = createAgentHarness({ harness: model });
    const signal = AbortSignal.abort(new Error('From the start'));
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions, signal }));
    expect(typesOf(events)).toEqual(['harness_start', 'harness_end']);
    expect(only(events, 'harness_end')[0]?.reason).toBe('canceled');
    expect(model.requests).toHaveLength(0);
    expect(ran).toEqual([]);
  });

  test('aborted between the call and the first read cancels the run', async () => {
    const controller = new AbortController();
    const model = createScriptedModel([[text('Hi'), finish()]]);
    const agent = createAgentHarness({ harness: model });
    const stream = agent.invoke({ messages, signal: controller.signal });
    controller.abort();
    expect(typesOf(await readAll(stream))).toEqual(['harness_start', 'harness_end']);
    expect(model.requests).toHaveLength(0);
  });

  test('has no listener after the end', async () => {
    const { signal } = new AbortController();
    let listeners = 0;
    const count = (by: number) => void (listeners += by);
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => (count(1), add(...args));
    signal.removeEventListener = (...args: Parameters<typeof remove>) => (
      count(-1),
      remove(...args)
    );
    const agent = createAgentHarness({ harness: createDeterministicHarness([says('Hello')]) });
    const stream = agent.invoke({ messages, signal });
    await stream.next();
    expect(listeners).toBe(1);
    await readAll(stream);
    expect(listeners).toBe(0);
  });

  test('cancels several invocations at once', async () => {
    const controller = new AbortController();
    const agent = createAgentHarness({ harness: endless() });
    const all = Promise.all(
      [1, 2, 3].map(() => readAll(agent.invoke({ messages, signal: controller.signal }))),
    );
    setTimeout(() => controller.abort(), 5);
    for (const events of await all) expect(events.at(-1)).toMatchObject({ reason: 'canceled' });
  });
});

describe('canceling and answering at the same time', () => {
  test('always ends in one of the two ways', async () => {
    for (let round = 0; round < 30; round += 1) {
      const controller = new AbortController();
      const { tool, ran } = shell();
      const agent = createAgentHarness({ harness: asking() });
      const { signal } = controller;
      const events = await readAll(agent.invoke({ messages, tools: [tool], signal }), (relay) => {
        const answer = () => relay.respond({ approved: true });
        const cancel = () => controller.abort();
        for (const act of round % 2 === 0 ? [answer, cancel] : [cancel, answer]) act();
        return undefined;
      });
      expect(events.at(-1)?.type).toBe('harness_end');
      expect(only(events, 'tool_result')).toHaveLength(1);
      expect(ran.length).toBeLessThanOrEqual(1);
    }
  });
});
