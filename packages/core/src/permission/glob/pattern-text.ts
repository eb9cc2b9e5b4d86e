import { spendSteps } from '../step-budget.ts';

/** The length of the literal text before the first wildcard or group of a pattern. */
export function literalPrefixLength(pattern: string): number {
  const length = literalLength(pattern);
  spendSteps(1 + length);
  return length;
}

function literalLength(pattern: string): number {
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at]!;
    if ('*?[{(\\'.includes(char)) return at;
    if ('+@!'.includes(char) && pattern[at + 1] === '(') return at;
  }
  return pattern.length;
}

const MAX_ALTERNATIVES = 256;

/** The pattern with its `{a,b}` and `@(a|b)` written out; undefined if there are too many. */
export function expandAlternatives(pattern: string): readonly string[] | undefined {
  if (!/[{(]/.test(pattern)) return [pattern];
  const done: string[] = [];
  const pending = [pattern];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    spendSteps(2 * next.length);
    const group = firstGroup(next);
    if (group === undefined) done.push(next);
    else pending.push(...group);
    if (done.length + pending.length > MAX_ALTERNATIVES) return undefined;
  }
  return done;
}

function firstGroup(pattern: string): readonly string[] | undefined {
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at]!;
    if (char === '\\') at += 1;
    else if (char === '[') at = Math.max(at, pattern.indexOf(']', at + 2));
    else if (char === '{') return branches(pattern, at, at + 1);
    else if (char === '(' && !'+*?!'.includes(pattern[at - 1] ?? ' ')) {
      return branches(pattern, pattern[at - 1] === '@' ? at - 1 : at, at + 1);
    }
  }
  return undefined;
}

/** The group starts at `from`, and its content at `inside`; undefined if it is literal text. */
function branches(pattern: string, from: number, inside: number): readonly string[] | undefined {
  const separator = pattern[inside - 1] === '{' ? ',' : '|';
  const found: string[] = [];
  let [depth, start] = [0, inside];
  for (let at = inside; at < pattern.length; at += 1) {
    const char = pattern[at]!;
    if (char === '\\') at += 1;
    else if (char === '[') at = Math.max(at, pattern.indexOf(']', at + 2));
    else if ('({'.includes(char)) depth += 1;
    else if (depth > 0) depth -= ')}'.includes(char) ? 1 : 0;
    else if (char === separator || ')}'.includes(char)) {
      found.push(pattern.slice(start, at));
      start = at + 1;
      if (char === separator) continue;
      // Plain parentheses without a bar are literal text.
      if (found.length === 1 && pattern[from] === '(') return undefined;
      return found.map((branch) => pattern.slice(0, from) + branch + pattern.slice(at + 1));
    }
  }
  return undefined;
}
