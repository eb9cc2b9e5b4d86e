/**
 * Assembles streamed tool calls. The first fragment of a call has its id and name, the others more of
 * its arguments; an index says which call a fragment belongs to.
 *
 * Servers differ: some omit the index or send 0 for every call, some repeat the id or send a new one
 * with each fragment. So a fragment starts a new call if its index is new, or if it has a name and
 * another id.
 */
import { AnswerTooLarge, maxCallsInAnswer, type ModelEvent, ProviderFailure } from '@relay/core';

interface Fragment {
  readonly index?: unknown;
  readonly id?: unknown;
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown } | null;
}

type ToolCallEvent = Extract<ModelEvent, { type: 'tool-call' }>;

interface Call {
  id: string;
  name: string;
  arguments: string;
}

/** Longer ids cannot be stored; a call without an id gets one from Relay. */
const maxIdChars = 256;

/** Calls are held in memory until the answer is finished, and therefore bounded here. */
export class ToolCallFragments {
  readonly #maxChars: number;
  readonly #calls: Call[] = [];
  readonly #byIndex = new Map<unknown, Call>();
  #chars = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  add(fragments: readonly unknown[]): void {
    for (const fragment of fragments) {
      if (typeof fragment === 'object' && fragment !== null) this.#add(fragment);
    }
  }

  complete(): ToolCallEvent[] {
    return this.#calls.map(({ id, name, arguments: text }) => {
      if (name === '') {
        throw new ProviderFailure('The provider sent a tool call without a name', {
          retryable: true,
        });
      }
      return {
        type: 'tool-call',
        id: id.length > maxIdChars ? '' : id,
        name,
        arguments: text,
      };
    });
  }

  #add(fragment: Fragment): void {
    const id = textOr(fragment.id);
    const name = textOr(fragment.function?.name);
    const call = this.#callOf({ index: fragment.index, id, name });
    if (call.id === '') call.id = id;
    if (call.name === '') call.name = name;
    const text = textOr(fragment.function?.arguments);
    call.arguments += text;
    this.#chars += text.length;
    if (this.#chars > this.#maxChars || this.#calls.length > maxCallsInAnswer) {
      throw new AnswerTooLarge(this.#maxChars);
    }
  }

  #callOf({ index, id, name }: { index: unknown; id: string; name: string }): Call {
    const known = this.#byIndex.get(index);
    const another = id !== '' && name !== '' && known?.name !== '' && known?.id !== id;
    if (known !== undefined && !another) return known;
    const call = { id: '', name: '', arguments: '' };
    this.#byIndex.set(index, call);
    this.#calls.push(call);
    return call;
  }
}

function textOr(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
