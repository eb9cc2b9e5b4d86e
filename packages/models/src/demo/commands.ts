/** What the demo model does for a message, and what it answers after its tool calls. */
import type { MessageToolCall } from '@relay/protocol';

export interface DemoCall {
  readonly name: string;
  readonly arguments: string;
}

export type DemoPlan =
  | { readonly kind: 'answer'; readonly text: string }
  /** `text` is about the tools that are missing, and often empty. */
  | { readonly kind: 'call'; readonly calls: readonly DemoCall[]; readonly text: string }
  | { readonly kind: 'say'; readonly tokens: number }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'fail'; readonly status: number };

const maxTokens = 100_000;
const maxWaitMs = 10 * 60 * 1000;
/** Names and numbers are short; longer text is private and not repeated. */
const maxShown = 200;

const help = `Hello! I am the demo model: I need no key, and I do what these commands say.
- calculate 23*47
- notify <text>: send a note, which asks for your approval first
- use <tool> <json>: call any tool; several lines are several calls at once
- say <n>: stream n tokens, at most 100,000
- slow <ms>: wait in the middle of an answer
- fail <status>: fail as a provider does
- hand off to <agent>`;

export function planFor(message: string, tools: ReadonlySet<string>): DemoPlan {
  const [, verb = '', rest = ''] = /^(\S+)\s*([^]*)$/.exec(message.trim()) ?? [];
  switch (verb.toLowerCase()) {
    case 'calculate':
      return calculation(rest, tools);
    case 'what':
      // Only `what is <calculation>`.
      if (!expression.test(rest.slice(0, maxShown).replace(/^is\s+/i, ''))) break;
      return calculation(rest.replace(/^is\s+/i, ''), tools);
    case 'notify':
      if (rest === '') break;
      return calling([callOf('send_note', { to: 'operator', text: rest })], tools);
    case 'use':
      return calling(usesIn(message), tools);
    case 'say':
      return onNumber(rest, (n) => ({ kind: 'say', tokens: Math.min(n, maxTokens) }));
    case 'slow':
      return onNumber(rest, (n) => ({ kind: 'wait', ms: Math.min(n, maxWaitMs) }));
    case 'fail':
      return onNumber(rest, (n) =>
        n >= 400 && n <= 599 ? { kind: 'fail', status: n } : { kind: 'answer', text: help },
      );
    case 'hand':
      return handingOff(rest, tools);
  }
  return { kind: 'answer', text: help };
}

function callOf(name: string, input: Readonly<Record<string, unknown>>): DemoCall {
  return { name, arguments: JSON.stringify(input) };
}

function calling(calls: readonly DemoCall[], tools: ReadonlySet<string>): DemoPlan {
  if (calls.length === 0) return { kind: 'answer', text: help };
  const missing = [...new Set(calls.map(({ name }) => name))].filter((name) => !tools.has(name));
  const text = missing.map((name) => `I have no tool named ${name.slice(0, maxShown)}.`).join(' ');
  const present = calls.filter(({ name }) => tools.has(name));
  return present.length === 0 ? { kind: 'answer', text } : { kind: 'call', calls: present, text };
}

const operators = new Map([
  ['x', '*'],
  ['×', '*'],
  ['÷', '/'],
  ['−', '-'],
]);

const expression =
  /^([-−]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+))\s*([-−+*/x×÷])\s*([-−]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+))\s*[=?.]*$/i;

function calculation(text: string, tools: ReadonlySet<string>): DemoPlan {
  const [, a = '', sign = '', b = ''] = (text.length <= maxShown && expression.exec(text)) || [];
  const input = {
    a: Number(a.replace('−', '-')),
    b: Number(b.replace('−', '-')),
    op: operators.get(sign.toLowerCase()) ?? sign,
  };
  if (sign === '' || !Number.isFinite(input.a) || !Number.isFinite(input.b)) {
    const wanted = 'two numbers with one of + - * / between them, as in calculate 23*47';
    return { kind: 'answer', text: `I can only calculate ${wanted}.` };
  }
  return calling([callOf('calculator', input)], tools);
}

/** Each `use` at the start of a line is a call, whose JSON may span several lines. */
function usesIn(message: string): DemoCall[] {
  return message
    .split(/^[ \t]*use[ \t]+/im)
    .slice(1)
    .map((part) => {
      const [, name = '', json = ''] = /^(\S+)\s*([^]*)$/.exec(part.trim()) ?? [];
      return { name, arguments: json };
    })
    .filter(({ name }) => name !== '');
}

function handingOff(rest: string, tools: ReadonlySet<string>): DemoPlan {
  const [, agent = ''] = /^off\s+to\s+(.+)/i.exec(rest) ?? [];
  const name = agent.trim().slice(0, maxShown);
  if (name === '') return { kind: 'answer', text: help };
  if (!tools.has('handoff')) {
    return { kind: 'answer', text: `There is no agent named ${name} to hand off to.` };
  }
  return calling([callOf('handoff', { agent: name })], tools);
}

function onNumber(text: string, plan: (n: number) => DemoPlan): DemoPlan {
  const [digits] = /^[0-9]+/.exec(text) ?? [];
  return digits === undefined ? { kind: 'answer', text: help } : plan(Number(digits));
}

export interface DemoResult {
  readonly call: MessageToolCall;
  readonly result: string | undefined;
}

type Outcome =
  | { readonly kind: 'success'; readonly text: string }
  | { readonly kind: 'failure'; readonly why: string };

const maxChars = 2_000;

export function answerTo(results: readonly DemoResult[]): string {
  return results.map(sentenceFor).join('\n');
}

function sentenceFor({ call, result }: DemoResult): string {
  const { name, arguments: json } = call.function;
  const outcome = outcomeOf(result);
  switch (name) {
    case 'calculator':
      return outcome.kind === 'success'
        ? `${expressionIn(json)} is ${numberIn(outcome.text)}.`
        : `I could not calculate that: ${outcome.why}.`;
    case 'send_note':
      return outcome.kind === 'success'
        ? 'The note was sent.'
        : `The note was not sent: ${outcome.why}.`;
    case 'handoff':
      return outcome.kind === 'success'
        ? `You are now talking to ${String(fieldsOf(json)['agent'])}.`
        : `I could not hand off: ${outcome.why}.`;
    default:
      return outcome.kind === 'success'
        ? `${name} answered: ${shortened(outcome.text)}`
        : `${name} returned no result: ${outcome.why}.`;
  }
}

function outcomeOf(result: string | undefined): Outcome {
  if (result === undefined) return { kind: 'failure', why: 'there is no answer' };
  const { status, reason, error } = fieldsOf(result);
  if (status === 'denied' || status === 'expired') {
    const verdict = status === 'denied' ? 'it was denied' : 'the approval expired';
    const why = typeof reason === 'string' && reason !== '' ? `${verdict} (${reason})` : verdict;
    return { kind: 'failure', why };
  }
  if (status === 'error' && typeof error === 'string') {
    // The sentence that it becomes part of has its own end.
    return { kind: 'failure', why: shortened(error).replace(/\.$/, '') };
  }
  return { kind: 'success', text: result };
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
function numberIn(text: string): string {
  const { result } = fieldsOf(text);
  if (typeof result === 'number') return String(result);
  return shortened(text.slice(text.lastIndexOf('=') + 1).trim());
}

function shortened(text: string): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars).toWellFormed()}…`;
}
