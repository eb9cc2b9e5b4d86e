/**
 * The log, with pino: one JSON object per line, or a readable line on a terminal. Every line passes the
 * redactor. Writing never throws.
 */
import type { Log } from '@relay/core';
import type { FastifyBaseLogger } from 'fastify';
import { pino } from 'pino';
import { Redactor } from '../secrets/redaction.ts';

export const logLevels = ['debug', 'info', 'warn', 'error', 'off'] as const;
export type LogLevel = (typeof logLevels)[number];
type ActiveLevel = Exclude<LogLevel, 'off'>;
type Fields = Readonly<Record<string, unknown>>;

export interface ServerLog extends Log {
  info(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  /** Whether a person reads it: then what browsers request by themselves is left out. */
  readonly isTerminal: boolean;
  addSecret(secret: string): void;
  /** A text of a tool without the keys that this process knows. */
  withoutKeys(text: string): string;
  /** For Fastify's own warnings and errors. */
  readonly fastify?: FastifyBaseLogger;
}

export interface LogOptions {
  readonly level?: LogLevel;
  /** Readable lines instead of JSON. */
  readonly terminal?: boolean;
  readonly write?: (lines: string) => void;
  readonly now?: () => Date;
}

export function createLog(options: LogOptions = {}): ServerLog {
  const { level = 'info', terminal = false, now = () => new Date() } = options;
  const redactor = new Redactor();
  const lines = new LineBuffer(
    options.write ?? ((text) => void process.stderr.write(text)),
    terminal,
  );
  const logger = pino(
    {
      level: level === 'off' ? 'silent' : level,
      base: null,
      timestamp: () => `,"time":"${now().toISOString()}"`,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => withoutReserved(redactor.clean(fields) as Record<string, unknown>),
      },
      hooks: {
        // Also for Fastify, which uses the pino logger directly.
        logMethod(args, method) {
          const [fields, ...rest] = args as [object | string, ...unknown[]];
          const [message = '', ...values] = typeof fields === 'string' ? args : rest;
          const text = redactor.text(String(message));
          const cleanValues = values.map((value) => redactor.clean(value));
          method.call(this, typeof fields === 'string' ? {} : fields, text, ...cleanValues);
        },
      },
    },
    lines,
  );
  const at =
    (method: ActiveLevel) =>
    (message: string, fields: Fields = {}) => {
      try {
        logger[method](fields, message);
      } catch {
        // A line that cannot be written is dropped.
      }
    };
  const isQuiet = level === 'error' || level === 'off';
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    isTerminal: terminal,
    addSecret: (secret) => redactor.addSecret(secret),
    withoutKeys: (text) => redactor.withoutKeys(text),
    // At `info` Fastify would report that it listens; `serve` already does.
    fastify: isQuiet ? logger : logger.child({}, { level: 'warn' }),
  };
}

/** Adds the methods that a plain `Log` lacks, as no-ops. */
export function asServerLog(log: Log): ServerLog {
  const redactor = new Redactor();
  const silent = {
    info: () => undefined,
    debug: () => undefined,
    isTerminal: false,
    addSecret: (secret: string) => redactor.addSecret(secret),
    withoutKeys: (text: string) => redactor.withoutKeys(text),
  };
  return Object.assign(Object.create(log) as Log, silent, log);
}

/** Fields must not override what pino writes itself. */
function withoutReserved({ time: _t, level: _l, msg: _m, ...fields }: Record<string, unknown>) {
  return fields;
}

const warnLevel = pino.levels.values['warn'] ?? 0;

/** Batches the lines of one event-loop turn; writes warnings and errors at once. */
class LineBuffer {
  readonly #write: (lines: string) => void;
  readonly #terminal: boolean;
  /** Set by pino before each line because of `needsMetadataGsym`. */
  lastLevel = 0;
  readonly [pino.symbols.needsMetadataGsym] = true;
  #waiting = '';

  constructor(write: (lines: string) => void, terminal: boolean) {
    this.#write = write;
    this.#terminal = terminal;
  }

  write(line: string): void {
    const isFirst = this.#waiting === '';
    this.#waiting += this.#terminal ? `${formatted(JSON.parse(line) as Line)}\n` : line;
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
  readonly output?: string;
  readonly time: string;
  readonly level: ActiveLevel;
  readonly msg: string;
}

export const requestMessage = 'request';

function formatted(line: Line): string {
  return line.msg === requestMessage ? formatRequest(line) : formatLine(line);
}

/** A line of the access log on a terminal: ids are for machines. */
function formatRequest({ time, level, method, route, status, ms, aborted }: Line): string {
  const path = typeof route === 'string' ? route : '(no such route)';
  const request = `${String(method)} ${path} ${String(status)} ${Math.round(Number(ms))} ms`;
  const end = aborted === true ? ' (closed by the client)' : '';
  return `${time.slice(11, 23)} ${level.padEnd(5)} ${escapeControls(request)}${end}`;
}

/** `output` is text of another program: its lines are shown below, as a stack is. */
function formatLine({ time, level, msg, output, ...fields }: Line): string {
  const stacks = linesOf(output);
  const parts = Object.entries(fields).flatMap(([name, value]) => {
    if (value === undefined) return [];
    const { stack, ...rest } = (name === 'stack' ? { stack: value } : value) as { stack?: unknown };
    if (typeof stack === 'string') {
      stacks.push(...linesOf(stack));
      if (name === 'stack') return [];
    }
    const shown = typeof value === 'object' && value !== null ? rest : value;
    return [
      `${name}=${typeof shown === 'string' ? quoted(shown) : escapeControls(JSON.stringify(shown))}`,
    ];
  });
  const line = [time.slice(11, 23), level.padEnd(5), escapeControls(msg), ...parts].join(' ');
  return [line, ...stacks].join('\n');
}

function linesOf(text: unknown): string[] {
  if (typeof text !== 'string') return [];
  return text.split('\n').map((line) => `    ${escapeControls(line)}`);
}

function quoted(text: string): string {
  return /^[\w.:/@+-]+$/.test(text) ? text : escapeControls(JSON.stringify(text));
}

/** Escapes control characters, which could move a terminal's cursor or hide text. */
function escapeControls(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u${(char.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  );
}
