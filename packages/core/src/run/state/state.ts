/**
 * The state of a run at a position in its journal: a pure fold of the events up to there (E4).
 *
 * The state is small by construction: it holds open turns and counters, never the transcript. Recovery
 * starts from a snapshot of it, which is stored at the start of each turn.
 */
import {
  addUsage,
  defined,
  type EarlierDenial,
  type EventOf,
  isEnded,
  type Limits,
  noUsage,
  type OutcomeAnswer,
  type ReceivedMessage,
  RelayError,
  type RunStatus,
  type Stored,
  type Usage,
} from '@relay/protocol';
import {
  type AgentState,
  answerOf,
  endedAgent,
  openCalls,
  startedAgent,
  switchedAgent,
  type TurnState,
} from './agent.ts';
import {
  type CallEvent,
  type CallState,
  evolveCall,
  type OpenApproval,
  openQuestionsOf,
  type QuestionState,
} from './call.ts';
import { type CommandName, runTable } from './status.ts';
import { appendText, endText, noText } from '../../runtime/growing-text.ts';

/** One decided approval, as `runs.output_json` keeps it. */
export interface ApprovalEntry {
  readonly toolCallId: string;
  readonly name: string;
  readonly action: 'approve' | 'reject';
  /** The answer to an approval of kind `outcome`. */
  readonly outcome?: OutcomeAnswer;
  readonly by: string;
  readonly at: string;
  readonly reason?: string;
}

export interface RunState {
  readonly status: RunStatus;
  readonly seq: number;
  readonly startedAt: string | null;
  readonly limits: Limits;
  readonly rootId: string | null;
  /** Live agents, and ended ones whose parent's call is not settled. */
  readonly agents: Readonly<Record<string, AgentState>>;
  readonly usage: Usage;
  readonly subAgents: number;
  readonly toolsInvoked: readonly string[];
  readonly toolsStarted: number;
  readonly toolsSucceeded: number;
  readonly toolsFailed: number;
  readonly retries: number;
  /** Which allow-once rules of the request are used up, by index (E7). */
  readonly usedOnce: readonly number[];
  readonly approvals: readonly ApprovalEntry[];
  /** The last denial by a person of each call, by digest: shown when the call is repeated. */
  readonly denials: Readonly<Record<string, EarlierDenial>>;
  /** The memories of the run's namespace were recalled. */
  readonly recalled: boolean;
  /** Messages that were delivered to the run and that no model call of the root agent has read. */
  readonly unread: readonly ReceivedMessage[];
  /** The ids of those that one has read. */
  readonly read: readonly string[];
  /** Where the root agent's last turn started, if it called no tools: its text is the output. */
  readonly answerSeq: number | null;
}

export const initialState: RunState = {
  status: 'queued',
  seq: 0,
  startedAt: null,
  limits: {},
  rootId: null,
  agents: {},
  usage: noUsage,
  subAgents: 0,
  toolsInvoked: [],
  toolsStarted: 0,
  toolsSucceeded: 0,
  toolsFailed: 0,
  retries: 0,
  usedOnce: [],
  approvals: [],
  denials: {},
  recalled: false,
  unread: [],
  read: [],
  answerSeq: null,
};

/** The state after an event. It throws `journal_corrupt` if the journal contradicts itself. */
export function evolve(state: RunState, event: Stored): RunState {
  if (event.seq !== state.seq + 1 || isEnded(state.status)) throw contradiction(state, event);
  const next = { ...state, seq: event.seq };
  switch (event.type) {
    case 'run.created':
      if (state.seq !== 0) throw contradiction(state, event);
      return { ...next, limits: event.limits ?? {}, unread: event.received ?? [] };
    case 'run.started':
      return { ...transition(next, event, 'start'), startedAt: event.at };
    case 'run.resumed':
      return transition(next, event, 'resume');
    case 'run.suspended':
      return transition(next, event, 'suspend');
    case 'run.ended':
      return transition(next, event, endingCommand[event.status]);
    case 'run.errored':
    case 'run.summarized':
      return next;
    case 'agent.started':
      return addAgent(next, event);
    case 'agent.handed-off':
      return next;
    case 'agent.switched':
      return withAgent(next, event, (agent) => switchedAgent(agent, event));
    case 'agent.ended':
      return countForParent(
        betweenTurns(withAnswer(next, event), event, (agent) => endedAgent(agent, event)),
        event,
      );
    case 'limit.reached':
      return withAgent(next, event, (agent) => ({ ...agent, limit: event.limit }));
    case 'context.compacted':
      return withAgent({ ...next, usage: addUsage(next.usage, event.usage) }, event, (agent) => ({
        ...agent,
        usage: addUsage(agent.usage, event.usage),
      }));
    case 'memory.recalled':
      if (state.recalled) throw contradiction(state, event);
      return withAgent({ ...next, recalled: true }, event, (agent) => agent);
    case 'memory.stored':
      return withAgent(next, event, (agent) => agent);
    case 'message.added':
      return addMessage(next, event);
    case 'turn.started':
      return betweenTurns(readMessages(next, event), event, (agent) => ({
        ...agent,
        turn: startedTurn(event),
      }));
    case 'turn.discarded':
      return discardTurn(next, event);
    case 'turn.completed':
      return completeTurn(next, event);
    case 'text.appended':
      return withTurn(next, event, (turn) => ({
        ...turn,
        text: appendText(turn.text, event.text),
      }));
    case 'reasoning.appended':
    case 'tool.progressed':
      return next;
    case 'tool.called':
      return addCall(next, event);
    case 'tool.started':
      return withCall(countStart(next, event), event);
    case 'tool.completed':
      return withCall({ ...next, toolsSucceeded: next.toolsSucceeded + 1 }, event);
    case 'tool.failed':
      return withCall({ ...next, toolsFailed: next.toolsFailed + 1 }, event);
    case 'approval.decided':
      return withCall(
        {
          ...next,
          approvals: [...next.approvals, approvalOf(next, event)],
          denials: { ...next.denials, ...denialIn(next, event) },
        },
        event,
      );
    case 'tool.denied':
    case 'approval.requested':
    case 'approval.expiring':
    case 'approval.expired':
    case 'approval.closed':
      return withCall(next, event);
  }
}

/**
 * Applies events in order. Models stream text in many small pieces: consecutive pieces of one text are
 * applied as one change.
 */
export function evolveAll(state: RunState, events: readonly Stored[]): RunState {
  let next = state;
  for (let at = 0; at < events.length;) {
    const event = events[at];
    if (event === undefined) break;
    const end = event.type === 'text.appended' ? endOfPieces(events, at) : at + 1;
    if (end === at + 1) {
      next = evolve(next, event);
    } else {
      const joined = joinPieces(events.slice(at, end) as Piece[]);
      next = { ...evolve(next, joined), seq: next.seq + (end - at) };
    }
    at = end;
  }
  return next;
}

type Piece = Stored<EventOf<'text.appended'>>;

function joinPieces(pieces: readonly Piece[]): Piece {
  const [first] = pieces;
  if (first === undefined) throw new TypeError('There is nothing to join');
  return { ...first, text: pieces.map((piece) => piece.text).join('') };
}

/** The end of the consecutive pieces of one text that begin at `from`. */
function endOfPieces(events: readonly Stored[], from: number): number {
  const first = events[from] as Piece;
  let end = from + 1;
  for (; end < events.length; end += 1) {
    const event = events[end];
    if (event?.type !== 'text.appended' || event.agentId !== first.agentId) break;
    if (event.seq !== first.seq + (end - from)) break;
  }
  return end;
}

const partialOutputChars = 2000;

/** What a progress shows of an answer. */
export function partialOutputOf(text: string): string {
  return lastChars(text, partialOutputChars);
}

/** The end of a text, without half a surrogate pair. */
export function lastChars(text: string, count: number): string {
  return text.slice(-count).replace(/^[\udc00-\udfff]/, '');
}

export function rootAgent(state: RunState): AgentState | undefined {
  return state.rootId === null ? undefined : state.agents[state.rootId];
}

/** Agents that have not ended, in the order in which they started: parents before sub-agents. */
export function liveAgents(state: RunState): AgentState[] {
  return Object.values(state.agents).filter(({ ended }) => ended === null);
}

interface OpenCall {
  readonly agent: AgentState;
  readonly call: CallState;
}

function liveCalls(state: RunState): OpenCall[] {
  return liveAgents(state).flatMap((agent) => openCalls(agent).map((call) => ({ agent, call })));
}

/** Calls of all agents that wait for an approval. */
export function askingCalls(state: RunState): OpenCall[] {
  return liveCalls(state).filter(({ call }) => call.phase === 'asking');
}

/** Calls of all agents whose results clients post. */
export function clientCalls(state: RunState): OpenCall[] {
  return liveCalls(state).filter(({ call }) => call.phase === 'started' && call.via === 'client');
}

/** Pending approvals of all agents, including questions. */
export function pendingApprovals(state: RunState): OpenApproval[] {
  return waitingCalls(state).map(({ approval }) => approval);
}

/** Calls of all agents that wait for a person, once for each pending approval. */
export function waitingCalls(
  state: RunState,
): { readonly call: CallState; readonly approval: OpenApproval }[] {
  return liveCalls(state).flatMap(({ call }) =>
    [
      ...(call.phase === 'asking' && call.approval !== undefined ? [call.approval] : []),
      ...openQuestionsOf(call),
    ].map((approval) => ({ call, approval })),
  );
}

export interface OpenQuestion extends OpenCall {
  readonly approval: QuestionState;
}

/** Questions of running tools that have no answer. */
export function openQuestions(state: RunState): OpenQuestion[] {
  return liveCalls(state).flatMap(({ agent, call }) =>
    openQuestionsOf(call).map((approval) => ({ agent, call, approval })),
  );
}

function startedTurn(event: Stored<EventOf<'turn.started'>>): TurnState {
  const { turn, seq: startedSeq, textId, reasoningId } = event;
  return { turn, startedSeq, textId, reasoningId, text: noText, calls: [], finish: null };
}

/** The root agent is in a turn: its model has not finished, or has calls that are not settled. */
export function isInTurn(state: RunState): boolean {
  const root = rootAgent(state);
  return root !== undefined && (root.turn?.finish === null || openCalls(root).length > 0);
}

/** Only the root agent has messages, between two of its turns. */
function addMessage(state: RunState, event: Stored<EventOf<'message.added'>>): RunState {
  if (event.agentId !== state.rootId || isInTurn(state)) throw contradiction(state, event);
  const { messageId, deliveryId } = event;
  const unread = [...state.unread, { messageId, ...defined({ deliveryId }) }];
  return withAgent({ ...transition(state, event, 'message'), unread }, event, (agent) => agent);
}

/** The request of the turn contained all messages that the run had taken. */
function readMessages(state: RunState, { agentId }: EventOf<'turn.started'>): RunState {
  if (agentId !== state.rootId || state.unread.length === 0) return state;
  const read = [...state.read, ...state.unread.map(({ messageId }) => messageId)];
  return { ...state, unread: [], read };
}

/** The root agent starts with the run; any other is spawned by a started call. */
function addAgent(state: RunState, event: Stored<EventOf<'agent.started'>>): RunState {
  const { agentId, spawned } = event;
  if (Object.hasOwn(state.agents, agentId)) throw contradiction(state, event);
  const agents = { ...state.agents, [agentId]: startedAgent(event) };
  if (state.rootId === null && spawned === undefined) return { ...state, rootId: agentId, agents };
  const { parentId = '' } = event;
  const call = callOf(state, { agentId: parentId, toolCallId: spawned?.toolCallId ?? '' });
  if (call?.phase !== 'started') throw contradiction(state, event);
  return { ...state, subAgents: state.subAgents + 1, agents };
}

/** A list shows an answer of this length at most. */
const shortAnswer = 8 * 1024;

/**
 * The short text of a turn with calls is not referred to: a list would have to read all that followed it
 * to find the text.
 */
function withAnswer(state: RunState, { agentId }: EventOf<'agent.ended'>): RunState {
  if (agentId !== state.rootId) return state;
  const agent = state.agents[agentId];
  const turn = agent?.turn ?? null;
  const isInline = turn !== null && turn.calls.length > 0 && answerOf(agent).length <= shortAnswer;
  return { ...state, answerSeq: isInline ? null : (turn?.startedSeq ?? null) };
}

/** The usage of an agent counts for its parent, and so up to the root agent. */
function countForParent(state: RunState, event: EventOf<'agent.ended'>): RunState {
  const parent = state.agents[event.parentId ?? ''];
  if (parent === undefined) return state;
  const usage = addUsage(parent.usage, event.usage);
  return { ...state, agents: { ...state.agents, [parent.id]: { ...parent, usage } } };
}

/** Only a turn that the model has not finished can be discarded. */
function discardTurn(state: RunState, event: Stored<EventOf<'turn.discarded'>>): RunState {
  const retries = state.retries + (event.reason === 'retry' ? 1 : 0);
  const spent = event.usage ?? noUsage;
  const counted = { ...state, retries, usage: addUsage(state.usage, spent) };
  return withAgent(counted, event, (agent) => {
    if (agent.turn?.finish !== null) throw contradiction(state, event);
    return { ...agent, turn: null, usage: addUsage(agent.usage, spent) };
  });
}

function addCall(state: RunState, event: Stored<EventOf<'tool.called'>>): RunState {
  const { toolCallId, name, input } = event;
  return withTurn(state, event, (turn) => {
    if (turn.calls.some((call) => call.toolCallId === toolCallId)) {
      throw contradiction(state, event);
    }
    return { ...turn, calls: [...turn.calls, { toolCallId, name, input, phase: 'called' }] };
  });
}

const endingCommand = { completed: 'complete', failed: 'fail', canceled: 'cancel' } as const;

/** Changes the status as the run's table says. */
function transition(state: RunState, event: Stored, command: CommandName): RunState {
  const status = runTable[state.status][command];
  if (status === 'refused') throw contradiction(state, event);
  return { ...state, status };
}

function completeTurn(state: RunState, event: Stored<EventOf<'turn.completed'>>): RunState {
  const counted = { ...state, usage: addUsage(state.usage, event.usage) };
  return withTurn(counted, event, (turn, agent) => [
    { ...turn, text: endText(turn.text), finish: event.finishReason },
    {
      ...agent,
      iterations: agent.iterations + 1,
      usage: addUsage(agent.usage, event.usage),
    },
  ]);
}

function countStart(state: RunState, event: EventOf<'tool.started'>): RunState {
  const toolsInvoked = state.toolsInvoked.includes(event.name)
    ? state.toolsInvoked
    : [...state.toolsInvoked, event.name];
  // A program removes its own rules when they are used up.
  const usedOnce =
    event.rule?.list === 'allowOnce' && event.rule.source === 'request'
      ? [...state.usedOnce, event.rule.index]
      : state.usedOnce;
  // An idempotent tool that starts again after a crash counts as one call.
  const again = callOf(state, event)?.idempotencyKey !== undefined;
  const toolsStarted = state.toolsStarted + (again ? 0 : 1);
  return { ...state, toolsInvoked, toolsStarted, usedOnce };
}

function approvalOf(state: RunState, event: Stored<EventOf<'approval.decided'>>): ApprovalEntry {
  return {
    toolCallId: event.toolCallId,
    name: callOf(state, event)?.name ?? '',
    action: event.approved ? 'approve' : 'reject',
    by: event.by.name,
    at: event.at,
    ...defined({ outcome: event.outcome, reason: event.reason }),
  };
}

function denialIn(
  state: RunState,
  event: Stored<EventOf<'approval.decided'>>,
): Readonly<Record<string, EarlierDenial>> {
  const approval = callOf(state, event)?.approval;
  if (event.approved || approval?.id !== event.approvalId || approval.kind !== 'permission')
    return {};
  const { at, by, reason } = event;
  return { [approval.digest]: { at, by, ...defined({ reason }) } };
}

/** A call of the open turn of its agent. */
export function callOf(
  { agents }: RunState,
  { agentId, toolCallId }: { agentId: string; toolCallId: string },
): CallState | undefined {
  return agents[agentId]?.turn?.calls.find((call) => call.toolCallId === toolCallId);
}

type OfAgent = Extract<Stored, { agentId: string }>;

function withAgent(
  state: RunState,
  event: OfAgent,
  change: (agent: AgentState) => AgentState,
): RunState {
  const agent = state.agents[event.agentId];
  if (agent === undefined || agent.ended !== null) throw contradiction(state, event);
  return { ...state, agents: { ...state.agents, [agent.id]: change(agent) } };
}

/** A turn is followed by another, or by the agent's end, only when all its calls are settled (E6). */
function betweenTurns(
  state: RunState,
  event: OfAgent,
  change: (agent: AgentState) => AgentState,
): RunState {
  return withAgent(state, event, (agent) => {
    if (openCalls(agent).length > 0) throw contradiction(state, event);
    return change(agent);
  });
}

type TurnChange = (turn: TurnState, agent: AgentState) => TurnState | [TurnState, AgentState];

function withTurn(state: RunState, event: OfAgent, change: TurnChange): RunState {
  return withAgent(state, event, (agent) => {
    if (agent.turn === null) throw contradiction(state, event);
    const changed = change(agent.turn, agent);
    return Array.isArray(changed)
      ? { ...changed[1], turn: changed[0] }
      : { ...agent, turn: changed };
  });
}

function withCall(state: RunState, event: Stored<CallEvent>): RunState {
  const changed = changeCall(state, event);
  return callOf(changed, event)?.phase === 'settled' ? withoutSpawned(changed, event) : changed;
}

/** Removes the sub-agents of a settled call; they must have ended (E6). */
function withoutSpawned(state: RunState, event: Stored<CallEvent>): RunState {
  const done = Object.values(state.agents).filter(
    ({ parentId, spawned }) =>
      parentId === event.agentId && spawned?.toolCallId === event.toolCallId,
  );
  if (done.length === 0) return state;
  if (done.some(({ ended }) => ended === null)) throw contradiction(state, event);
  const agents = { ...state.agents };
  for (const { id } of done) delete agents[id];
  return { ...state, agents };
}

function changeCall(state: RunState, event: Stored<CallEvent>): RunState {
  return withTurn(state, event, (turn) => {
    const index = turn.calls.findIndex((call) => call.toolCallId === event.toolCallId);
    const call = turn.calls[index];
    const next = call === undefined ? undefined : evolveCall(call, event);
    if (next === undefined) throw contradiction(state, event);
    return { ...turn, calls: turn.calls.with(index, next) };
  });
}

function contradiction(state: RunState, event: Stored): RelayError {
  return new RelayError(
    'journal_corrupt',
    `The journal contradicts itself: ${event.type} at ${event.seq} after ${state.seq}`,
  );
}

/** To be increased with every change of `RunState`. */
const snapshotVersion = 7;

export function writeSnapshot(state: RunState): string {
  return JSON.stringify({ version: snapshotVersion, state });
}

/** Undefined if there is none of this version: the journal is folded from its beginning then. */
export function readSnapshot(text: string | null): RunState | undefined {
  if (text === null) return undefined;
  const { version, state } = JSON.parse(text) as { version?: number; state?: RunState };
  return version === snapshotVersion ? state : undefined;
}
