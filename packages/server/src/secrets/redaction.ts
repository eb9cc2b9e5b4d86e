/**
 * Removes secrets from what is logged. They are recognized by their form, by the name of their field,
 * or because this process has used them.
 */
import { defined } from '@relay/protocol';
import { secretPatterns } from '@relay/tools';

const hidden = '[redacted]';

/** Redacting too much is acceptable: the log stays readable. */
const forms: readonly [RegExp, string][] = [
  [
    /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g,
    hidden,
  ],
  [/\b(Bearer|Internal|Basic)[ \t]+[^\s"',;]+/gi, `$1 ${hidden}`],
  [/\brelay_(?:live|sess|cons|link)_\w*/g, hidden],
  [/\bsk-[\w-]{6,}/g, hidden],
  ...secretPatterns.map(({ pattern }): [RegExp, string] => [
    new RegExp(`(?:${pattern.source})[\\w.~+/=-]*`, 'g'),
    hidden,
  ]),
];

const secretFields =
  /^(?:authorization|proxy-authorization|cookie|set-cookie|password|passwd|secret|token|api[-_]?key|x-api-key|credential|sealed|master[-_]?key)$/i;

/** Shorter secrets could match ordinary words. */
const minSecretChars = 6;
/** In the results of tools, shorter ones could be words such as the password of a test database. */
const minKeyChars = 12;
const relayKey = /\brelay_(?:live|sess|cons|link)_\w{16,}/g;
const maxSecrets = 20_000;
const maxDepth = 6;
const maxItems = 100;
const maxTextChars = 16_384;
const maxSecretChars = 8_192;

export class Redactor {
  readonly #secrets = new Set<string>();
  /** Secrets by their first characters, so that one pass over a text finds them all. */
  readonly #byStart = new Map<string, Set<string>>();

  /** Redacts this text from now on, also as it is encoded in JSON or a URL. */
  addSecret(secret: string): void {
    this.#add(secret);
    this.#add(JSON.stringify(secret).slice(1, -1));
    if (secret.isWellFormed()) this.#add(encodeURIComponent(secret));
  }

  #add(secret: string): void {
    if (secret.length < minSecretChars || this.#secrets.has(secret)) return;
    this.#secrets.add(secret);
    const start = secret.slice(0, minSecretChars);
    this.#byStart.set(start, (this.#byStart.get(start) ?? new Set()).add(secret));
    const [oldest] = this.#secrets;
    if (this.#secrets.size > maxSecrets && oldest !== undefined) this.#forget(oldest);
  }

  #forget(secret: string): void {
    this.#secrets.delete(secret);
    const start = secret.slice(0, minSecretChars);
    const others = this.#byStart.get(start);
    others?.delete(secret);
    if (others?.size === 0) this.#byStart.delete(start);
  }

  /** The value as plain data of bounded size, without secrets. */
  clean(value: unknown, depth = 0): unknown {
    if (typeof value === 'string') return this.text(value);
    if (typeof value === 'bigint' || typeof value === 'symbol') return String(value);
    if (typeof value === 'function' || value === undefined) return undefined;
    if (typeof value !== 'object' || value === null) return value;
    if (depth >= maxDepth) return '[nested]';
    if (value instanceof Error) return this.#error(value, depth);
    if (Array.isArray(value)) {
      return value.slice(0, maxItems).map((item: unknown) => this.clean(item, depth + 1));
    }
    return Object.fromEntries(
      Object.entries(value)
        .slice(0, maxItems)
        .map(([name, item]) => [
          this.text(name),
          secretFields.test(name) && item !== undefined ? hidden : this.clean(item, depth + 1),
        ]),
    );
  }

  text(text: string): string {
    // Truncated last, and before a possible partial secret, which would not be recognized.
    const bounded = text.slice(0, maxTextChars + maxSecretChars);
    const clean = forms.reduce(
      (cleaned, [form, replacement]) => cleaned.replace(form, replacement),
      this.#redactKnown(bounded),
    );
    const isWhole = bounded.length === text.length;
    const end = isWhole ? maxTextChars : Math.min(maxTextChars, clean.length - maxSecretChars);
    return isWhole && clean.length <= end ? clean : `${clean.slice(0, end)}…`;
  }

  /**
   * Of any length, without the keys that this process knows and without Relay's own keys. For what tools
   * return, which must stay as it is otherwise: no other secrets are guessed.
   */
  withoutKeys(text: string): string {
    return this.#redactKnown(text, minKeyChars).replaceAll(relayKey, hidden);
  }

  #error(error: Error, depth: number): unknown {
    const { name, message, stack, cause } = error;
    const { code } = error as { code?: unknown };
    return this.clean({ name, message, ...defined({ code, stack, cause }) }, depth + 1);
  }

  #redactKnown(text: string, minChars = minSecretChars): string {
    if (this.#byStart.size === 0) return text;
    const parts: string[] = [];
    let copied = 0;
    for (let at = 0; at + minSecretChars <= text.length; at += 1) {
      const candidates = this.#byStart.get(text.slice(at, at + minSecretChars));
      if (candidates === undefined) continue;
      const found = [...candidates]
        .filter((secret) => secret.length >= minChars && text.startsWith(secret, at))
        .toSorted((a, b) => b.length - a.length)[0];
      if (found === undefined) continue;
      parts.push(text.slice(copied, at), hidden);
      copied = at + found.length;
      at = copied - 1;
    }
    return parts.join('') + text.slice(copied);
  }
}
