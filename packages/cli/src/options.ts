/** Parsers for option values. */
import { InvalidArgumentError } from 'commander';

export function count(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < 1 || number > 1_000_000) {
    throw new InvalidArgumentError('Must be a positive integer, at most 1000000.');
  }
  return number;
}

/** As text: it becomes a setting of the server. */
export function port(text: string): string {
  if (!/^\d+$/.test(text) || Number(text) > 65_535) {
    throw new InvalidArgumentError('Must be a whole number from 0 to 65535.');
  }
  return text;
}

/** For options that can be repeated. */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** In an object, because commander replaces a parsed `null` by an empty text. */
export function json(text: string): { readonly value: unknown } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    throw new InvalidArgumentError('Must be JSON; a text is in double quotes, such as \'"done"\'.');
  }
}

export function jsonObject(text: string): Record<string, unknown> {
  const { value } = json(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new InvalidArgumentError('Must be a JSON object, such as {"to": "ada"}.');
  }
  return value as Record<string, unknown>;
}

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };

/** The seconds of a duration such as `90d`; undefined if the text is not one. */
function seconds(text: string): number | undefined {
  const [, number, unit = ''] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  return number === undefined ? undefined : Number(number) * (units[unit] ?? 1);
}

/** `90d` from now, or a date. */
export function futureTime(text: string): string {
  const fromNow = seconds(text);
  const ms = fromNow === undefined ? Date.parse(text) : Date.now() + fromNow * 1_000;
  if (Number.isNaN(ms) || Math.abs(ms) > 8.64e15) {
    throw new InvalidArgumentError('Must be a date, or a duration such as 12h, 30d or 8w.');
  }
  return new Date(ms).toISOString();
}

/** `12h` ago, or a date. */
export function pastTime(text: string): string {
  const ago = seconds(text);
  if (ago === undefined) return futureTime(text);
  return new Date(Date.now() - ago * 1_000).toISOString();
}

/** A duration such as `90d`, in seconds. */
export function duration(text: string, examples = '12h, 30d or 8w'): number {
  const length = seconds(text);
  if (length === undefined) {
    throw new InvalidArgumentError(`Must be a duration such as ${examples}.`);
  }
  return length;
}

/** The same, or 0. */
export function durationOrZero(text: string): number {
  return text === '0' ? 0 : duration(text);
}
