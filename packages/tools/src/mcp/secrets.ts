/** What an operator gave a server to show who it is: it comes back in nothing that is kept. */
import type { ToolOutput } from '@relay/core';
import { isProgram, type McpServerConfig } from './settings.ts';

const minChars = 8;
const hidden = '[redacted]';
const telling = /key|token|secret|passw|auth|credential/i;

export function secretsOf(config: McpServerConfig): string[] {
  const values = isProgram(config)
    ? Object.entries(config.env ?? {}).flatMap(([name, value]) => (telling.test(name) ? value : []))
    : Object.values(config.headers ?? {}).flatMap((value) => [value, value.replace(/^\w+ /, '')]);
  return [...new Set(values)].filter((value) => value.length >= minChars);
}

export class Concealer {
  readonly #secrets: readonly string[];

  constructor(config: McpServerConfig) {
    this.#secrets = secretsOf(config);
  }

  text(text: string): string {
    return this.#secrets.reduce((clean, secret) => clean.replaceAll(secret, hidden), text);
  }

  output({ context, result }: ToolOutput): ToolOutput {
    return {
      ...(context === undefined ? {} : { context: this.text(context) }),
      ...(result === undefined ? {} : { result: this.#value(result) }),
    };
  }

  error(error: unknown): unknown {
    if (!(error instanceof Error)) return error;
    const message = this.text(error.message);
    return message === error.message ? error : new Error(message);
  }

  /** As it is written in JSON, so that no place in it is forgotten. */
  #value(value: unknown): unknown {
    const text = JSON.stringify(value);
    const clean = this.#secrets.reduce(
      (rest, secret) => rest.replaceAll(JSON.stringify(secret).slice(1, -1), hidden),
      text,
    );
    return clean === text ? value : (JSON.parse(clean) as unknown);
  }
}
