/** Who gets which events, and when there are no more. */
import { describe, expect, test } from 'vitest';
import {
  type AgentMessage,
  AgentOrchestrator,
  createAgentHarness,
  createDeterministicHarness,
} from '../src/index.ts';
import { bash, messages, says, shell, turns } from './support/fixtures.ts';

function orchestratorOf(script: Parameters<typeof createDeterministicHarness>[0]) {
  const harness = createDeterministicHarness(script, { relayTimeoutMs: Infinity });
  return new AgentOrchestrator(createAgentHarness({ harness }));
}

const hello = () => orchestratorOf([says('Hello')]);
const types = (received: readonly AgentMessage[]) => received.map(({ event }) => event.type);
const whole = ['harness_start', 'text', 'usage', 'harness_end'];

async function all(stream: AsyncIterable<AgentMessage>): Promise<AgentMessage[]> {
  const received: AgentMessage[] = [];
  for await (const message of stream) received.push(message);
  return received;
}

const aMoment = () => new Promise((resolve) => setTimeout(resolve, 10));

describe('events()', () => {
  test('waits for the first agent', async () => {
    const orchestrator = hello();
    let ended = false;
    const reading = all(orchestrator.events()).finally(() => (ended = true));
    await aMoment();
    expect(ended).toBe(false);
    orchestrator.spawn({ messages });
    expect(types(await reading)).toEqual(whole);
  });

  test('includes events from before the first reader', async () => {
    const orchestrator = hello();
    orchestrator.spawn({ messages });
    await aMoment();
    expect(types(await all(orchestrator.events()))).toEqual(whole);
  });

  test('ends at once when all agents have ended and all events were read', async () => {
    const orchestrator = hello();
    orchestrator.spawn({ messages });
    await all(orchestrator.events());
    expect(await all(orchestrator.events())).toEqual([]);
  });

  test('continues for agents that are spawned later', async () => {
    const orchestrator = hello();
    orchestrator.spawn({ messages });
    expect(types(await all(orchestrator.events()))).toEqual(whole);
    orchestrator.spawn({ messages });
    expect(types(await all(orchestrator.events()))).toEqual(whole);
  });

  test('does not end if another agent is spawned at the last event', async () => {
    const orchestrator = hello();
    orchestrator.spawn({ messages });
    const ended: string[] = [];
    for await (const { agentId, event } of orchestrator.events()) {
      if (event.type !== 'harness_end') continue;
      ended.push(agentId);
      await aMoment();
      if (ended.length < 5) orchestrator.spawn({ messages });
    }
    expect(new Set(ended).size).toBe(5);
  });

  test('emits the same events to several readers', async () => {
    const orchestrator = hello();
    const reading = [all(orchestrator.events()), all(orchestrator.events())];
    orchestrator.spawn({ messages });
    const [one, other] = await Promise.all(reading);
    expect(types(one ?? [])).toEqual(whole);
    expect(other).toEqual(one);
  });

  test('keeps unread events for the next reader when a reader leaves', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf(turns([bash('tc-1', 'ls')], [says('Done')]));
    orchestrator.spawn({ messages, tools: [tool] });
    const first: AgentMessage[] = [];
    // Everything up to the relay is there before the first event is read.
    await aMoment();
    for await (const message of orchestrator.events()) {
      first.push(message);
      break;
    }
    await aMoment();
    const rest: AgentMessage[] = [];
    for await (const message of orchestrator.events()) {
      rest.push(message);
      if (message.event.type === 'relay') {
        orchestrator.resolveRelay(message.event.id, { approved: true });
      }
    }
    expect(types([...first, ...rest])).toEqual([
      'harness_start',
      'tool_call',
      'usage',
      'relay',
      'tool_result',
      'text',
      'usage',
      'harness_end',
    ]);
    expect(ran).toEqual(['ls']);
  });

  test('keeps unread events also when a reader leaves after the end', async () => {
    const orchestrator = hello();
    orchestrator.spawn({ messages });
    await aMoment();
    for await (const _ of orchestrator.events()) break;
    expect(types(await all(orchestrator.events()))).toEqual(whole.slice(1));
    expect(await all(orchestrator.events())).toEqual([]);
  });

  test('keeps unread events when a reader never starts or throws', async () => {
    const orchestrator = hello();
    await orchestrator.events().return();
    orchestrator.spawn({ messages });
    const reading = (async () => {
      for await (const _ of orchestrator.events()) throw new Error('Of the reader');
    })();
    await expect(reading).rejects.toThrow('Of the reader');
    expect(types(await all(orchestrator.events()))).toEqual(whole.slice(1));
  });

  test('does not repeat events when one of two readers leaves', async () => {
    const orchestrator = hello();
    const staying = all(orchestrator.events());
    const leaving = orchestrator.events();
    orchestrator.spawn({ messages });
    await leaving.next();
    await leaving.return();
    expect(types(await staying)).toEqual(whole);
    expect(await all(orchestrator.events())).toEqual([]);
  });

  test('ends for a reader that waits while the last agent is aborted', async () => {
    const orchestrator = orchestratorOf([bash('tc-1', 'ls')]);
    orchestrator.spawn({ messages, tools: [shell().tool] });
    const stream = orchestrator.events();
    const reading = all(stream);
    await aMoment();
    orchestrator.abort();
    expect(types(await reading).at(-1)).toBe('harness_end');
  });

  test('emits the events of a hundred agents', async () => {
    const { tool, ran } = shell();
    const orchestrator = orchestratorOf(turns([bash('tc-1', 'ls')], [says('Done')]));
    for (let n = 0; n < 100; n += 1) orchestrator.spawn({ messages, tools: [tool] });
    const received: AgentMessage[] = [];
    for await (const message of orchestrator.events()) {
      received.push(message);
      const { event } = message;
      if (event.type === 'relay') orchestrator.resolveRelay(event.id, { approved: true });
    }
    expect(types(received).filter((type) => type === 'harness_end')).toHaveLength(100);
    expect(ran).toHaveLength(100);
  });
});
