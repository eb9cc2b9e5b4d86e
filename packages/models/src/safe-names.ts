/**
 * Names that providers accept, and the way back. Ours may be longer or hold other characters, such as
 * those that a server of tools has chosen; what fits stays as it is.
 */
const maxChars = 64;
/** What OpenAI, Anthropic and Google agree on. */
const accepted = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;

export class SafeNames {
  readonly #safe = new Map<string, string>();
  readonly #original = new Map<string, string>();

  /** Those that are known from the beginning come first, so that none of theirs is taken away. */
  constructor(names: readonly string[]) {
    for (const name of names) if (accepted.test(name)) this.#keep(name, name);
    for (const name of names) this.safe(name);
  }

  safe(name: string): string {
    const known = this.#safe.get(name);
    if (known !== undefined) return known;
    return this.#keep(name, accepted.test(name) ? this.#free(name) : this.#free(fitted(name)));
  }

  /** What a provider calls by a name that it was never told stays what it is. */
  original(safe: string): string {
    return this.#original.get(safe) ?? safe;
  }

  #keep(name: string, safe: string): string {
    this.#safe.set(name, safe);
    this.#original.set(safe, name);
    return safe;
  }

  #free(wanted: string): string {
    let candidate = wanted;
    for (let n = 2; this.#original.has(candidate); n += 1) {
      const end = `_${n}`;
      candidate = `${wanted.slice(0, maxChars - end.length)}${end}`;
    }
    return candidate;
  }
}

function fitted(name: string): string {
  const plain = name.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  return (/^[a-zA-Z_]/.test(plain) ? plain : `_${plain}`).slice(0, maxChars);
}
