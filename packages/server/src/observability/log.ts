/**
 * The log: one JSON object a line for machines, or a line to read where a person is watching. Every
 * line passes the redactor, so that no caller has to think of it. Writing never throws.
 */
import type { Log } from '@relay/core';
import { Redactor } from '../secrets/redaction.ts';

export const logLevels = ['debug', 'info', 'warn', 'error', 'off'] as const;
export type LogLevel = (typeof logLevels)[number];
type Spoken = Exclude<LogLevel, 'off'>;
type Fields = Readonly<Record<string, unknown>>;

export interface ServerLog extends Log {
  info(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  /** From now on this text is in no line. */
  conceal(secret: string): void;
}

export interface LogOptions {
  readonly level?: LogLevel;
  /** For a person to read. */
  readonly terminal?: boolean;
  readonly write?: (lines: string) => void;
  readonly now?: () => Date;
}

export function createLog(options: LogOptions = {}): ServerLog {
  const { level = 'info', terminal = false, now = () => new Date() } = options;
  const redactor = new Redactor();
  const out = new Lines(options.write ?? ((lines) => void process.stderr.write(lines)));
  const at = (spoken: Spoken) => {
    if (logLevels.indexOf(spoken) < logLevels.indexOf(level)) return () => undefined;
    return (message: string, fields: Fields = {}) => {
      try {
        const line = { time: now().toISOString(), level: spoken, msg: redactor.text(message) };
        const more = redactor.clean(fields) as Record<string, unknown>;
        out.add(
          terminal ? readable(line, more) : JSON.stringify({ ...line, ...more, ...line }),
          spoken,
        );
      } catch {
        // A line that cannot be written is lost; whoever wrote it goes on.
      }
    };
  };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    conceal: (secret) => redactor.conceal(secret),
  };
}

/** Whatever else a log cannot do, it leaves out. */
export function asServerLog(log: Log): ServerLog {
  const silent = { info: () => undefined, debug: () => undefined, conceal: () => undefined };
  return Object.assign(Object.create(log) as Log, silent, log);
}

/** What is only told travels together, once a round; what is wrong is out at once. */
class Lines {
  readonly #write: (lines: string) => void;
  #waiting = '';

  constructor(write: (lines: string) => void) {
    this.#write = write;
  }

  add(line: string, level: Spoken): void {
    const isFirst = this.#waiting === '';
    this.#waiting += `${line}\n`;
    if (level === 'warn' || level === 'error') this.#flush();
    else if (isFirst) setImmediate(() => this.#flush());
  }

  #flush(): void {
    const lines = this.#waiting;
    this.#waiting = '';
    if (lines !== '') this.#write(lines);
  }
}

interface Line {
  readonly time: string;
  readonly level: Spoken;
  readonly msg: string;
}

function readable({ time, level, msg }: Line, fields: Fields): string {
  const stacks: string[] = [];
  const words = Object.entries(fields).flatMap(([name, value]) => {
    if (value === undefined) return [];
    const { stack, ...rest } = (name === 'stack' ? { stack: value } : value) as { stack?: unknown };
    if (typeof stack === 'string') {
      stacks.push(...stack.split('\n').map((line) => `    ${harmless(line)}`));
      if (name === 'stack') return [];
    }
    const shown = typeof value === 'object' && value !== null ? rest : value;
    return [
      `${name}=${typeof shown === 'string' ? quoted(shown) : harmless(JSON.stringify(shown))}`,
    ];
  });
  const line = [time.slice(11, 23), level.padEnd(5), harmless(msg), ...words].join(' ');
  return [line, ...stacks].join('\n');
}

function quoted(text: string): string {
  return /^[\w.:/@+-]+$/.test(text) ? text : harmless(JSON.stringify(text));
}

/** What would move a terminal's cursor or hide a word is shown as what it is. */
function harmless(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );
}
