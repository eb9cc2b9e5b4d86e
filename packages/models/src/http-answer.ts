/** The head of a provider's answer: either a stream begins, or it is a failure with a reason. */
import type { HttpExchange } from './http-exchange.ts';
import { failureOfPlainAnswer, failureOfResponse } from './provider-failure.ts';

const maxErrorChars = 16 * 1024;

export interface Question {
  readonly body: Buffer;
  /** What may not be shown if the answer repeats it. */
  readonly secret: string | undefined;
  readonly signal: AbortSignal;
}

/** Asks, and returns when the answer is a stream to be read. Redirects are not followed. */
export async function openAnswer(exchange: HttpExchange, question: Question): Promise<void> {
  const { body, secret, signal } = question;
  const { status, headers } = await exchange.send(body);
  if (status < 200 || status > 299) {
    throw failureOfResponse({ status, headers, body: await bodyOf(exchange, signal) }, secret);
  }
  if (headers['content-type']?.startsWith('application/json') === true) {
    throw failureOfPlainAnswer(await bodyOf(exchange, signal), secret);
  }
}

/** As much of an error's body as can matter; what cannot be read of it does not. */
async function bodyOf(exchange: HttpExchange, signal: AbortSignal): Promise<string> {
  let body = '';
  try {
    while (body.length < maxErrorChars) {
      const text = await exchange.read();
      if (text === undefined) break;
      body += text;
    }
  } catch (cause) {
    if (signal.aborted) throw cause;
  }
  return body;
}
