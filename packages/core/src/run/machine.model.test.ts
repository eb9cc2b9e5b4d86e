/**
 * The machine against a model: random commands, legal and not, among random events that a live run
 * could bring. The model knows only the table; the events are checked afterwards, as a journal.
 */
import { isEnded, RelayError, type RunEvent, type RunStatus, type Trust } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CallState } from './call.ts';
import { agentFields, type Command, decide, runTable } from './machine.ts';
import { type AgentState, evolve, initialState, openCalls, type RunState } from './state.ts';

const at = '2026-03-01T10:00:00.000Z';
const usage = { inputTokens: 3, outputTokens: 1 };
const by = { type: 'key', id: 'k1', name: 'ann' } as const;
const error = { code: 'provider_failed', message: 'The model is overloaded', retryable: false };
const trust: Trust = {
  toolsInvoked: [],
  toolFailures: 0,
  evidenceCitations: [],
  evidenceHash: '',
  confidence: null,
  missingEvidence: [],
  verificationSteps: [],
  retryAttempts: 0,
  durationMs: 0,
};

const tellable: readonly Command[] = [
  { type: 'start', agentId: 'root', agent: 'assistant', model: 'demo' },
  { type: 'suspend' },
  { type: 'resume' },
  { type: 'complete', reason: 'completed', trust },
  { type: 'fail', error, trust },
  { type: 'cancel', reason: 'Stopped', trust },
];

interface Model {
  status: RunStatus;
}

interface Real {
  state: RunState;
  readonly journal: RunEvent[];
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}

/** Puts events into the journal, and checks what holds after each of them. */
function append(real: Real, events: readonly RunEvent[]): void {
  for (const event of events) {
    const placed = deepFreeze({ ...event, seq: real.state.seq + 1, at });
    real.state = deepFreeze(evolve(real.state, placed));
    real.journal.push(event);
  }
  expect(real.state.seq).toBe(real.journal.length);
  expect(JSON.parse(JSON.stringify(real.state))).toStrictEqual(real.state);
}

/** Everything that may happen next to a call of a completed turn. */
function nextOf(agent: AgentState, call: CallState, state: RunState): RunEvent[][] {
  const { toolCallId, name } = call;
  const of = { ...agentFields(agent), toolCallId };
  const relayId = call.relay?.id ?? '';
  const shown = { tool: name, params: {}, digest: 'd', agentPath: ['a'], expiresAt: at };
  const newRelay = { ...of, relayId: `relay_${state.seq}`, ...shown };
  const start: RunEvent = {
    type: 'tool.started',
    ...of,
    name,
    input: {},
    idempotencyKey: call.idempotencyKey ?? toolCallId,
  };
  const unused = [0, 1, 2, 3].find((index) => !state.usedOnce.includes(index));
  const denied: RunEvent = { type: 'tool.denied', ...of, name, status: 'denied' };
  const failed: RunEvent = { type: 'tool.failed', ...of, name, error: 'e', code: 'tool_failed' };
  switch (call.phase) {
    case 'called':
      return [
        [{ type: 'relay.raised', ...newRelay, kind: 'permission' }],
        [start],
        unused === undefined
          ? [denied]
          : [{ ...start, rule: { list: 'allowOnce', index: unused, source: 'request' } }],
        [denied],
        [failed],
      ];
    case 'asking':
      return [
        [{ type: 'relay.decided', ...of, relayId, approved: true, by }],
        [{ type: 'relay.decided', ...of, relayId, approved: false, by }, denied],
        [
          { type: 'relay.expired', ...of, relayId },
          { ...denied, status: 'expired' },
        ],
      ];
    case 'answered':
      return [[start], [{ type: 'tool.completed', ...of, name, result: 'vouched for' }]];
    case 'started':
      return [
        [{ type: 'tool.completed', ...of, name, result: 1 }],
        [failed],
        [{ type: 'tool.progressed', ...of, name, progressId: 'p', content: 'working' }],
        [start],
        [{ type: 'relay.raised', ...newRelay, kind: 'outcome' }],
      ];
    case 'settled':
      return [];
  }
}

/** Everything that may happen next to an agent, from its state alone. */
function nextOfAgent(agent: AgentState, state: RunState): RunEvent[][] {
  if (agent.ended) return [];
  const of = agentFields(agent);
  const { turn } = agent;
  const textId = `text_${state.seq}`;
  const begin: RunEvent = { type: 'turn.started', ...of, turn: 1, textId, reasoningId: 'why' };
  const end: RunEvent = { type: 'agent.ended', ...of, reason: 'completed', iterations: 1, usage };
  if (turn === null) return [[begin], ...(agent.parentId === null ? [] : [[end]])];
  if (turn.finish === null) {
    const calls = [1, 2, 3].map((n): RunEvent => {
      const toolCallId = `call_${state.seq}_${n}`;
      return { type: 'tool.called', ...of, toolCallId, name: `tool_${n}`, input: {} };
    });
    const finish: RunEvent = {
      type: 'turn.completed',
      ...of,
      turn: 1,
      finishReason: 'tool-calls',
      usage,
    };
    const gone = { turn: 1, textId: turn.textId, after: turn.startedSeq, reason: 'retry' } as const;
    return [
      [{ type: 'text.appended', ...of, textId: turn.textId, text: 'word ' }],
      [{ type: 'reasoning.appended', ...of, reasoningId: turn.reasoningId, text: 'hm' }],
      [{ type: 'turn.discarded', ...of, ...gone }],
      [finish],
      [...calls.slice(0, 1), finish],
      [...calls, finish],
    ];
  }
  const open = openCalls(agent);
  if (open.length > 0) return open.flatMap((call) => nextOf(agent, call, state));
  return [[begin], ...(agent.parentId === null ? [] : [[end]])];
}

function possible(state: RunState): RunEvent[][] {
  const agents = Object.values(state.agents);
  const steps = agents.flatMap((agent) => nextOfAgent(agent, state));
  if (agents.length === 0 || agents.length > 2) return steps;
  const agentId = `sub_${agents.length}`;
  return [...steps, [{ type: 'agent.started', agentId, parentId: 'root', name: 'h', model: 'm' }]];
}

/** The world moves on by one step, if the run is going. */
function happens(pick: number): fc.Command<Model, Real> {
  return {
    check: ({ status }) => status === 'running',
    run: (_model, real) => {
      const steps = possible(real.state);
      append(real, steps[pick % steps.length] ?? []);
    },
    toString: () => `happens(${pick})`,
  };
}

/** Somebody tells the run something, whether it fits or not. */
function told(command: Command): fc.Command<Model, Real> {
  return {
    check: () => true,
    run: (model, real) => {
      const named = runTable[model.status][command.type];
      const owes = Object.values(real.state.agents).some((agent) => openCalls(agent).length > 0);
      const decision = decide(real.state, deepFreeze(command));
      expect(decide(real.state, command)).toEqual(decision);
      if (named === 'refused' || (command.type === 'complete' && owes)) {
        expect(decision).toEqual({ ok: false, reason: expect.stringMatching(/^A run .+ cannot /) });
        return;
      }
      if (!decision.ok) throw new Error(`${command.type} was refused: ${decision.reason}`);
      append(real, decision.events);
      expect(real.state.status).toBe(named);
      model.status = named;
    },
    toString: () => command.type,
  };
}

function count<Key>(keys: readonly Key[]): Map<Key, number> {
  const counts = new Map<Key, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

function pick<Type extends RunEvent['type']>(journal: readonly RunEvent[], ...types: Type[]) {
  return journal.filter((event): event is Extract<RunEvent, { type: Type }> =>
    (types as string[]).includes(event.type),
  );
}

/** What holds of the whole journal, at any time and at its end. */
function checkJournal({ journal, state }: Real): void {
  const over = isEnded(state.status);
  expect(pick(journal, 'run.ended')).toHaveLength(over ? 1 : 0);
  if (over) expect(journal.at(-1)?.type).toBe('run.ended');

  const ends = pick(journal, 'tool.completed', 'tool.failed', 'tool.denied');
  const settled = count(ends.map((event) => event.toolCallId));
  for (const { toolCallId } of pick(journal, 'tool.called')) {
    const times = settled.get(toolCallId) ?? 0;
    if (over) expect(times, toolCallId).toBe(1);
    else expect(times, toolCallId).toBeLessThanOrEqual(1);
  }

  const answers = pick(journal, 'relay.decided', 'relay.expired', 'relay.closed');
  const answered = count(answers.map((event) => event.relayId));
  for (const { relayId, toolCallId } of pick(journal, 'relay.raised')) {
    const times = answered.get(relayId) ?? 0;
    expect(times, relayId).toBeLessThanOrEqual(1);
    if (!over) continue;
    expect(times, relayId).toBe(1);
    const answer = answers.find((event) => event.relayId === relayId);
    const end = ends.find((event) => event.toolCallId === toolCallId);
    expect(journal.indexOf(answer as RunEvent)).toBeLessThan(journal.indexOf(end as RunEvent));
  }

  const agents = pick(journal, 'agent.started').map((event) => event.agentId);
  const goodbyes = pick(journal, 'agent.ended').map((event) => event.agentId);
  expect(new Set(goodbyes).size).toBe(goodbyes.length);
  if (over) expect(goodbyes.toSorted()).toEqual(agents.toSorted());
  if (over && agents.length > 0) expect(goodbyes.at(-1)).toBe('root');

  expect(new Set(state.usedOnce).size).toBe(state.usedOnce.length);
  const once = pick(journal, 'tool.started').filter((event) => event.rule?.list === 'allowOnce');
  expect(state.usedOnce).toEqual(once.map((event) => event.rule?.index));
}

/** Ends are rare, so that most sequences come far. */
const steps = fc.commands(
  [
    ...Array.from({ length: 40 }, () => fc.nat(1000).map(happens)),
    ...tellable.slice(0, 3).map((command) => fc.constant(told(command))),
    fc.constant(told({ type: 'resume' })),
    fc.constantFrom(...tellable.slice(3)).map(told),
  ],
  { maxCommands: 80, size: 'max' },
);

function begin(alreadyStarted: boolean): { model: Model; real: Real } {
  const real: Real = { state: initialState, journal: [] };
  const model: Model = { status: 'queued' };
  const [start] = tellable;
  if (alreadyStarted && start !== undefined) told(start).run(model, real);
  return { model, real };
}

describe('the machine of a run', () => {
  it('keeps its table and settles everything exactly once, whatever happens to it (E6)', () => {
    const seen = new Set<string>();
    const statuses = new Set<string>();
    fc.assert(
      fc.property(
        steps,
        fc.boolean(),
        fc.constantFrom(...tellable.slice(4)),
        (all, early, last) => {
          const { model, real } = begin(early);
          fc.modelRun(() => ({ model, real }), all);
          checkJournal(real);
          if (!isEnded(model.status)) told(last).run(model, real);
          checkJournal(real);
          for (const command of tellable) expect(decide(real.state, command).ok).toBe(false);
          for (const event of real.journal) seen.add(event.type);
          statuses.add(real.state.status);
        },
      ),
      { numRuns: 400 },
    );
    // The sequences were worth something: they used every word that a run has.
    for (const word of ['relay.expired', 'relay.closed', 'tool.denied', 'turn.discarded']) {
      expect(seen).toContain(word);
    }
    for (const word of ['run.suspended', 'run.resumed', 'tool.completed', 'agent.ended']) {
      expect(seen).toContain(word);
    }
    expect(statuses).toEqual(new Set(['completed', 'failed', 'canceled']));
  });

  it('answers any event with a state or with journal_corrupt, and changes nothing in place', () => {
    let refused = 0;
    fc.assert(
      fc.property(steps, steps, fc.nat(), (here, elsewhere, which) => {
        const one = begin(true);
        fc.modelRun(() => one, here);
        const other = begin(true);
        fc.modelRun(() => other, elsewhere);
        const event = other.real.journal[which % other.real.journal.length];
        if (event === undefined) throw new Error('There is always an event');
        const { state } = one.real;
        const before = JSON.stringify(state);
        try {
          expect(evolve(state, { ...event, seq: state.seq + 1, at }).seq).toBe(state.seq + 1);
        } catch (thrown) {
          if (!(thrown instanceof RelayError)) throw thrown;
          expect(thrown.code).toBe('journal_corrupt');
          refused += 1;
        }
        expect(JSON.stringify(state)).toBe(before);
      }),
      { numRuns: 200 },
    );
    expect(refused).toBeGreaterThan(0);
  });
});
