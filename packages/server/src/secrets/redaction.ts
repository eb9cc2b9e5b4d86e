/**
 * What must never be read in a log. Secrets are known by their form, by the field that they stand
 * in, or because this process has used them.
 */
import { secretPatterns } from '@relay/tools';

const hidden = '[redacted]';

/** Better a word too many: a log that hides something harmless can still be read. */
const forms: readonly [RegExp, string][] = [
  [
    /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g,
    hidden,
  ],
  [/\b(Bearer|Internal|Basic)[ \t]+[^\s"',;]+/gi, `$1 ${hidden}`],
  [/\brelay_(?:live|sess)_\w*/g, hidden],
  [/\bsk-[\w-]{6,}/g, hidden],
  ...secretPatterns.map(({ pattern }): [RegExp, string] => [
    new RegExp(`(?:${pattern.source})[\\w.~+/=-]*`, 'g'),
    hidden,
  ]),
];

const secretFields =
  /^(?:authorization|proxy-authorization|cookie|set-cookie|password|passwd|secret|token|api[-_]?key|x-api-key|credential|sealed|master[-_]?key)$/i;

/** Long enough to be no word of ours. */
const minSecretChars = 6;
const maxSecrets = 20_000;
const maxDepth = 6;
const maxItems = 100;
const maxTextChars = 16_384;
const maxSecretChars = 8_192;

export class Redactor {
  readonly #secrets = new Set<string>();
  /** By how they begin, so that a text is looked through once, however many are known. */
  readonly #byStart = new Map<string, Set<string>>();

  /** From now on this text is hidden wherever it appears, also as it is written in JSON or a URL. */
  conceal(secret: string): void {
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

  /** A value as it may be logged: plain data, bounded, without secrets. */
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
    // Cut afterwards, and before what may be half a secret, which is not recognised.
    const bounded = text.slice(0, maxTextChars + maxSecretChars);
    const clean = forms.reduce(
      (sofar, [form, instead]) => sofar.replace(form, instead),
      this.#used(bounded),
    );
    const isWhole = bounded.length === text.length;
    const end = isWhole ? maxTextChars : Math.min(maxTextChars, clean.length - maxSecretChars);
    return isWhole && clean.length <= end ? clean : `${clean.slice(0, end)}…`;
  }

  #error(error: Error, depth: number): unknown {
    const { name, message, stack, cause } = error;
    const { code } = error as { code?: unknown };
    return this.clean(
      {
        name,
        message,
        ...(code === undefined ? {} : { code }),
        ...(stack === undefined ? {} : { stack }),
        ...(cause === undefined ? {} : { cause }),
      },
      depth + 1,
    );
  }

  #used(text: string): string {
    if (this.#byStart.size === 0) return text;
    let shown = text;
    for (let at = 0; at + minSecretChars <= shown.length; at += 1) {
      const candidates = this.#byStart.get(shown.slice(at, at + minSecretChars));
      if (candidates === undefined) continue;
      const found = [...candidates]
        .filter((secret) => shown.startsWith(secret, at))
        .toSorted((a, b) => b.length - a.length)[0];
      if (found === undefined) continue;
      shown = shown.slice(0, at) + hidden + shown.slice(at + found.length);
      at += hidden.length - 1;
    }
    return shown;
  }
}
