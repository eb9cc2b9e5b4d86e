/**
 * The machine against a model: random commands, legal and not, among random events that a live run
 * could bring. The model knows only the table; the events are checked afterwards, as a journal.
 */
import {
  addUsage,
  isEnded,
  noUsage,
  RelayError,
  type RunEvent,
  type RunStatus,
} from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { at, deepFreeze, noTrust as trust } from '../../support/agent-events.ts';
import { agentFields, type AgentState, openCalls } from '../../../src/run/state/agent.ts';
import type { CallState } from '../../../src/run/state/call.ts';
import { type Command, decide, runTable } from '../../../src/run/state/machine.ts';
import {
  evolve,
  initialState,
  liveAgents,
  rootAgent,
  type RunState,
} from '../../../src/run/state/state.ts';

const usage = { inputTokens: 3, outputTokens: 1 };
const by = { type: 'key', id: 'k1', name: 'ann' } as const;
const error = { code: 'provider_failed', message: 'The model is overloaded', retryable: false };

const tellable: readonly Command[] = [
  { type: 'start', agentId: 'root', agent: 'assistant', model: 'demo' },
  {
    type: 'message',
    message: {
      messageId: 'm',
      deliveryId: 'd',
      mode: 'next-message',
      from: { type: 'session', id: 's', name: 'ada' },
      content: 'Wait',
    },
  },
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

function spawnedBy(agent: AgentState, { toolCallId }: CallState, state: RunState): RunEvent {
  return {
    type: 'agent.started',
    agentId: `sub_${state.seq}`,
    parentId: agent.id,
    name: 'helper',
    model: 'demo',
    spawned: { toolCallId, nth: 1, task: 'help', tools: [] },
  };
}

const settling = new Set<RunEvent['type']>(['tool.completed', 'tool.failed', 'tool.denied']);

/** A call is not settled over those that work for it. */
function mayHappen(agent: AgentState, call: CallState, state: RunState): RunEvent[][] {
  const helped = liveAgents(state).some(
    ({ parentId, spawned }) => parentId === agent.id && spawned?.toolCallId === call.toolCallId,
  );
  const steps = nextOf(agent, call, state);
  return helped ? steps.filter((step) => !step.some(({ type }) => settling.has(type))) : steps;
}

/** Everything that may happen next to a call of a completed turn that nobody else works for. */
function nextOf(agent: AgentState, call: CallState, state: RunState): RunEvent[][] {
  const { toolCallId, name } = call;
  const of = { ...agentFields(agent), toolCallId };
  const approvalId = call.approval?.id ?? '';
  const shown = { tool: name, params: {}, digest: 'd', agentPath: ['a'], expiresAt: at };
  const newApproval = { ...of, approvalId: `relay_${state.seq}`, ...shown };
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
        [{ type: 'approval.requested', ...newApproval, kind: 'permission' }],
        [start],
        [{ ...start, via: 'agent' }],
        unused === undefined
          ? [denied]
          : [{ ...start, rule: { list: 'allowOnce', index: unused, source: 'request' } }],
        [denied],
        [failed],
      ];
    case 'asking':
      return [
        [{ type: 'approval.decided', ...of, approvalId, approved: true, by }],
        [{ type: 'approval.decided', ...of, approvalId, approved: false, by }, denied],
        [
          { type: 'approval.expired', ...of, approvalId },
          { ...denied, status: 'expired' },
        ],
      ];
    case 'decided':
      return [
        [start],
        [{ type: 'approval.requested', ...newApproval, kind: 'permission' }],
        [{ type: 'tool.completed', ...of, name, result: 'vouched for' }],
      ];
    case 'started':
      return [
        [{ type: 'tool.completed', ...of, name, result: 1 }],
        [failed],
        [{ type: 'tool.progressed', ...of, name, progressId: 'p', content: 'working' }],
        [start],
        [{ type: 'approval.requested', ...newApproval, kind: 'outcome' }],
        ...(liveAgents(state).length < 6 ? [[spawnedBy(agent, call, state)]] : []),
      ];
    case 'settled':
      return [];
  }
}

/** Everything that may happen next to an agent, from its state alone. */
function nextOfAgent(agent: AgentState, state: RunState): RunEvent[][] {
  const of = agentFields(agent);
  const { turn, iterations } = agent;
  const textId = `text_${state.seq}`;
  const begin: RunEvent = { type: 'turn.started', ...of, turn: 1, textId, reasoningId: 'why' };
  const report = { iterations, usage: agent.usage, output: 'done' };
  const end: RunEvent = { type: 'agent.ended', ...of, reason: 'completed', ...report };
  const compacted: RunEvent = {
    type: 'context.compacted',
    ...of,
    model: 'demo',
    summary: 'In short',
    ofHistory: 0,
    ofRun: 1,
    generation: 0,
    usage,
  };
  const between: RunEvent[][] = [
    [begin],
    [compacted, begin],
    [{ type: 'limit.reached', ...of, limit: 'tokens' }, begin],
    [{ type: 'agent.switched', ...of, name: 'other', model: 'demo', tools: [] }],
    ...(agent.parentId === null ? [] : [[end]]),
  ];
  if (turn === null) return between;
  if (turn.finish === null) {
    const calls = [1, 2, 3].map((n): RunEvent => {
      const toolCallId = `call_${state.seq}_${n}`;
      return { type: 'tool.called', ...of, toolCallId, name: `tool_${n}`, input: {} };
    });
    const finish: RunEvent = {
      type: 'turn.completed',
      ...of,
      turn: 1,
      finishReason: 'tool_calls',
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
  if (open.length > 0) return open.flatMap((call) => mayHappen(agent, call, state));
  return between;
}

function possible(state: RunState): RunEvent[][] {
  return liveAgents(state).flatMap((agent) => nextOfAgent(agent, state));
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
      const inTurn = rootAgent(real.state)?.turn?.finish === null || owesAtRoot(real.state);
      const isRefused =
        (command.type === 'complete' && owes) || (command.type === 'message' && inTurn);
      if (named === 'refused' || isRefused) {
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

function owesAtRoot(state: RunState): boolean {
  const root = rootAgent(state);
  return root !== undefined && openCalls(root).length > 0;
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

/** Who has come has gone, once, before the call that it worked for; and what it used is counted. */
function checkAgents({ journal, state }: Real): void {
  const agents = pick(journal, 'agent.started');
  const ids = agents.map((event) => event.agentId);
  const ends = pick(journal, 'agent.ended');
  const gone = ends.map((event) => event.agentId);
  expect(new Set(gone).size).toBe(gone.length);
  expect(state.subAgents).toBe(Math.max(0, ids.length - 1));
  if (isEnded(state.status)) expect(gone.toSorted()).toEqual(ids.toSorted());
  if (isEnded(state.status) && ids.length > 0) expect(gone.at(-1)).toBe('root');

  const settled = pick(journal, 'tool.completed', 'tool.failed', 'tool.denied');
  for (const { agentId, spawned } of agents) {
    if (spawned === undefined) continue;
    const end = ends.find((event) => event.agentId === agentId);
    const result = settled.find((event) => event.toolCallId === spawned.toolCallId);
    expect(Object.hasOwn(state.agents, agentId), agentId).toBe(result === undefined);
    if (result === undefined) continue;
    expect(journal.indexOf(end as RunEvent)).toBeLessThan(journal.indexOf(result));
  }

  const used = (of: readonly string[]) =>
    pick(journal, 'turn.completed', 'context.compacted')
      .filter((event) => of.includes(event.agentId))
      .reduce((sum, event) => addUsage(sum, event.usage), noUsage);
  expect(state.usage).toEqual(used(ids));
  for (const end of ends) expect(end.usage).toEqual(used(withAllBelow(end.agentId, agents)));
}

function withAllBelow(id: string, agents: ReturnType<typeof pick<'agent.started'>>): string[] {
  const below = agents.filter((event) => event.parentId === id);
  return [id, ...below.flatMap((event) => withAllBelow(event.agentId, agents))];
}

/** A message enters between two turns of the root agent; its next model call reads it. */
function checkMessages({ journal, state }: Real): void {
  const last = journal.findLastIndex(
    (event) => event.type === 'turn.started' && event.agentId === 'root',
  );
  const unread = pick(journal.slice(last + 1), 'message.added');
  expect(state.unread).toHaveLength(unread.length);
  for (const { agentId } of pick(journal, 'message.added')) expect(agentId).toBe('root');
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

  const answers = pick(journal, 'approval.decided', 'approval.expired', 'approval.closed');
  const answered = count(answers.map((event) => event.approvalId));
  for (const { approvalId, toolCallId } of pick(journal, 'approval.requested')) {
    const times = answered.get(approvalId) ?? 0;
    expect(times, approvalId).toBeLessThanOrEqual(1);
    if (!over) continue;
    expect(times, approvalId).toBe(1);
    const answer = answers.find((event) => event.approvalId === approvalId);
    const end = ends.find((event) => event.toolCallId === toolCallId);
    expect(journal.indexOf(answer as RunEvent)).toBeLessThan(journal.indexOf(end as RunEvent));
  }

  checkAgents({ journal, state });
  checkMessages({ journal, state });
  const starts = pick(journal, 'tool.started');
  expect(state.toolsStarted).toBe(new Set(starts.map((event) => event.toolCallId)).size);
  expect(new Set(state.usedOnce).size).toBe(state.usedOnce.length);
  const once = pick(journal, 'tool.started').filter((event) => event.rule?.list === 'allowOnce');
  expect(state.usedOnce).toEqual(once.map((event) => event.rule?.index));
}

/** Ends are rare, so that most sequences come far. */
const steps = fc.commands(
  [
    ...Array.from({ length: 40 }, () => fc.nat(1000).map(happens)),
    ...tellable.slice(0, 4).map((command) => fc.constant(told(command))),
    fc.constant(told({ type: 'resume' })),
    fc.constantFrom(...tellable.slice(4)).map(told),
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
    const sizes = new Set<number>();
    fc.assert(
      fc.property(
        steps,
        fc.boolean(),
        fc.constantFrom(...tellable.slice(5)),
        (all, early, last) => {
          const { model, real } = begin(early);
          fc.modelRun(() => ({ model, real }), all);
          checkJournal(real);
          if (!isEnded(model.status)) told(last).run(model, real);
          checkJournal(real);
          for (const command of tellable) expect(decide(real.state, command).ok).toBe(false);
          for (const event of real.journal) seen.add(event.type);
          for (const { agentId } of pick(real.journal, 'agent.started')) {
            sizes.add(withAllBelow(agentId, pick(real.journal, 'agent.started')).length);
          }
          statuses.add(real.state.status);
        },
      ),
      { numRuns: 400 },
    );
    // The sequences were worth something: they used every word that a run has.
    for (const word of ['approval.expired', 'approval.closed', 'tool.denied', 'turn.discarded']) {
      expect(seen).toContain(word);
    }
    for (const word of ['run.suspended', 'run.resumed', 'tool.completed', 'agent.ended']) {
      expect(seen).toContain(word);
    }
    for (const word of ['agent.switched', 'limit.reached', 'context.compacted', 'message.added']) {
      expect(seen).toContain(word);
    }
    expect(Math.max(...sizes)).toBeGreaterThan(4);
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
