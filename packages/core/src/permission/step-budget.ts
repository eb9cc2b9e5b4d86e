/**
 * Bounds the work of one decision, whatever the number of rules and the size of the arguments. A step is
 * about the work of reading one character with a compiled pattern; what costs more per character counts
 * as several. A decision is made without interruption, so the budget of the current one is kept here, and
 * all that matches patterns or reads values takes its steps from it.
 */
import { eventLoop } from '../runtime/event-loop-budget.ts';
import { TextIndex } from './glob/text-index.ts';

/** Some 20 ms on a slow machine. Hundreds of rules and arguments of 64 KB need a fraction of it. */
export const MAX_STEPS = 4_000_000;

const MAX_INDEXES = 16;

interface Budget {
  left: number;
  readonly indexes: Map<string, TextIndex>;
}

let current: Budget | undefined;

class StepsExhausted extends Error {}

/** Throws if the steps of the current decision are used up. */
export function spendSteps(steps: number): void {
  if (current === undefined) return;
  current.left -= steps;
  if (current.left < 0) throw new StepsExhausted('The steps of the decision are used up');
}

/** The index of a long value, which is built once per decision. */
export function indexOfText(text: string): TextIndex | undefined {
  if (current === undefined) return undefined;
  const known = current.indexes.get(text);
  if (known !== undefined || current.indexes.size >= MAX_INDEXES) return known;
  spendSteps(text.length);
  const index = new TextIndex(text);
  current.indexes.set(text, index);
  return index;
}

/** The result is undefined if the steps did not suffice. */
export function withinSteps<Result>(
  work: () => Result,
  maxSteps = MAX_STEPS,
): { readonly result: Result | undefined; readonly steps: number } {
  const outer = current;
  const own: Budget = { left: Math.min(maxSteps, outer?.left ?? maxSteps), indexes: new Map() };
  const granted = own.left;
  current = own;
  try {
    const result = work();
    // The error may have been caught on its way, as an error of a parser.
    return { result: own.left < 0 ? undefined : result, steps: granted - own.left };
  } catch (error) {
    if (!(error instanceof StepsExhausted)) throw error;
    return { result: undefined, steps: granted };
  } finally {
    current = outer;
    if (outer !== undefined) outer.left -= granted - own.left;
  }
}

/** Waits for another turn of the event loop if decisions have used up this one. */
export async function turnAfter(steps: number): Promise<void> {
  await eventLoop.take(Math.ceil(steps / STEPS_PER_CHAR));
}

/** Of the event loop's budget, which counts characters of answers. */
const STEPS_PER_CHAR = 8;
