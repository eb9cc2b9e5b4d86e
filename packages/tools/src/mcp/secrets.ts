/** What an operator gave a server to show who it is: it comes back in nothing that is kept. */
import type { ToolContext, ToolOutput } from '@relay/core';
import { isProgram, type McpServerConfig } from './settings.ts';

const minChars = 8;
const hidden = '[redacted]';
const telling = /key|token|secret|pass|pwd|auth|credential|cookie|(?:^|_)(?:pat|dsn)(?:_|$)/i;

export function secretsOf(config: McpServerConfig): string[] {
  const values = isProgram(config)
    ? Object.entries(config.env ?? {}).flatMap(([name, value]) =>
        telling.test(name) ? value : secretsIn(value),
      )
    : [
        ...Object.values(config.headers ?? {}).flatMap((value) => [
          value,
          value.replace(/^\w+ /, ''),
        ]),
        ...secretsIn(config.url),
      ];
  return [...new Set(values)].filter((value) => value.length >= minChars);
}

/** A URL may hold a password, or a key in its query: as it is written, and as it is meant. */
function secretsIn(text: string): string[] {
  const url = URL.parse(text);
  if (url === null) return [];
  const written = url.search
    .slice(1)
    .split('&')
    .map((pair) => pair.split('=', 2))
    .flatMap(([name = '', value = '']) => (telling.test(name) ? value : []));
  const meant = [...url.searchParams].flatMap(([name, value]) => (telling.test(name) ? value : []));
  return [url.password, decoded(url.password), ...written, ...meant];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export class Concealer {
  readonly #secrets: readonly string[];

  constructor(config: McpServerConfig) {
    this.#secrets = secretsOf(config);
  }

  text(text: string): string {
    return this.#secrets.reduce((clean, secret) => clean.replaceAll(secret, hidden), text);
  }

  /** What a call tells and asks while it runs. */
  context(context: ToolContext): ToolContext {
    return {
      ...context,
      progress: (text) => context.progress(this.text(text)),
      ask: (question) => context.ask(this.value(question)),
    };
  }

  output({ context, result }: ToolOutput): ToolOutput {
    return {
      ...(context === undefined ? {} : { context: this.text(context) }),
      ...(result === undefined ? {} : { result: this.value(result) }),
    };
  }

  error(error: unknown): unknown {
    if (!(error instanceof Error)) return error;
    const message = this.text(error.message);
    return message === error.message ? error : new Error(message);
  }

  /** As it is written in JSON, so that no place in it is forgotten. */
  value<Value>(value: Value): Value {
    const text = JSON.stringify(value);
    const clean = this.#secrets.reduce(
      (rest, secret) => rest.replaceAll(JSON.stringify(secret).slice(1, -1), hidden),
      text,
    );
    return clean === text ? value : (JSON.parse(clean) as Value);
  }
}
