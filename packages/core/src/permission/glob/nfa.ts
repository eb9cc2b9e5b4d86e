import { spendSteps } from '../step-budget.ts';
import { type CodeRanges, flatten, type GlobNode } from './tree.ts';

/**
 * A position automaton (Glushkov): state 0 is the start, and each other state is a position in the
 * pattern that has just consumed a code point. A set of states is a bitset. An assertion looks one
 * code point ahead, and distinguishes only "a dot", "anything else" and "the end". The epsilon
 * closures are therefore computed once for each of these three, and none at run time.
 */
export interface Automaton {
  readonly words: number;
  readonly alphabet: Alphabet;
  /** By class, then word: the states that consume a code point of that class. */
  readonly reach: Int32Array;
  /** States whose successors are at distance 0, 1 or 2, so that a shift computes them all at once. */
  readonly shifts: readonly [Int32Array, Int32Array, Int32Array];
  /** States with other successors, or with successors that depend on the next code point. */
  readonly branching: Int32Array;
  /** The successors of a branching state, as words of the bitset: [index, bits, index, bits, …]. */
  readonly beforeDot: readonly Int32Array[];
  readonly beforeOther: readonly Int32Array[];
  readonly accepting: Int32Array;
  /** Steps per code point without a table of states. */
  readonly cost: number;
}

type Ahead = 'dot' | 'other' | 'end';

type Edge =
  | { kind: 'consume'; ranges: CodeRanges; next: number }
  | { kind: 'fork'; next: number[] }
  | { kind: 'assert'; what: 'notDot' | 'notEnd' | 'end'; next: number };

const ACCEPT = 0;
/** The number of words that the branching states can change: the worst cost of one code point. */
const MAX_COST = 1_024;

/** Whether the automaton of a pattern is never too large, so that it need not be built to know. */
export function isAlwaysSmall(root: GlobNode, positions: number): boolean {
  if ((positions + 1) * ((positions + 32) >>> 5) <= MAX_COST) return true;
  // Without groups, the successors of a state are its neighbours.
  return [...flatten(root)].every(
    (node) => node.kind === 'assert' || (node.kind === 'repeat' ? node.node : node).kind === 'one',
  );
}

/** Undefined if the automaton is too large. */
export function buildAutomaton(root: GlobNode): Automaton | undefined {
  const edges: Edge[] = [{ kind: 'fork', next: [] }];
  const entry = addNode(edges, root, ACCEPT);
  // Nodes are added back to front, so descending order numbers the states in pattern order.
  const stateOf = new Map<number, number>();
  const ranges: CodeRanges[] = [];
  for (let index = edges.length - 1; index > 0; index -= 1) {
    const edge = edges[index]!;
    if (edge.kind === 'consume') stateOf.set(index, ranges.push(edge.ranges));
  }
  const entries = [entry, ...[...stateOf.keys()].map((index) => afterConsuming(edges, index))];
  const words = (entries.length + 31) >>> 5;
  const shifts = [new Int32Array(words), new Int32Array(words), new Int32Array(words)] as const;
  const branching = new Int32Array(words);
  const accepting = new Int32Array(words);
  const beforeDot: Int32Array[] = [];
  const beforeOther: Int32Array[] = [];
  let cost = 0;
  const closures = new Closures(edges, stateOf);
  for (const [state, from] of entries.entries()) {
    const other = closures.from(from, 'other');
    const dot = closures.asserts ? closures.from(from, 'dot') : other;
    if (closures.reachesEnd(from)) setBit(accepting, state);
    const near = other.every((next) => next >= state && next <= state + 2);
    // A dot ahead can only rule successors out, so equal counts mean equal sets.
    if (near && dot.length === other.length) {
      for (const next of other) setBit(shifts[next - state]!, state);
      continue;
    }
    setBit(branching, state);
    beforeDot[state] = packBits(dot);
    beforeOther[state] = packBits(other);
    cost += Math.max(beforeDot[state].length, beforeOther[state].length) / 2;
    if (cost > MAX_COST) return undefined;
  }
  const { alphabet, reach } = buildReach(ranges, words);
  const automaton = {
    words,
    alphabet,
    reach,
    shifts,
    branching,
    beforeDot,
    beforeOther,
    accepting,
  };
  return { ...automaton, cost: 4 + 2 * words + cost };
}

/** Adds a node that continues at `next`, and returns the edge that enters it. */
function addNode(edges: Edge[], node: GlobNode, next: number): number {
  switch (node.kind) {
    case 'one':
      return edges.push({ kind: 'consume', ranges: node.ranges, next }) - 1;
    case 'assert':
      return edges.push({ kind: 'assert', what: node.next, next }) - 1;
    case 'all':
      return node.nodes.reduceRight((after, part) => addNode(edges, part, after), next);
    case 'either': {
      const branches = node.nodes.toReversed().map((part) => addNode(edges, part, next));
      return edges.push({ kind: 'fork', next: branches }) - 1;
    }
    case 'repeat': {
      const exits: number[] = [];
      const fork = edges.push({ kind: 'fork', next: exits }) - 1;
      const body = addNode(edges, node.node, node.many ? fork : next);
      exits.push(body, next);
      return node.min === 1 ? body : fork;
    }
  }
}

function afterConsuming(edges: readonly Edge[], index: number): number {
  const edge = edges[index]!;
  return edge.kind === 'consume' ? edge.next : ACCEPT;
}

/** What is reachable from an edge without consuming anything. */
class Closures {
  readonly #edges: readonly Edge[];
  readonly #stateOf: ReadonlyMap<number, number>;
  /** The number of the search that last visited an edge. */
  readonly #visited: Int32Array;
  #search = 0;
  /** Without assertions, the next code point makes no difference. */
  readonly asserts: boolean;

  constructor(edges: readonly Edge[], stateOf: ReadonlyMap<number, number>) {
    this.#edges = edges;
    this.#stateOf = stateOf;
    this.#visited = new Int32Array(edges.length);
    this.asserts = edges.some(({ kind }) => kind === 'assert');
  }

  /** The states that can consume the next code point. */
  from(start: number, ahead: 'dot' | 'other'): number[] {
    const reached: number[] = [];
    for (const index of this.#reachable(start, ahead)) {
      const state = this.#stateOf.get(index);
      if (state !== undefined) reached.push(state);
    }
    return reached;
  }

  reachesEnd(start: number): boolean {
    return this.#reachable(start, 'end').includes(ACCEPT);
  }

  #reachable(start: number, ahead: Ahead): number[] {
    this.#search += 1;
    this.#visited[start] = this.#search;
    const reached = [start];
    for (let at = 0; at < reached.length; at += 1) {
      const edge = this.#edges[reached[at]!]!;
      if (edge.kind === 'fork') for (const next of edge.next) this.#visit(next, reached);
      else if (edge.kind === 'assert' && holds(edge.what, ahead)) this.#visit(edge.next, reached);
    }
    spendSteps(4 * reached.length);
    return reached;
  }

  #visit(index: number, reached: number[]): void {
    if (this.#visited[index] === this.#search) return;
    this.#visited[index] = this.#search;
    reached.push(index);
  }
}

function holds(what: 'notDot' | 'notEnd' | 'end', ahead: Ahead): boolean {
  if (what === 'notDot') return ahead !== 'dot';
  return (what === 'end') === (ahead === 'end');
}

function buildReach(
  ranges: readonly CodeRanges[],
  words: number,
): Pick<Automaton, 'alphabet' | 'reach'> {
  const sets = new Map<string, { ranges: CodeRanges; states: number[] }>();
  for (const [index, set] of ranges.entries()) {
    const key = set.join(',');
    const known = sets.get(key);
    if (known === undefined) sets.set(key, { ranges: set, states: [index + 1] });
    else known.states.push(index + 1);
  }
  const distinct = [...sets.values()];
  const alphabet = buildAlphabet(distinct.map((set) => set.ranges));
  const reach = new Int32Array(alphabet.size * words);
  for (const [symbol, within] of alphabet.members.entries()) {
    const row = reach.subarray(symbol * words, (symbol + 1) * words);
    for (const set of within) for (const state of distinct[set]!.states) setBit(row, state);
  }
  return { alphabet, reach };
}

function packBits(states: readonly number[]): Int32Array {
  const words = new Map<number, number>();
  for (const state of states) {
    words.set(state >>> 5, (words.get(state >>> 5) ?? 0) | (1 << (state & 31)));
  }
  return Int32Array.from([...words].flat());
}

function setBit(bits: Int32Array, index: number): void {
  bits[index >>> 5]! |= 1 << (index & 31);
}

/**
 * Code points, grouped into classes that no part of the pattern distinguishes. A class is a small
 * number, so that a transition is an array access.
 */
export interface Alphabet {
  readonly size: number;
  readonly dot: number;
  /** The class of each ASCII code. */
  readonly ascii: Uint16Array;
  /** For each class, the indexes of the sets that contain it. */
  readonly members: readonly (readonly number[])[];
  readonly classOf: (code: number) => number;
}

const DOT = 0x2e;
const ASCII = 0x80;

function buildAlphabet(sets: readonly CodeRanges[]): Alphabet {
  const starts = [...boundaries(sets)].sort((a, b) => a - b);
  const inSets = membership(starts, sets);
  const classes = new Map<string, number>();
  const members: (readonly number[])[] = [];
  const classAt = starts.map((start, index) => {
    const within = inSets[index]!;
    const key = start === DOT ? 'dot' : within.join(',');
    const known = classes.get(key);
    if (known !== undefined) return known;
    classes.set(key, members.length);
    return members.push(within) - 1;
  });
  const search = (code: number): number => {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (starts[middle]! <= code) low = middle;
      else high = middle - 1;
    }
    return classAt[low]!;
  };
  const ascii = Uint16Array.from({ length: ASCII }, (_, code) => search(code));
  return {
    size: members.length,
    dot: search(DOT),
    ascii,
    members,
    classOf: (code) => ascii[code] ?? search(code),
  };
}

function boundaries(sets: readonly CodeRanges[]): Set<number> {
  const starts = new Set([0, DOT, DOT + 1]);
  for (const ranges of sets) {
    for (let at = 0; at + 1 < ranges.length; at += 2) {
      starts.add(ranges[at]!);
      starts.add(ranges[at + 1]! + 1);
    }
  }
  return starts;
}

function membership(starts: readonly number[], sets: readonly CodeRanges[]): readonly number[][] {
  const inSets: number[][] = starts.map(() => []);
  const indexOf = new Map(starts.map((start, index) => [start, index]));
  for (const [set, ranges] of sets.entries()) {
    for (let at = 0; at + 1 < ranges.length; at += 2) {
      const end = indexOf.get(ranges[at + 1]! + 1)!;
      for (let index = indexOf.get(ranges[at]!)!; index < end; index += 1) inSets[index]!.push(set);
    }
  }
  return inSets;
}
