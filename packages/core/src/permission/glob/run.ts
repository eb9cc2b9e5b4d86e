import type { Automaton } from './nfa.ts';

const UNKNOWN = -1;
const DEAD = 0;
const START = 1;
const MAX_STATES = 256;
const MAX_CELLS = 16_384;

/**
 * Runs an automaton over a value: one table access per code point, in a DFA that is built lazily.
 * When the table is full, the rest of the value is matched on bitsets, whose cost per code point
 * depends on the pattern alone. The next value starts with an empty table.
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

  matches(value: string): boolean {
    if (!this.#canEndWith(value)) return false;
    if (this.#sets.length === 0 || this.#sets.length >= this.#maxStates) this.#restart();
    const { ascii, classOf } = this.#automaton.alphabet;
    const rows = this.#rows;
    let state = START;
    let row = rows[START]!;
    for (let at = 0; at < value.length; at += 1) {
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
        return this.#matchesRest(value, at + 1, states);
      }
      state = next;
      row = rows[next]!;
    }
    return this.#accepts(this.#sets[state]!);
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

  #matchesRest(value: string, start: number, states: Int32Array): boolean {
    let from: Int32Array = states;
    let to: Int32Array = new Int32Array(this.#automaton.words);
    for (let at = start; at < value.length; at += 1) {
      const code = value.codePointAt(at)!;
      if (code > 0xff_ff) at += 1;
      step(this.#automaton, this.#automaton.alphabet.classOf(code), from, to);
      [from, to] = [to, from];
    }
    return this.#accepts(from);
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
    const set = new Int32Array(this.#automaton.words);
    step(this.#automaton, symbol, this.#sets[state]!, set);
    const known = this.#ids.get(set.join(','));
    if (known === undefined && this.#sets.length >= this.#maxStates) return UNKNOWN;
    const next = known ?? this.#add(set);
    this.#rows[state]![symbol] = next;
    return next;
  }

  #add(set: Int32Array): number {
    const id = this.#sets.push(set) - 1;
    this.#rows.push(new Int32Array(this.#automaton.alphabet.size).fill(UNKNOWN));
    this.#ids.set(set.join(','), id);
    return id;
  }

  #accepts(set: Int32Array): boolean {
    return set.some((word, index) => (word & this.#automaton.accepting[index]!) !== 0);
  }
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
