/**
 * JSON bodies. Refuses what JSON.parse accepts and changes: a duplicate key (one value is lost), a number
 * that cannot be represented exactly, and nesting so deep that recursion overflows. Refuses the names by
 * which a body could reach the prototype of objects, and more values than are handled quickly. A long text
 * is read in pieces, and others get their turn of the event loop in between, which JSON.parse does not
 * allow.
 */
import { eventLoop } from '@relay/core';
import { type FieldIssue, RelayError } from '@relay/protocol';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { invalidRequest } from './errors.ts';

/** Accepts `application/json` only. A POST without a body, such as a cancel, may name it too. */
export function acceptJson(app: FastifyInstance): void {
  app.removeContentTypeParser('text/plain');
  const parse = async (request: FastifyRequest, body: string): Promise<unknown> => {
    if (!isPlainUtf8(request)) {
      throw new RelayError('unsupported_media_type', 'The body must be UTF-8 and not compressed');
    }
    return body === '' ? undefined : parseStrictly(body);
  };
  app.addContentTypeParser('application/json', { parseAs: 'string' }, parse);
}

function isPlainUtf8({ headers }: FastifyRequest): boolean {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(type)?.[1] ?? 'utf-8';
  return encoding === 'identity' && /^(?:utf-?8|us-ascii)$/i.test(charset);
}

/** It takes some five milliseconds to read so many characters. */
const pieceChars = 64 * 1024;
/** One turn of the event loop has time for two pieces. */
const costOfChar = 2;

export async function parseStrictly(json: string): Promise<unknown> {
  const reader = new JsonReader(json);
  while (!reader.read(pieceChars)) await eventLoop.take(costOfChar * pieceChars);
  return reader.value;
}

const maxDepth = 64;

interface Level {
  readonly array: unknown[] | undefined;
  readonly object: Record<string, unknown>;
  /** Of the member of the object that is being read. */
  key: string;
}

type Expected = 'value' | 'first item' | 'first key' | 'key' | 'colon' | 'next' | 'end';

const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const literals: readonly (readonly [string, unknown])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
];
/** What checks, stores and shows a body looks at each value, without a pause. Long texts are one value. */
const maxValues = 100_000;
/** A longer part of a text keeps the whole text in memory. */
const maxSliceChars = 12;
const maxExactDigits = 15;

const quote = 0x22;
const comma = 0x2c;
const minus = 0x2d;
const zero = 0x30;
const nine = 0x39;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

class JsonReader {
  readonly #json: string;
  readonly #levels: Level[] = [];
  #at = 0;
  #expected: Expected = 'value';
  #values = 0;
  value: unknown;

  constructor(json: string) {
    this.#json = json;
  }

  /** Reads about so many characters; returns whether the text has ended. Throws if it is refused. */
  read(chars: number): boolean {
    const json = this.#json;
    const until = Math.min(json.length, this.#at + chars);
    while (this.#at < until) {
      const code = json.charCodeAt(this.#at);
      if (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) this.#at += 1;
      else this.#token(code);
    }
    if (this.#at < json.length) return false;
    if (this.#expected !== 'end') throw malformed();
    return true;
  }

  #token(code: number): void {
    switch (this.#expected) {
      case 'first item':
        if (code === closeBracket) return this.#close();
        return this.#readValue(code);
      case 'value':
        return this.#readValue(code);
      case 'first key':
        if (code === closeBrace) return this.#close();
        return this.#readKey(code);
      case 'key':
        return this.#readKey(code);
      case 'colon':
        if (code !== colon) throw malformed();
        this.#at += 1;
        this.#expected = 'value';
        return;
      case 'next':
        return this.#next(code);
      case 'end':
        throw malformed();
    }
  }

  #next(code: number): void {
    const isArray = this.#levels.at(-1)?.array !== undefined;
    if (code === comma) {
      this.#at += 1;
      this.#expected = isArray ? 'value' : 'key';
    } else if (code === (isArray ? closeBracket : closeBrace)) {
      this.#close();
    } else {
      throw malformed();
    }
  }

  #readValue(code: number): void {
    this.#values += 1;
    if (this.#values > maxValues) throw this.#refused(`More than ${maxValues} values in one body`);
    if (code === quote) return this.#add(this.#string());
    if (code === openBrace || code === openBracket) return this.#open(code === openBracket);
    if (code === minus || (code >= zero && code <= nine)) return this.#add(this.#number());
    const found = literals.find(([text]) => this.#json.startsWith(text, this.#at));
    if (found === undefined) throw malformed();
    this.#at += found[0].length;
    this.#add(found[1]);
  }

  #readKey(code: number): void {
    const level = this.#levels.at(-1);
    if (code !== quote || level === undefined) throw malformed();
    level.key = this.#string();
    if (Object.hasOwn(level.object, level.key)) throw this.#refused('Duplicate key');
    const isPrototype =
      level.key === '__proto__' ||
      (level.key === 'prototype' && this.#levels.at(-2)?.key === 'constructor');
    if (isPrototype) throw malformed();
    this.#expected = 'colon';
  }

  #open(isArray: boolean): void {
    if (this.#levels.length === maxDepth) {
      throw this.#refused(`Nested deeper than ${maxDepth} levels`);
    }
    const level: Level = { array: isArray ? [] : undefined, object: {}, key: '' };
    this.#levels.push(level);
    this.#at += 1;
    this.#expected = isArray ? 'first item' : 'first key';
  }

  #close(): void {
    const level = this.#levels.pop();
    this.#at += 1;
    this.#add(level?.array ?? level?.object);
  }

  #add(value: unknown): void {
    const level = this.#levels.at(-1);
    this.#expected = level === undefined ? 'end' : 'next';
    if (level === undefined) this.value = value;
    else if (level.array === undefined) level.object[level.key] = value;
    else level.array.push(value);
  }

  #string(): string {
    const json = this.#json;
    const start = this.#at;
    let at = start + 1;
    let code = json.charCodeAt(at);
    while (code !== quote && code !== backslash && code >= 0x20 && at - start <= maxSliceChars) {
      at += 1;
      code = json.charCodeAt(at);
    }
    if (code === quote) {
      this.#at = at + 1;
      return json.slice(start + 1, at);
    }
    this.#at = endOfString(json, at);
    try {
      return JSON.parse(json.slice(start, this.#at)) as string;
    } catch {
      throw malformed();
    }
  }

  #number(): number {
    const json = this.#json;
    const start = this.#at;
    let at = start;
    let digits = 0;
    let code = json.charCodeAt(at);
    while (code >= zero && code <= nine && at - start <= maxExactDigits) {
      digits = digits * 10 + code - zero;
      at += 1;
      code = json.charCodeAt(at);
    }
    const isEnd = code === comma || code === closeBracket || code === closeBrace;
    const startsWithZero = json.charCodeAt(start) === zero && at - start > 1;
    if (isEnd && at > start && at - start <= maxExactDigits && !startsWithZero) {
      this.#at = at;
      return digits;
    }
    number.lastIndex = start;
    const text = number.exec(json)?.[0];
    if (text === undefined) throw malformed();
    this.#at += text.length;
    if (isInexact(text)) throw this.#refused('This number cannot be represented exactly');
    return Number(text);
  }

  #refused(message: string): RelayError {
    const issue: FieldIssue = { path: pathOf(this.#levels), message };
    return invalidRequest([issue]);
  }
}

function malformed(): RelayError {
  return new RelayError('invalid_json', 'Invalid JSON body');
}

/** The position after the closing quote: the first quote from here on that is not escaped. */
function endOfString(json: string, from: number): number {
  for (let at = json.indexOf('"', from); at >= 0; at = json.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (json.charCodeAt(at - 1 - backslashes) === backslash) backslashes += 1;
    if (backslashes % 2 === 0) return at + 1;
  }
  return json.length;
}

/** Whether parsing changes the number: it is out of range, or an integer that is no longer exact. */
function isInexact(text: string): boolean {
  const parsed = Number(text);
  if (/^-?\d+$/.test(text)) return !Number.isSafeInteger(parsed);
  if (!Number.isInteger(parsed)) return !Number.isFinite(parsed);
  return (
    !Number.isSafeInteger(parsed) && significantDigits(text) !== significantDigits(String(parsed))
  );
}

/** The same for 12.30e5 and 1230000. */
function significantDigits(text: string): string {
  const [mantissa = ''] = text.toLowerCase().split('e');
  return mantissa.replace(/[-.]/g, '').replace(/^0+/, '').replace(/0+$/, '');
}

function pathOf(levels: readonly Level[]): string {
  return levels
    .map(({ array, key }, depth) => {
      if (array !== undefined) return `[${array.length}]`;
      return depth === 0 ? key : `.${key}`;
    })
    .join('');
}
