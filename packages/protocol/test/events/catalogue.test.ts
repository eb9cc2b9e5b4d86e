import { describe, expect, it } from 'vitest';
import { journal } from '../dialects/fixture-journal.ts';
import { catalogue, type EventType, eventTypes, parseEvent } from '../../src/events/catalogue.ts';

const agentId = '01963a5c-7892-7abc-8ef0-123456789abc';

function example(type: EventType): Record<string, unknown> & { type: string } {
  const found = journal.find((event) => event.type === type);
  if (found === undefined) throw new Error(`The fixture has no ${type}`);
  const { seq: _, at: __, ...event } = found;
  return event;
}

function withoutTools(event: Record<string, unknown> & { type: string }) {
  const { tools: _, ...rest } = event;
  return rest as { type: string };
}

describe('event catalogue', () => {
  it.each(eventTypes)('names %s as noun.past-verb', (type) => {
    // Webhooks call the warning by this name too.
    if (type === 'approval.expiring') return;
    expect(type).toMatch(/^[a-z]+\.[a-z]*ed(-[a-z]+)*$/);
  });

  it.each(eventTypes)('gives %s a version', (type) => {
    expect(catalogue[type].version).toBeGreaterThanOrEqual(1);
  });

  it.each(eventTypes)('leaves type, seq and at of %s to the journal', (type) => {
    const declared = Object.keys(catalogue[type].schema.shape);
    expect(declared).not.toContain('type');
    expect(declared).not.toContain('seq');
    expect(declared).not.toContain('at');
  });

  it('puts the agent on every event of an agent, a turn, a text, a tool and an approval', () => {
    for (const type of eventTypes) {
      const declared = Object.keys(catalogue[type].schema.shape);
      // A run can fail before it has an agent; if it has one, the event names it.
      const named = type === 'run.errored' || !type.startsWith('run.');
      expect(declared.includes('agentId'), type).toBe(named);
      expect(declared.includes('parentId'), type).toBe(!type.startsWith('run.'));
    }
  });
});

describe('parseEvent', () => {
  it.each(eventTypes)('rejects %s if a required field is missing', (type) => {
    const event = example(type);
    const required = Object.entries(catalogue[type].schema.shape)
      .filter(([, schema]) => !schema.safeParse(undefined).success)
      .map(([field]) => field);
    expect(required.length).toBeGreaterThan(0);
    for (const field of required) {
      const { [field]: _, ...rest } = event;
      expect(() => parseEvent(rest as { type: string }), field).toThrow();
    }
  });

  it('drops undeclared fields', () => {
    const event = {
      type: 'approval.expired',
      agentId,
      approvalId: agentId,
      toolCallId: 'c',
      apiKey: 's',
    };
    expect(parseEvent(event)).toStrictEqual({
      type: 'approval.expired',
      agentId,
      approvalId: agentId,
      toolCallId: 'c',
    });
  });

  it.each(['run.exploded', '', 'toString', 'constructor', '__proto__'])(
    'does not know the type %j',
    (type) => {
      expect(() => parseEvent({ type })).toThrow(new TypeError(`Unknown event type ${type}`));
    },
  );

  it.each([
    ['an agent that is no id', { ...example('agent.switched'), agentId: 'root' }],
    ['a count that is not whole', { ...example('turn.started'), turn: 1.5 }],
    [
      'tokens below zero',
      { ...example('turn.completed'), usage: { inputTokens: -1, outputTokens: 0 } },
    ],
    ['an unknown status', { ...example('run.ended'), status: 'succeeded' }],
    ['a status that is not an end', { ...example('run.ended'), status: 'waiting' }],
    ['an unknown kind of approval', { ...example('approval.requested'), kind: 'wish' }],
    ['a time that is no time', { ...example('approval.requested'), expiresAt: 'tomorrow' }],
    ['an approval that is not a boolean', { ...example('approval.decided'), approved: 'true' }],
    ['a result that JSON cannot hold', { ...example('tool.completed'), result: () => 1 }],
    ['an unknown limit name', { ...example('limit.reached'), limit: 'patience' }],
    ['a turn void for no known reason', { ...example('turn.discarded'), reason: 'boredom' }],
    ['an agent that ended otherwise', { ...example('agent.ended'), reason: 'paused' }],
    ['a result by other means', { ...example('tool.started'), via: 'magic' }],
    ['an unknown limit', { ...example('run.created'), limits: { patience: 1 } }],
    ['a summary that replaces half a message', { ...example('context.compacted'), ofRun: 0.5 }],
    [
      'a memory without a text',
      { ...example('memory.recalled'), memories: [{ id: agentId, score: 1 }] },
    ],
    ['a message for another boundary', { ...example('message.added'), mode: 'on-idle' }],
    ['a message from nobody', { ...example('message.added'), from: { type: 'session' } }],
    ['a namespace that is no text', { ...example('run.created'), memory: { namespace: 1 } }],
    ['an agent without tools of its own', withoutTools(example('agent.switched'))],
    ['an empty tool call id', { ...example('tool.called'), toolCallId: '' }],
    ['a tool call id without end', { ...example('tool.called'), toolCallId: 'x'.repeat(257) }],
  ])('rejects %s', (_what, event) => {
    expect(() => parseEvent(event)).toThrow();
  });

  it('accepts a sub-agent with its profile, and the root agent without one', () => {
    const { spawned: _, parentId: __, ...first } = example('agent.started');
    expect(parseEvent(first)).toStrictEqual(first);
    const spawned = {
      toolCallId: 'call_1',
      nth: 2,
      task: 'Look it up',
      maxIterations: 3,
      system: 'You look things up',
      tools: ['look_up'],
      handoffs: ['writer'],
    };
    const sub = { ...first, parentId: agentId, spawned };
    expect(parseEvent(sub)).toStrictEqual(sub);
    for (const field of ['toolCallId', 'nth', 'task', 'tools'] as const) {
      const { [field]: ___, ...rest } = spawned;
      expect(() => parseEvent({ ...sub, spawned: rest } as { type: string }), field).toThrow();
    }
  });

  it('accepts a rule with the source program', () => {
    const rule = { list: 'allowOnce', index: 0, source: 'program' };
    expect(parseEvent({ ...example('tool.started'), rule } as { type: string })).toHaveProperty(
      'rule',
      rule,
    );
  });

  it('accepts any JSON value as the input and result of a tool', () => {
    for (const value of [null, false, 0, '', [], {}, { a: [{ b: null }] }, 'not json {']) {
      expect(
        parseEvent({ ...example('tool.called'), input: value } as { type: string }),
      ).toHaveProperty('input', value);
      const completed = { ...example('tool.completed'), result: value } as { type: string };
      expect(parseEvent(completed)).toHaveProperty('result', value);
    }
  });
});
