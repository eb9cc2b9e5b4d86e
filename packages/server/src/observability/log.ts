/**
 * The log, by pino: one JSON object per line for machines, or a readable line on a terminal. Every line
 * passes the redactor, so that no caller has to think of it. Writing never throws.
 */
import type { Log } from '@relay/core';
import type { FastifyBaseLogger } from 'fastify';
import { pino } from 'pino';
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
  /** For Fastify's own warnings and errors. */
  readonly fastify?: FastifyBaseLogger;
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
  const lines = new Lines(options.write ?? ((text) => void process.stderr.write(text)), terminal);
  const logger = pino(
    {
      level: level === 'off' ? 'silent' : level,
      base: null,
      timestamp: () => `,"time":"${now().toISOString()}"`,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => withoutOwn(redactor.clean(fields) as Record<string, unknown>),
      },
      hooks: {
        // Every message, also of those who use the logger itself.
        logMethod(args, method) {
          const [fields, ...rest] = args as [object | string, ...unknown[]];
          const [message = '', ...values] = typeof fields === 'string' ? args : rest;
          const text = redactor.text(String(message));
          method.call(this, typeof fields === 'string' ? {} : fields, text, ...values);
        },
      },
    },
    lines,
  );
  const at =
    (spoken: Spoken) =>
    (message: string, fields: Fields = {}) => {
      try {
        logger[spoken](fields, message);
      } catch {
        // A line that cannot be written is lost; its caller goes on.
      }
    };
  const isQuiet = level === 'error' || level === 'off';
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    conceal: (secret) => redactor.conceal(secret),
    // It says at `info` that it listens, and we say so ourselves.
    fastify: isQuiet ? logger : logger.child({}, { level: 'warn' }),
  };
}

/** Whatever else a log cannot do, it leaves out. */
export function asServerLog(log: Log): ServerLog {
  const silent = { info: () => undefined, debug: () => undefined, conceal: () => undefined };
  return Object.assign(Object.create(log) as Log, silent, log);
}

/** What pino writes itself cannot be forged by a field. */
function withoutOwn({ time: _t, level: _l, msg: _m, ...fields }: Record<string, unknown>) {
  return fields;
}

const warnLevel = pino.levels.values['warn'] ?? 0;

/** Lines of the same round are written together; warnings and errors at once. */
class Lines {
  readonly #write: (lines: string) => void;
  readonly #terminal: boolean;
  /** Set by pino before each line, because of the symbol. */
  lastLevel = 0;
  readonly [pino.symbols.needsMetadataGsym] = true;
  #waiting = '';

  constructor(write: (lines: string) => void, terminal: boolean) {
    this.#write = write;
    this.#terminal = terminal;
  }

  write(line: string): void {
    const isFirst = this.#waiting === '';
    this.#waiting += this.#terminal ? `${readable(JSON.parse(line) as Line)}\n` : line;
    if (this.lastLevel >= warnLevel) this.#flush();
    else if (isFirst) setImmediate(() => this.#flush());
  }

  #flush(): void {
    const lines = this.#waiting;
    this.#waiting = '';
    if (lines !== '') this.#write(lines);
  }
}

interface Line extends Fields {
  readonly time: string;
  readonly level: Spoken;
  readonly msg: string;
}

function readable({ time, level, msg, ...fields }: Line): string {
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
