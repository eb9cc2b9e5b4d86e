import { spendSteps } from '../step-budget.ts';
import type { Automaton } from './nfa.ts';

const UNKNOWN = -1;
const DEAD = 0;
const START = 1;
const MAX_STATES = 256;
const MAX_CELLS = 16_384;
/** Of the table that the next value starts with. */
const MAX_KEPT_CELLS = 4_096;
/** The code units between two looks at the budget. */
const CHUNK = 4_096;
const EXTENSION_STEPS = 100;

/**
 * Runs an automaton over a value: one table access per code point, in a DFA that is built lazily.
 * When the table is full, the rest of the value is matched on bitsets, whose cost per code point
 * depends on the pattern alone. The next value starts with an empty table if this one has become large.
 */
export class GlobRun {
  readonly #automaton: Automaton;
  readonly #maxStates: number;
  #sets: Int32Array[] = [];
  #rows: Int32Array[] = [];
  #ids = new Map<string, number>();

  constructor(automaton: Automaton) {
    this.#automaton = automaton;
    const fitting = Math.floor(MAX_CELLS / automaton.alphabet.size);
    this.#maxStates = Math.max(8, Math.min(MAX_STATES, fitting));
  }

  /** Whether it matches the value, or the value and the ending. */
  matches(value: string, ending = ''): boolean {
    try {
      return this.#matches(value, ending);
    } finally {
      if (this.#sets.length * this.#automaton.alphabet.size > MAX_KEPT_CELLS) this.#sets = [];
    }
  }

  /** The number of code units that can be the start of a match: all of a value that ends too early. */
  matchableLength(value: string): number {
    const { cost, words, alphabet } = this.#automaton;
    let from: Int32Array = new Int32Array(words);
    let to: Int32Array = new Int32Array(words);
    from[0] = 1;
    let at = 0;
    while (at < value.length) {
      spendSteps(cost);
      const code = value.codePointAt(at)!;
      step(this.#automaton, alphabet.classOf(code), from, to);
      if (to.every((word) => word === 0)) return at;
      [from, to] = [to, from];
      at += code > 0xff_ff ? 2 : 1;
    }
    return at;
  }

  #matches(value: string, ending: string): boolean {
    if (!this.#canEndWith(value) && (ending === '' || !this.#canEndWith(ending))) return false;
    if (this.#sets.length === 0) this.#restart();
    const { ascii, classOf } = this.#automaton.alphabet;
    const rows = this.#rows;
    let state = START;
    let row = rows[START]!;
    let at = 0;
    while (at < value.length) {
      const end = Math.min(value.length, at + CHUNK);
      spendSteps(end - at);
      for (; at < end; at += 1) {
        const unit = value.charCodeAt(at);
        let symbol = ascii[unit];
        if (symbol === undefined) {
          const code = value.codePointAt(at)!;
          if (code > 0xff_ff) at += 1;
          symbol = classOf(code);
        }
        let next = row[symbol]!;
        if (next === state) continue;
        if (next === UNKNOWN) next = this.#extend(state, symbol);
        if (next === DEAD) return false;
        if (next === UNKNOWN) {
          const states = new Int32Array(this.#automaton.words);
          step(this.#automaton, symbol, this.#sets[state]!, states);
          const reached = this.#simulate(value, at + 1, states);
          return this.#acceptsWith(reached, ending);
        }
        state = next;
        row = rows[next]!;
      }
    }
    return this.#acceptsWith(this.#sets[state]!, ending);
  }

  /** Fast path: most values that do not match end in the wrong character. */
  #canEndWith(value: string): boolean {
    if (value === '') return true;
    const pair = value.codePointAt(value.length - 2) ?? 0;
    const code = pair > 0xff_ff ? pair : value.charCodeAt(value.length - 1);
    const { words, reach, alphabet } = this.#automaton;
    const row = alphabet.classOf(code) * words;
    return this.#accepts(reach.subarray(row, row + words));
  }

  /** The states after the rest of the value, from `start` on. */
  #simulate(value: string, start: number, states: Int32Array): Int32Array {
    const { cost, words, alphabet } = this.#automaton;
    let from: Int32Array = states;
    let to: Int32Array = new Int32Array(words);
    let at = start;
    while (at < value.length) {
      const end = Math.min(value.length, at + CHUNK);
      spendSteps((end - at) * cost);
      for (; at < end; at += 1) {
        const code = value.codePointAt(at)!;
        if (code > 0xff_ff) at += 1;
        step(this.#automaton, alphabet.classOf(code), from, to);
        [from, to] = [to, from];
      }
    }
    return from;
  }

  #acceptsWith(states: Int32Array, ending: string): boolean {
    if (this.#accepts(states)) return true;
    return ending !== '' && this.#accepts(this.#simulate(ending, 0, states.slice()));
  }

  #restart(): void {
    this.#sets = [];
    this.#rows = [];
    this.#ids = new Map();
    const { words } = this.#automaton;
    this.#add(new Int32Array(words));
    const start = new Int32Array(words);
    start[0] = 1;
    this.#add(start);
  }

  #extend(state: number, symbol: number): number {
    spendSteps(EXTENSION_STEPS + this.#automaton.cost);
    const set = new Int32Array(this.#automaton.words);
    step(this.#automaton, symbol, this.#sets[state]!, set);
    const known = this.#ids.get(keyOf(set));
    if (known === undefined && this.#sets.length >= this.#maxStates) return UNKNOWN;
    const next = known ?? this.#add(set);
    this.#rows[state]![symbol] = next;
    return next;
  }

  #add(set: Int32Array): number {
    const id = this.#sets.push(set) - 1;
    this.#rows.push(new Int32Array(this.#automaton.alphabet.size).fill(UNKNOWN));
    this.#ids.set(keyOf(set), id);
    return id;
  }

  #accepts(set: Int32Array): boolean {
    return set.some((word, index) => (word & this.#automaton.accepting[index]!) !== 0);
  }
}

function keyOf(set: Int32Array): string {
  return String.fromCharCode(...new Uint16Array(set.buffer));
}

function step(automaton: Automaton, symbol: number, from: Int32Array, to: Int32Array): void {
  const { words, shifts, branching, reach, alphabet, beforeDot, beforeOther } = automaton;
  const [stay, next, skip] = shifts;
  let carry = 0;
  for (let word = 0; word < words; word += 1) {
    const states = from[word]!;
    const nexts = states & next[word]!;
    const skips = states & skip[word]!;
    to[word] = (states & stay[word]!) | (nexts << 1) | (skips << 2) | carry;
    carry = (nexts >>> 31) | (skips >>> 30);
  }
  const follow = symbol === alphabet.dot ? beforeDot : beforeOther;
  for (let word = 0; word < words; word += 1) {
    let rest = from[word]! & branching[word]!;
    while (rest !== 0) {
      const bit = 31 - Math.clz32(rest);
      rest ^= 1 << bit;
      const packed = follow[word * 32 + bit]!;
      for (let at = 0; at < packed.length; at += 2) to[packed[at]!]! |= packed[at + 1]!;
    }
  }
  const row = symbol * words;
  for (let word = 0; word < words; word += 1) to[word]! &= reach[row + word]!;
}
