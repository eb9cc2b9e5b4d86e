/** Journals for tests, written as the server writes them. */
import type { EventOf, EventType, StoredEvent } from '@relay/protocol/wire';

export const root = '01900000-0000-7000-8000-000000000001';
const helper = '01900000-0000-7000-8000-000000000002';
const start = Date.parse('2026-01-01T12:00:00.000Z');

type Fields<Type extends EventType> = Omit<EventOf<Type>, 'type'>;

/** Collects events; `wait` lets time pass before the next one. */
export class JournalFixture {
  readonly events: StoredEvent[] = [];
  #now = start;

  wait(ms: number): this {
    this.#now += ms;
    return this;
  }

  add<Type extends EventType>(type: Type, fields: Fields<Type>): this {
    const at = new Date(this.#now).toISOString();
    const stored = { type, ...fields, seq: this.events.length + 1, at };
    this.events.push(stored as unknown as StoredEvent);
    return this;
  }

  get lastSeq(): number {
    return this.events.length;
  }

  created(content = 'hello'): this {
    return this.add('run.created', {
      surface: 'runs',
      agent: 'support',
      model: 'demo',
      conversationId: root,
      correlationId: 'c',
      messages: [{ role: 'user', content }],
      history: null,
      tools: ['send_note'],
      permissions: {},
      maxIterations: 50,
      labels: {},
    })
      .add('run.started', { progress })
      .add('agent.started', { agentId: root, name: 'support', model: 'demo' });
  }

  turn(turn: number, textId: string, agent: Agent = { agentId: root }): this {
    return this.add('turn.started', { ...agent, turn, textId, reasoningId: `${textId}-r` });
  }

  text(textId: string, text: string, agent: Agent = { agentId: root }): this {
    return this.add('text.appended', { ...agent, textId, text });
  }

  completed(turn: number, agent: Agent = { agentId: root }): this {
    return this.add('turn.completed', { ...agent, turn, finishReason: 'stop', usage });
  }

  called(toolCallId: string, name = 'send_note', agent: Agent = { agentId: root }): this {
    return this.add('tool.called', { ...agent, toolCallId, name, input: { text: 'hi' } });
  }

  started(toolCallId: string, name = 'send_note', agent: Agent = { agentId: root }): this {
    const idempotencyKey = toolCallId;
    return this.add('tool.started', { ...agent, toolCallId, name, input: {}, idempotencyKey });
  }

  finished(toolCallId: string, name = 'send_note', agent: Agent = { agentId: root }): this {
    return this.add('tool.completed', { ...agent, toolCallId, name, result: 'done' });
  }

  asked(toolCallId: string, approvalId: string): this {
    return this.add('approval.requested', {
      agentId: root,
      approvalId,
      toolCallId,
      kind: 'permission',
      tool: 'send_note',
      params: { text: 'hi' },
      digest: 'd',
      agentPath: ['support'],
      expiresAt: '2026-01-02T12:00:00.000Z',
    }).add('run.suspended', { progress, approvalIds: [approvalId] });
  }

  decided(toolCallId: string, approvalId: string, approved: boolean, reason?: string): this {
    const by = { type: 'key', id: 'k', name: 'key', owner: 'ada' } as const;
    const answer = { agentId: root, approvalId, toolCallId, approved, by };
    const event = reason === undefined ? answer : { ...answer, reason };
    return this.add('run.resumed', { progress }).add('approval.decided', event);
  }

  spawned(name: string): this {
    const spawned = { toolCallId: 'spawn', nth: 0, task: 'find it', tools: [] };
    return this.add('agent.started', { ...subAgent, name, model: 'demo', spawned });
  }

  ended(status: 'completed' | 'failed' = 'completed'): this {
    return this.add('agent.ended', { agentId: root, reason: status, iterations: 1, usage }).add(
      'run.ended',
      { status, output: '', usage },
    );
  }
}

interface Agent {
  readonly agentId: string;
  readonly parentId?: string;
}

export const subAgent = { agentId: helper, parentId: root } as const;
const progress = { partialOutput: '', toolsInvoked: [] };
export const usage = { inputTokens: 1, outputTokens: 1 };
