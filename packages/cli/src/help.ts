import type { Command } from 'commander';
import { InvalidArgumentError } from 'commander';

/** Every command shows how it is used. */
export function examples<Of extends Command>(
  command: Of,
  lines: readonly string[],
  { after = '' }: { after?: string } = {},
): Of {
  const shown = lines.map((line) => `  ${line}`).join('\n');
  command.addHelpText(
    'after',
    `\nExamples:\n${shown}${after === '' ? '' : `\n\n${wrapped(after)}`}`,
  );
  return command;
}

const readable = 80;

/** Sentences as lines that every terminal has room for; an indented line stays as it is. */
function wrapped(text: string): string {
  return text
    .split('\n')
    .flatMap((line) => (line.startsWith(' ') ? [line] : linesOf(line)))
    .join('\n');
}

function linesOf(text: string): string[] {
  const lines: string[] = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line === '') lines[lines.length - 1] = word;
    else if (line.length + 1 + word.length <= readable) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}

export function count(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < 1 || number > 1_000_000) {
    throw new InvalidArgumentError('It must be a whole number from 1 on.');
  }
  return number;
}

/** For options that may be given several times. */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

export function json(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new InvalidArgumentError('It must be JSON.');
  }
}

export function jsonObject(text: string): Record<string, unknown> {
  const value = json(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new InvalidArgumentError('It must be a JSON object, such as {"to": "ada"}.');
  }
  return value as Record<string, unknown>;
}

const units: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };

/** `90d` from now, or a date. */
export function moment(text: string): string {
  const [, number, unit = ''] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  const ms = number === undefined ? Date.parse(text) : Date.now() + seconds(number, unit) * 1_000;
  if (Number.isNaN(ms) || Math.abs(ms) > 8.64e15) {
    throw new InvalidArgumentError('It must be a date, or a time such as 12h, 30d or 8w.');
  }
  return new Date(ms).toISOString();
}

/** `12h` ago, or a date. */
export function past(text: string): string {
  const [, number, unit = ''] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  if (number === undefined) return moment(text);
  return new Date(Date.now() - seconds(number, unit) * 1_000).toISOString();
}

/** How long, in seconds: `90d`. */
export function duration(text: string): number {
  const [, number, unit = ''] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError('It must be like 12h, 30d or 8w.');
  return seconds(number, unit);
}

function seconds(number: string, unit: string): number {
  return Number(number) * (units[unit] ?? 1);
}
