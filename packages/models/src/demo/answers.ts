/** What the demo model says once its tools have answered. */
import type { MessageToolCall } from '@relay/protocol';

export interface DemoResult {
  readonly call: MessageToolCall;
  /** What the transcript holds of the result; undefined if it holds none. */
  readonly reading: string | undefined;
}

type Outcome =
  | { readonly kind: 'done'; readonly text: string }
  | { readonly kind: 'not-done'; readonly why: string };

const maxChars = 2_000;

export function answerTo(results: readonly DemoResult[]): string {
  return results.map(sentenceFor).join('\n');
}

function sentenceFor({ call, reading }: DemoResult): string {
  const { name, arguments: json } = call.function;
  const outcome = outcomeOf(reading);
  switch (name) {
    case 'calculator':
      return outcome.kind === 'done'
        ? `${expressionIn(json)} is ${numberIn(outcome.text)}.`
        : `I could not calculate that: ${outcome.why}.`;
    case 'send_note':
      return outcome.kind === 'done'
        ? 'The note was sent.'
        : `The note was not sent: ${outcome.why}.`;
    case 'handoff':
      return outcome.kind === 'done'
        ? `You are now talking to ${String(fieldsOf(json)['agent'])}.`
        : `I could not hand off: ${outcome.why}.`;
    default:
      return outcome.kind === 'done'
        ? `${name} answered: ${shortened(outcome.text)}`
        : `${name} brought no result: ${outcome.why}.`;
  }
}

function outcomeOf(reading: string | undefined): Outcome {
  if (reading === undefined) return { kind: 'not-done', why: 'there is no answer' };
  const { status, reason, error } = fieldsOf(reading);
  if (status === 'denied' || status === 'expired') {
    const verdict = status === 'denied' ? 'it was denied' : 'nobody decided in time';
    const why = typeof reason === 'string' && reason !== '' ? `${verdict} (${reason})` : verdict;
    return { kind: 'not-done', why };
  }
  if (status === 'error' && typeof error === 'string') {
    return { kind: 'not-done', why: shortened(error) };
  }
  return { kind: 'done', text: reading };
}

/** The fields of a JSON object; none if it is something else. */
function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function expressionIn(json: string): string {
  const { a, b, op } = fieldsOf(json);
  return `${String(a)} ${String(op)} ${String(b)}`;
}

/** A calculator may answer with `2 * 3 = 6`, with `6`, or with `{"result": 6}`. */
function numberIn(reading: string): string {
  const { result } = fieldsOf(reading);
  if (typeof result === 'number') return String(result);
  return shortened(reading.slice(reading.lastIndexOf('=') + 1).trim());
}

function shortened(text: string): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars).toWellFormed()}…`;
}
