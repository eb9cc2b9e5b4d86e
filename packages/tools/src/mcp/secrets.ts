/** The credentials in the settings of a server. They are redacted from everything that is stored. */
import type { ToolContext, ToolOutput } from '@relay/core';
import { defined } from '@relay/protocol';
import { isProgram, type McpServerConfig } from './settings.ts';

const minChars = 8;
const placeholder = '[redacted]';
const secretName = /key|token|secret|pass|pwd|auth|credential|cookie|(?:^|_)(?:pat|dsn)(?:_|$)/i;

export function secretsOf(config: McpServerConfig): string[] {
  const values = isProgram(config)
    ? Object.entries(config.env ?? {}).flatMap(([name, value]) =>
        secretName.test(name) ? value : secretsIn(value),
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

/** The password and the keys in the query of a URL, encoded and decoded. */
function secretsIn(text: string): string[] {
  const url = URL.parse(text);
  if (url === null) return [];
  const encoded = url.search
    .slice(1)
    .split('&')
    .map((pair) => pair.split('=', 2))
    .flatMap(([name = '', value = '']) => (secretName.test(name) ? value : []));
  const decodedValues = [...url.searchParams].flatMap(([name, value]) =>
    secretName.test(name) ? value : [],
  );
  return [url.password, decoded(url.password), ...encoded, ...decodedValues];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export class SecretRedactor {
  readonly #secrets: readonly string[];

  constructor(config: McpServerConfig) {
    this.#secrets = secretsOf(config);
  }

  text(text: string): string {
    return this.#secrets.reduce((clean, secret) => clean.replaceAll(secret, placeholder), text);
  }

  /** Redacts the progress and the questions of a call. */
  context(context: ToolContext): ToolContext {
    return {
      ...context,
      progress: (text) => context.progress(this.text(text)),
      ask: (question) => context.ask(this.value(question)),
    };
  }

  output({ context, result, attachments }: ToolOutput): ToolOutput {
    return defined({
      attachments,
      context: context === undefined ? undefined : this.text(context),
      result: result === undefined ? undefined : this.value(result),
    });
  }

  error(error: unknown): unknown {
    if (!(error instanceof Error)) return error;
    const message = this.text(error.message);
    return message === error.message ? error : new Error(message);
  }

  /** Replaces secrets in the JSON text, and so at every depth. */
  value<Value>(value: Value): Value {
    const text = JSON.stringify(value);
    const clean = this.#secrets.reduce(
      (rest, secret) => rest.replaceAll(JSON.stringify(secret).slice(1, -1), placeholder),
      text,
    );
    return clean === text ? value : (JSON.parse(clean) as Value);
  }
}
