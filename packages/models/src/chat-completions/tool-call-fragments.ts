/**
 * Puts streamed tool calls together. The first piece of a call has its id and name, the others more
 * of its arguments; an index says which call a piece belongs to.
 *
 * Servers differ: some leave the index out or send 0 for every call, some repeat the id or even
 * invent a new one with each piece. So a piece begins a new call if its index is new, or if it
 * brings a name together with another id.
 */
import { type ModelEvent, ProviderFailure } from '@relay/core';

interface Piece {
  readonly index?: unknown;
  readonly id?: unknown;
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown } | null;
}

type Called = Extract<ModelEvent, { type: 'tool-call' }>;

interface Call {
  id: string;
  name: string;
  arguments: string;
}

/** They are held in memory until the answer is finished. */
const maxChars = 16 * 1024 * 1024;
const maxCalls = 1024;
/** Longer ids cannot be kept as they are; without one, the call is given one of ours. */
const maxIdChars = 256;

export class ToolCallPieces {
  readonly #calls: Call[] = [];
  readonly #byIndex = new Map<unknown, Call>();
  #chars = 0;

  add(pieces: readonly unknown[]): void {
    for (const piece of pieces) {
      if (typeof piece === 'object' && piece !== null) this.#add(piece);
    }
  }

  whole(): Called[] {
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

  #add(piece: Piece): void {
    const id = textOr(piece.id);
    const name = textOr(piece.function?.name);
    const call = this.#callOf({ index: piece.index, id, name });
    if (call.id === '') call.id = id;
    if (call.name === '') call.name = name;
    const text = textOr(piece.function?.arguments);
    call.arguments += text;
    this.#chars += text.length;
    if (this.#chars > maxChars || this.#calls.length > maxCalls) {
      throw new ProviderFailure('The provider sent tool calls that are too long', {
        retryable: false,
      });
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
