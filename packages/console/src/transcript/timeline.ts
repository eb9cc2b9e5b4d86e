/**
 * The journal of a run as a waterfall: a lane per agent with what it did and waited for, marks for what
 * happened, and the times in which nothing happened. Events are added one by one, in their order.
 *
 * A turn is stored with its first output. The time before that, since the agent was ready, belongs to the
 * turn: the model was working on it.
 */
import type { StoredEvent } from '@relay/protocol/wire';
import { countUpTo } from './growing-text.ts';

export type SpanKind = 'turn' | 'tool' | 'wait';
export type SpanState = 'open' | 'done' | 'failed' | 'ended';

export interface Span {
  readonly kind: SpanKind;
  readonly lane: Lane;
  /** The line within its lane. */
  readonly track: number;
  readonly label: string;
  /** The event that began it, and the one that ended it. */
  readonly seq: number;
  endSeq: number | undefined;
  readonly from: number;
  /** The first output of a turn. */
  readonly firstAt: number | undefined;
  to: number | undefined;
  state: SpanState;
}

export interface Lane {
  readonly agentId: string;
  name: string;
  readonly depth: number;
  /** Ordered by their beginning. */
  readonly tracks: Span[][];
}

export type MarkerKind =
  | 'requested'
  | 'decided'
  | 'crash'
  | 'retry'
  | 'discarded'
  | 'compacted'
  | 'handoff'
  | 'limit'
  | 'message'
  | 'error'
  | 'ended';

export interface Marker {
  readonly kind: MarkerKind;
  readonly seq: number;
  readonly at: number;
  readonly label: string;
}

/** Nothing happened between two events. */
export interface Gap {
  readonly from: number;
  readonly to: number;
  readonly reason: 'queued' | 'waiting' | 'stopped' | 'silent';
}

interface AgentState {
  readonly lane: Lane;
  /** Since when the model may be working on the next turn; undefined while it is not. */
  readyAt: number | undefined;
  turn: Span | undefined;
  openCalls: number;
}

interface CallState {
  readonly agent: AgentState;
  readonly track: number;
  span: Span | undefined;
}

/** Idle time that is shorter is drawn like any other. */
const shortestGapMs = 1_000;
/** A model that answers at all begins to within this time; else its server was not there. */
const longestFirstOutputMs = 120_000;

export class Timeline {
  readonly lanes: Lane[] = [];
  readonly markers: Marker[] = [];
  readonly gaps: Gap[] = [];
  /** Of the first and the last event. */
  startAt: number | undefined;
  endAt = 0;
  isSuspended = false;
  isOver = false;
  #isStarted = false;
  #root: AgentState | undefined;
  readonly #agents = new Map<string, AgentState>();
  readonly #calls = new Map<string, CallState>();
  readonly #waits = new Map<string, Span>();
  /** The first and the last `seq` of the times between two turns of the root agent. */
  readonly #boundaries: { readonly from: number; to: number }[] = [];
  #isBoundary = false;

  add(event: StoredEvent): void {
    // Clocks of several servers may differ; time never goes backwards here.
    const at = Math.max(this.endAt, Date.parse(event.at));
    if (this.startAt === undefined) {
      this.startAt = at;
      this.#isStarted = event.type !== 'run.created';
      this.endAt = at;
    }
    // Most events are pieces of text, which change nothing but the end.
    if (event.type !== 'text.appended' && event.type !== 'reasoning.appended') {
      this.#addGap(event, at);
      this.#change(event, at);
      this.#addBoundary(event.seq);
    }
    this.endAt = at;
  }

  /** The last event up to `seq` after which the run can be forked; undefined if none was read. */
  boundaryUpTo(seq: number): number | undefined {
    const range = this.#boundaries.findLast(({ from }) => from <= seq);
    return range === undefined ? undefined : Math.min(range.to, seq);
  }

  /** A run can be forked while its root agent is in no turn and waits for no tool. */
  #addBoundary(seq: number): void {
    const root = this.#root;
    const isBoundary = root === undefined || (root.turn === undefined && root.openCalls === 0);
    const last = this.#boundaries.at(-1);
    if (isBoundary && this.#isBoundary && last !== undefined) last.to = seq;
    else if (isBoundary) this.#boundaries.push({ from: seq, to: seq });
    this.#isBoundary = isBoundary;
  }

  #addGap(event: StoredEvent, at: number): void {
    if (at - this.endAt < shortestGapMs) return;
    const reason = this.#idleReason(event, at);
    if (reason !== undefined) this.gaps.push({ from: this.endAt, to: at, reason });
  }

  /** Why nothing happened before the event; undefined if something may have. */
  #idleReason(event: StoredEvent, at: number): Gap['reason'] | undefined {
    if (!this.#isStarted) return 'queued';
    if (this.isSuspended) return 'waiting';
    if (event.type === 'turn.discarded' && event.reason === 'crash') return 'stopped';
    if (event.type !== 'turn.started' || at - this.endAt <= longestFirstOutputMs) return undefined;
    return 'silent';
  }

  #change(event: StoredEvent, at: number): void {
    switch (event.type) {
      case 'run.started':
        this.#isStarted = true;
        return;
      case 'run.suspended':
        this.isSuspended = true;
        return;
      case 'run.resumed':
        this.isSuspended = false;
        return;
      case 'agent.started': {
        const agent = this.#agentOf(event);
        agent.lane.name = event.name;
        agent.readyAt = at;
        return;
      }
      case 'agent.switched':
        this.#agentOf(event).lane.name = event.name;
        return;
      case 'agent.handed-off':
        return this.#mark('handoff', event, at, `Handed off from ${event.from} to ${event.to}`);
      case 'agent.ended': {
        const agent = this.#agentOf(event);
        agent.readyAt = undefined;
        if (agent.turn !== undefined) close(agent.turn, event, at, 'ended');
        agent.turn = undefined;
        return;
      }
      case 'turn.started': {
        const agent = this.#agentOf(event);
        const readyAt = agent.readyAt ?? at;
        agent.turn = add(agent.lane, {
          kind: 'turn',
          track: 0,
          label: `Turn ${event.turn}`,
          seq: event.seq,
          from: at - readyAt > longestFirstOutputMs ? at : readyAt,
          firstAt: at,
        });
        agent.readyAt = undefined;
        return;
      }
      case 'turn.completed': {
        const agent = this.#agentOf(event);
        if (agent.turn !== undefined) close(agent.turn, event, at, 'done');
        agent.turn = undefined;
        agent.readyAt = agent.openCalls === 0 ? at : undefined;
        return;
      }
      case 'turn.discarded':
        return this.#discard(event, at);
      case 'tool.called':
        this.#callOf(event).agent.openCalls += 1;
        return;
      case 'tool.started': {
        const call = this.#callOf(event);
        const { lane } = call.agent;
        const { track } = call;
        const { name: label, seq } = event;
        call.span ??= add(lane, { kind: 'tool', track, label, seq, from: at, firstAt: undefined });
        return;
      }
      case 'tool.completed':
        return this.#settle(event, at, 'done');
      case 'tool.failed':
        return this.#settle(event, at, 'failed');
      case 'tool.denied':
        return this.#settle(event, at, 'ended');
      case 'approval.requested': {
        const { agent, track } = this.#callOf(event);
        const label = waitLabel(event.kind, event.tool);
        const { seq } = event;
        const span = { kind: 'wait', track, label, seq, from: at, firstAt: undefined } as const;
        this.#waits.set(event.approvalId, add(agent.lane, span));
        return this.#mark('requested', event, at, label);
      }
      case 'approval.decided': {
        const { approved, by, reason } = event;
        this.#endWait(event, at, approved ? 'done' : 'failed');
        const verb = approved ? 'Approved' : 'Denied';
        const why = reason === undefined ? '' : `: ${reason}`;
        return this.#mark('decided', event, at, `${verb} by ${by.owner ?? by.name}${why}`);
      }
      case 'approval.expired':
        this.#endWait(event, at, 'ended');
        return this.#mark('decided', event, at, 'The approval expired');
      case 'approval.closed':
        this.#endWait(event, at, 'ended');
        return this.#mark('decided', event, at, `The approval was closed: ${event.reason}`);
      case 'context.compacted':
        return this.#mark('compacted', event, at, 'Earlier messages were summarized');
      case 'limit.reached':
        return this.#mark('limit', event, at, `Limit reached: ${event.limit}`);
      case 'message.added':
        return this.#mark('message', event, at, 'A message arrived');
      case 'run.errored':
        return this.#mark('error', event, at, event.error.message);
      case 'run.ended':
        this.isOver = true;
        this.isSuspended = false;
        return this.#mark('ended', event, at, `The run ${endWords[event.status]}`);
      case 'run.created':
      case 'run.summarized':
      case 'memory.recalled':
      case 'memory.stored':
      case 'text.appended':
      case 'reasoning.appended':
      case 'tool.progressed':
      case 'approval.expiring':
        return;
    }
  }

  #discard(event: Extract<StoredEvent, { type: 'turn.discarded' }>, at: number): void {
    const agent = this.#agentOf(event);
    const isCrash = event.reason === 'crash';
    // After a crash nobody worked on the turn: it ended with what was stored of it.
    const endedAt = isCrash ? this.endAt : at;
    if (agent.turn !== undefined) close(agent.turn, event, endedAt, 'failed');
    agent.turn = undefined;
    agent.readyAt = at;
    if (isCrash) return this.#mark('crash', event, at, 'The server stopped; another one took over');
    const code = event.code === undefined ? '' : ` (${event.code})`;
    if (event.reason === 'retry') return this.#mark('retry', event, at, `Retried${code}`);
    this.#mark('discarded', event, at, `Text discarded: ${event.reason}${code}`);
  }

  #settle(
    event: Extract<StoredEvent, { type: 'tool.completed' | 'tool.failed' | 'tool.denied' }>,
    at: number,
    state: SpanState,
  ): void {
    const call = this.#callOf(event);
    if (call.span !== undefined) close(call.span, event, at, state);
    this.#calls.delete(event.toolCallId);
    const { agent } = call;
    agent.openCalls = Math.max(0, agent.openCalls - 1);
    if (agent.openCalls === 0 && agent.turn === undefined) agent.readyAt = at;
  }

  #endWait(
    event: Extract<StoredEvent, { approvalId: string; seq: number }>,
    at: number,
    state: SpanState,
  ): void {
    const span = this.#waits.get(event.approvalId ?? '');
    if (span !== undefined) close(span, event, at, state);
  }

  #mark(kind: MarkerKind, { seq }: StoredEvent, at: number, label: string): void {
    this.markers.push({ kind, seq, at, label });
  }

  #agentOf({
    agentId,
    parentId,
  }: {
    readonly agentId: string;
    readonly parentId?: string | undefined;
  }): AgentState {
    let agent = this.#agents.get(agentId);
    if (agent === undefined) {
      const parent = parentId === undefined ? undefined : this.#agents.get(parentId)?.lane;
      const depth = parentId === undefined ? 0 : (parent?.depth ?? 0) + 1;
      const lane: Lane = { agentId, name: depth === 0 ? 'agent' : 'sub-agent', depth, tracks: [] };
      agent = { lane, readyAt: undefined, turn: undefined, openCalls: 0 };
      this.#agents.set(agentId, agent);
      if (depth === 0) this.#root ??= agent;
      this.#insert(lane, parent);
    }
    return agent;
  }

  /** A lane follows those of its parent and of the agents that the parent spawned before. */
  #insert(lane: Lane, parent: Lane | undefined): void {
    if (parent === undefined) return void this.lanes.push(lane);
    let index = this.lanes.indexOf(parent) + 1;
    while ((this.lanes[index]?.depth ?? 0) > parent.depth) index += 1;
    this.lanes.splice(index, 0, lane);
  }

  /** Calls that are open at the same time have tracks of their own, below that of the turns. */
  #callOf(event: {
    readonly agentId: string;
    readonly parentId?: string | undefined;
    readonly toolCallId: string;
  }): CallState {
    let call = this.#calls.get(event.toolCallId);
    if (call === undefined) {
      const agent = this.#agentOf(event);
      const taken = new Set<number>();
      for (const other of this.#calls.values()) if (other.agent === agent) taken.add(other.track);
      let track = 1;
      while (taken.has(track)) track += 1;
      call = { agent, track, span: undefined };
      this.#calls.set(event.toolCallId, call);
    }
    return call;
  }

  /** What agents are waiting for a model for, since when: there is no event for it yet. */
  pending(): readonly { readonly lane: Lane; readonly from: number }[] {
    if (this.isOver || this.isSuspended) return [];
    return [...this.#agents.values()].flatMap(({ lane, readyAt }) =>
      readyAt === undefined ? [] : [{ lane, from: readyAt }],
    );
  }
}

const endWords = { completed: 'completed', failed: 'failed', canceled: 'was canceled' } as const;

function waitLabel(kind: 'permission' | 'question' | 'outcome', tool: string): string {
  switch (kind) {
    case 'permission':
      return `Approval of ${tool}`;
    case 'question':
      return `Question of ${tool}`;
    case 'outcome':
      return `Outcome of ${tool}`;
  }
}

function add(
  lane: Lane,
  span: Pick<Span, 'kind' | 'track' | 'label' | 'seq' | 'from' | 'firstAt'>,
): Span {
  const added: Span = { ...span, lane, endSeq: undefined, to: undefined, state: 'open' };
  while (lane.tracks.length <= span.track) lane.tracks.push([]);
  lane.tracks[span.track]?.push(added);
  return added;
}

function close(span: Span, { seq }: StoredEvent, at: number, state: SpanState): void {
  span.endSeq = seq;
  span.to = Math.max(span.from, at);
  span.state = state;
}

/** A part of the time axis: to scale, or a folded gap of fixed width. */
interface Piece {
  readonly from: number;
  readonly to: number;
  readonly x: number;
  readonly width: number;
  readonly gap: Gap | undefined;
}

export interface Scale {
  readonly width: number;
  readonly folds: readonly (Piece & { readonly gap: Gap })[];
  x(time: number): number;
  time(x: number): number;
}

/** Long enough for "2 h 10 min" between its dots. */
const foldWidth = 88;
/** Idle time is folded if it is more than this share of the time in which something happened. */
const foldedShare = 0.1;

/**
 * Positions on the time axis. Time in which something happened is to scale, idle gaps are folded. `now` is
 * the end of the axis of a run that is going on.
 */
export function scaleOf(
  timeline: Timeline,
  options: { readonly width: number; readonly now?: number },
): Scale {
  const { startAt = 0, endAt, gaps, isSuspended, isOver } = timeline;
  const end = isOver ? endAt : Math.max(endAt, options.now ?? endAt);
  const all = [...gaps];
  if (isSuspended && end - endAt >= shortestGapMs) {
    all.push({ from: endAt, to: end, reason: 'waiting' });
  }
  const idle = all.reduce((sum, { from, to }) => sum + to - from, 0);
  const busy = Math.max(0, end - startAt - idle);
  const threshold = Math.max(shortestGapMs, busy * foldedShare);
  const folded = all.filter(({ from, to }) => to - from >= threshold);
  const scaled = end - startAt - folded.reduce((sum, { from, to }) => sum + to - from, 0);
  // Many folds share half of the width.
  const gapWidth = Math.min(foldWidth, options.width / 2 / Math.max(1, folded.length));
  const perMs = Math.max(0, options.width - gapWidth * folded.length) / Math.max(1, scaled);
  const pieces: Piece[] = [];
  let [time, x] = [startAt, 0];
  const addPiece = (to: number, width: number, gap: Gap | undefined) => {
    if (to <= time && gap === undefined) return;
    pieces.push({ from: time, to, x, width, gap });
    time = to;
    x += width;
  };
  for (const gap of folded) {
    addPiece(gap.from, (gap.from - time) * perMs, undefined);
    addPiece(gap.to, gapWidth, gap);
  }
  addPiece(end, (end - time) * perMs, undefined);
  if (pieces.length === 0) addPiece(end + 1, options.width, undefined);
  const froms = pieces.map((piece) => piece.from);
  const xs = pieces.map((piece) => piece.x);
  const at = (starts: readonly number[], value: number) =>
    pieces[Math.max(0, countUpTo(starts, value) - 1)] as Piece;
  const share = (value: number, from: number, length: number) =>
    length === 0 ? 0 : Math.min(1, Math.max(0, (value - from) / length));
  return {
    width: x,
    folds: pieces.filter((piece): piece is Piece & { gap: Gap } => piece.gap !== undefined),
    x(value) {
      const piece = at(froms, value);
      return piece.x + share(value, piece.from, piece.to - piece.from) * piece.width;
    },
    time(value) {
      const piece = at(xs, value);
      return piece.from + share(value, piece.x, piece.width) * (piece.to - piece.from);
    },
  };
}

/** A span as it is drawn; several that are too narrow to be seen are drawn as one. */
export interface Bar {
  readonly x: number;
  readonly width: number;
  readonly span: Span;
  readonly count: number;
}

const narrowest = 3;

/** The spans of a track between two positions. Their number is bounded by the distance of these. */
export function barsOf(
  track: readonly Span[],
  scale: Scale,
  view: { readonly from: number; readonly to: number; readonly now: number },
): Bar[] {
  const bars: Bar[] = [];
  const fromTime = scale.time(view.from);
  const toTime = scale.time(view.to);
  let index = firstEndingAfter(track, fromTime);
  for (; index < track.length; index += 1) {
    const span = track[index] as Span;
    if (span.from > toTime) break;
    const x = scale.x(span.from);
    const end = Math.max(x + narrowest, scale.x(span.to ?? view.now));
    const last = bars.at(-1);
    const isNarrow = end - x < narrowest + 0.5;
    if (
      last !== undefined &&
      isNarrow &&
      x < last.x + last.width + 1 &&
      last.span.kind === span.kind
    ) {
      bars[bars.length - 1] = { ...last, width: end - last.x, count: last.count + 1 };
    } else {
      bars.push({ x, width: end - x, span, count: 1 });
    }
  }
  return bars;
}

/** Spans of a track do not overlap, so their ends ascend as their beginnings do. */
function firstEndingAfter(track: readonly Span[], time: number): number {
  let [low, high] = [0, track.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((track[middle]?.to ?? Infinity) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
