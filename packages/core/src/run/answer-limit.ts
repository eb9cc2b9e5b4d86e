import { AnswerTooLarge, maxCallsInAnswer, type ModelEvent } from '../ports/index.ts';

/** Counts the answer of a model, and throws `AnswerTooLarge` at the first batch beyond the limit. */
export class AnswerLimit {
  readonly #maxChars: number;
  #chars = 0;
  #calls = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  /** Returns the characters of the answer so far. */
  add(batch: readonly ModelEvent[]): number {
    for (const { type } of batch) if (type === 'tool-call') this.#calls += 1;
    this.#chars += charsOfBatch(batch);
    if (this.#chars > this.#maxChars || this.#calls > maxCallsInAnswer) {
      throw new AnswerTooLarge(this.#maxChars);
    }
    return this.#chars;
  }
}

export function charsOfBatch(batch: readonly ModelEvent[]): number {
  let chars = 0;
  for (const event of batch) {
    if (event.type === 'finish') continue;
    if (event.type === 'tool-call') {
      chars += event.id.length + event.name.length + event.arguments.length;
    } else {
      chars += event.text.length;
    }
  }
  return chars;
}
