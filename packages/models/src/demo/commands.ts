/** What the demo model reads out of a message. */

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
/** Names and numbers are short; what is longer is somebody's text and not repeated. */
const maxShown = 200;

const help = `Hello! I am the demo model: I need no key, and I do what these commands say.
- calculate 23*47
- notify <text>: send a note, which asks for your approval first
- use <tool> <json>: call any tool; several lines are several calls at once
- say <n>: stream n tokens
- slow <ms>: wait in the middle of an answer
- fail <status>: fail as a provider does
- hand off to <agent>`;

export function planFor(message: string, tools: ReadonlySet<string>): DemoPlan {
  const [, verb = '', rest = ''] = /^(\S+)\s*([^]*)$/.exec(message.trim()) ?? [];
  switch (verb.toLowerCase()) {
    case 'calculate':
      return calculation(rest, tools);
    case 'what':
      // As one asks a model; anything else that begins so is not for this one.
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

/** Each `use` at the start of a line is a call, whose JSON may go on over more lines. */
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
    return { kind: 'answer', text: `There is nobody named ${name} to hand off to.` };
  }
  return calling([callOf('handoff', { agent: name })], tools);
}

function onNumber(text: string, plan: (n: number) => DemoPlan): DemoPlan {
  const [digits] = /^[0-9]+/.exec(text) ?? [];
  return digits === undefined ? { kind: 'answer', text: help } : plan(Number(digits));
}
