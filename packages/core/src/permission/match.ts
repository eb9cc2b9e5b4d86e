/** How a rule matches a call: by text, as specification 002 defines it, and by the kinds of parameters. */
import { type ParameterKind, canonicalJson, type Permissions } from '@relay/protocol';
import type { ResolvedPaths } from '../ports/tool.ts';
import { checkPattern, compileGlob, type Effect } from './glob/glob.ts';
import { literalPrefixLength } from './glob/pattern-text.ts';
import {
  allowsPath,
  deniesPath,
  isReadablePath,
  pathReadings,
  relativeTo,
  samePath,
} from './path.ts';
import {
  allowsCommand,
  isVisibleToDenyRules,
  type UncoveredCommand,
  uncoveredCommand,
} from './shell/allow.ts';
import { type CommandReading, concernsCommand, deniesCommand, readCommands } from './shell/deny.ts';
import { MAX_STEPS, spendSteps, turnAfter, withinSteps } from './step-budget.ts';
import { checkRuleTool } from './tool-name.ts';
import { allowsUrl, deniesUrl, isReadableUrl, urlReadings } from './url.ts';

/** What a tool declares a parameter to be. Default: `text`. */
export type { ParameterKind };

export interface ToolCallLike {
  readonly name: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** A rule for a whole tool, for calls that match patterns (`params`), or for one exact call. */
export interface ToolRule {
  readonly tool: string;
  readonly params?: Readonly<Record<string, string>> | undefined;
  readonly exact?: Readonly<Record<string, unknown>> | undefined;
}

export interface PatternFault {
  readonly path: string;
  readonly message: string;
}

/** Whether the tool name is equal, and every parameter of the rule is present and matches. */
export function matchesPermission(toolCall: ToolCallLike, permission: ToolRule): boolean {
  return matchesRule(toolCall, permission, 'allow');
}

/** The same for a deny rule, whose wildcards also match line breaks and hidden names. */
export function matchesDenial(toolCall: ToolCallLike, permission: ToolRule): boolean {
  return matchesRule(toolCall, permission, 'deny');
}

/** Whether the rules allow a call, by text matching alone. Whether it runs is up to `decideCall`. */
export function matchesPermissions(toolCall: ToolCallLike, permissions: Permissions): boolean {
  if (permissions.denylist?.some((rule) => matchesDenial(toolCall, rule)) === true) return false;
  const rules = [...(permissions.allowlist ?? []), ...(permissions.allowOnce ?? [])];
  return rules.some((rule) => matchesPermission(toolCall, rule));
}

/** Whether the arguments of a call are equal to these, whatever the order of their keys. */
function hasArguments(toolCall: ToolCallLike, exact: Readonly<Record<string, unknown>>): boolean {
  const values = toolCall.arguments ?? {};
  if (!mayEqual(values, exact)) return false;
  spendSteps(stepsToWrite(values) + stepsToWrite(exact));
  try {
    return canonicalJson(values) === canonicalJson(exact);
  } catch {
    return false; // circular arguments
  }
}

/** Fast path: most calls differ in a text. */
function mayEqual(
  values: Readonly<Record<string, unknown>>,
  exact: Readonly<Record<string, unknown>>,
): boolean {
  for (const [name, value] of Object.entries(exact)) {
    if (typeof value === 'string' && values[name] !== value) return false;
  }
  return true;
}

/** What it costs to write a value as canonical JSON; a circular one is endless. */
function stepsToWrite(value: unknown): number {
  let steps = 0;
  const pending: unknown[] = [value];
  while (pending.length > 0 && steps <= MAX_STEPS) {
    const next = pending.pop();
    steps += VALUE_STEPS;
    if (typeof next === 'string') steps += next.length;
    else if (typeof next === 'object' && next !== null)
      for (const part of Object.values(next)) pending.push(part);
  }
  return steps;
}

/** All refused patterns and tool names, with the path of their field. */
export function checkPermissions(permissions: Permissions): PatternFault[] {
  const { result } = withinSteps(() => [...findFaults(permissions)], MAX_CHECK_STEPS);
  return result?.filter((fault) => fault !== undefined) ?? [{ path: '', message: TOO_COMPLEX }];
}

/** The same, and others get their turn of the event loop in between. */
export async function checkPermissionsInTurn(permissions: Permissions): Promise<PatternFault[]> {
  const faults: PatternFault[] = [];
  const found = findFaults(permissions);
  let left = MAX_CHECK_STEPS;
  let turn = 0;
  for (;;) {
    const { result, steps } = withinSteps(() => found.next(), left);
    if (result === undefined) return [{ path: '', message: TOO_COMPLEX }];
    if (result.done === true) return faults;
    if (result.value !== undefined) faults.push(result.value);
    left -= steps;
    turn += steps;
    if (turn < MAX_STEPS / 8) continue;
    await turnAfter(turn);
    turn = 0;
  }
}

const MAX_CHECK_STEPS = 2 * MAX_STEPS;

const TOO_COMPLEX =
  'The patterns are too complex to be checked together; use fewer groups and wildcards, or fewer rules';

/** One entry per pattern, undefined if it is valid. */
function* findFaults(permissions: Permissions): Generator<PatternFault | undefined, undefined> {
  for (const list of ['allowlist', 'allowOnce', 'denylist', 'ask'] as const) {
    for (const [index, rule] of (permissions[list] ?? []).entries()) {
      const problem = checkRuleTool(rule.tool);
      if (problem !== undefined) yield { path: `${list}[${index}].tool`, message: problem };
      for (const [name, pattern] of Object.entries(rule.params ?? {})) {
        const message = checkPattern(pattern);
        const path = `${list}[${index}].params${fieldPath(name)}`;
        yield message === undefined ? undefined : { path, message };
      }
    }
  }
  return undefined;
}

function matchesRule(toolCall: ToolCallLike, rule: ToolRule, effect: Effect): boolean {
  if (toolCall.name !== rule.tool) return false;
  if (rule.exact !== undefined && !hasArguments(toolCall, rule.exact)) return false;
  return Object.entries(rule.params ?? {}).every(([name, pattern]) => {
    const text = scalarText(toolCall.arguments, name);
    return text !== undefined && compileGlob(pattern, effect).matches(text);
  });
}

function fieldPath(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}

/** The text of an own, scalar parameter; undefined for values that no pattern may match. */
function scalarText(
  values: Readonly<Record<string, unknown>> | undefined,
  name: string,
): string | undefined {
  if (typeof values !== 'object' || values === null) return undefined;
  if (!Object.hasOwn(values, name)) return undefined;
  const value = values[name];
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
    case 'boolean':
    case 'bigint':
      return String(value);
    default:
      return undefined;
  }
}

/** What it costs to look at a rule at all. */
const RULE_STEPS = 4;
/** What it costs to write one value inside of others as JSON. */
const VALUE_STEPS = 40;
/** No allow rule with a pattern, and none beside deny rules, allows a command of this length. */
const MAX_COMMAND = 65_536;

/** Why a rule for the tool of a call does not match it. */
export type Miss =
  /** The rule is for other arguments; `parameter` is the first that differs. */
  | { readonly kind: 'exact'; readonly parameter: string | undefined }
  /** A link leads a path of the exact call elsewhere. */
  | { readonly kind: 'link' }
  /** No deny or ask rule matches the call, but one may be about it. */
  | { readonly kind: 'concerned' }
  /** The rule has patterns, but none for this parameter, which it must name. */
  | { readonly kind: 'unnamed'; readonly parameter: string }
  /** Deny and ask rules cannot see all that the parameter means. */
  | { readonly kind: 'unreadable'; readonly parameter: string }
  | ({ readonly parameter: string; readonly pattern: string } & ParameterMiss);

type ParameterMiss =
  | { readonly kind: 'absent' | 'not_text' }
  /** The pattern does not match from this part of the value on, which is empty if the value ends too early. */
  | { readonly kind: 'text'; readonly part: string }
  /** The pattern matches the text, but not the path or URL that it means. */
  | { readonly kind: 'path' | 'url' }
  /** Runs code, which no pattern stands for. */
  | { readonly kind: 'code' }
  | { readonly kind: 'command'; readonly command: UncoveredCommand };

interface CallMatcherOptions {
  /** Rules that are not used up by a call. */
  readonly standing: readonly ToolRule[];
  readonly denylist?: readonly ToolRule[] | undefined;
  readonly kinds?: Readonly<Record<string, ParameterKind>> | undefined;
  readonly sensitive?: readonly string[] | undefined;
  readonly resolvedPaths?: ResolvedPaths | undefined;
}

/**
 * Matches rules against one call, according to the kinds of its parameters. Compared with text
 * matching, kinds only ever narrow an allow rule and widen a deny rule.
 */
export class CallMatcher {
  readonly #call: ToolCallLike;
  readonly #kinds: ReadonlyMap<string, ParameterKind>;
  readonly #sensitive: readonly string[];
  readonly #standing: readonly ToolRule[];
  readonly #denylist: readonly ToolRule[];
  readonly #resolvedPaths: ResolvedPaths | undefined;
  readonly #readings = new Map<string, CommandReading>();
  readonly #otherReadings = new Map<string, readonly string[]>();
  readonly #unnamed = new Map<string, boolean>();
  readonly #covering = new Map<string, readonly string[]>();
  readonly #covered = new Map<string, boolean>();
  #concerned: boolean | undefined;

  constructor(
    call: ToolCallLike,
    { standing, denylist, kinds, sensitive, resolvedPaths }: CallMatcherOptions,
  ) {
    this.#call = call;
    this.#kinds = new Map(Object.entries(kinds ?? {}));
    this.#sensitive = sensitive ?? [];
    this.#standing = standing;
    this.#denylist = denylist ?? [];
    this.#resolvedPaths = resolvedPaths;
  }

  denies({ tool, params = {}, exact }: ToolRule): boolean {
    spendSteps(RULE_STEPS);
    if (tool !== this.#call.name) return false;
    if (exact !== undefined && !hasArguments(this.#call, exact)) return false;
    return Object.entries(params).every(([name, pattern]) => this.#deniesParameter(name, pattern));
  }

  /** Whether a rule may be about the call: it matches like a deny rule, or cannot read the call. */
  concerns({ tool, params = {} }: Pick<ToolRule, 'tool' | 'params'>): boolean {
    spendSteps(RULE_STEPS);
    if (tool !== this.#call.name) return false;
    return Object.entries(params).every(
      ([name, pattern]) =>
        this.#has(name) &&
        (scalarText(this.#call.arguments, name) === undefined ||
          this.#deniesParameter(name, pattern) ||
          this.#concernsParameter(name, pattern) ||
          !this.#isReadable(name, [pattern])),
    );
  }

  /** An exact rule allows the call only if no link leads its paths elsewhere. */
  allows(rule: ToolRule): boolean {
    spendSteps(RULE_STEPS);
    if (!matchesPermission(this.#call, rule)) return false;
    if (rule.exact !== undefined) return this.#pathsAreLiteral();
    if (!this.#namesSensitive(rule) || this.#isConcerned()) return false;
    return [...this.#kinds.keys()].every((name) => {
      const pattern = patternFor(rule, name);
      return pattern === undefined ? this.#allowsUnnamed(name) : this.#allowsNamed(name, pattern);
    });
  }

  /** Why an allow rule for this tool does not allow the call; undefined if it does. */
  missOfAllow(rule: ToolRule): Miss | undefined {
    if (this.allows(rule)) return undefined;
    const { params = {}, exact } = rule;
    if (exact !== undefined) return this.#missOfExact(exact) ?? { kind: 'link' };
    for (const [name, pattern] of Object.entries(params)) {
      const miss = this.#missOfText(name, pattern, 'allow');
      if (miss !== undefined) return miss;
    }
    const unnamed = this.#sensitive.find(
      (name) => this.#has(name) && patternFor(rule, name) === undefined,
    );
    if (!this.#namesSensitive(rule)) return { kind: 'unnamed', parameter: unnamed ?? '' };
    if (this.#isConcerned()) return { kind: 'concerned' };
    for (const parameter of this.#kinds.keys()) {
      const pattern = patternFor(rule, parameter);
      if (pattern === undefined) {
        if (!this.#allowsUnnamed(parameter)) return { kind: 'unreadable', parameter };
      } else if (!this.#allowsNamed(parameter, pattern)) {
        return { parameter, pattern, ...this.#narrowing(parameter, pattern) };
      }
    }
    return undefined;
  }

  /** Why a deny or ask rule for this tool does not match the call; undefined if it does. */
  missOfDeny(rule: ToolRule): Miss | undefined {
    if (this.denies(rule)) return undefined;
    const { params = {}, exact } = rule;
    const differs = exact === undefined ? undefined : this.#missOfExact(exact);
    if (differs !== undefined) return differs;
    for (const [name, pattern] of Object.entries(params)) {
      if (this.#deniesParameter(name, pattern)) continue;
      const miss = this.#missOfText(name, pattern, 'deny');
      if (miss !== undefined) return miss;
    }
    return undefined;
  }

  #missOfExact(exact: Readonly<Record<string, unknown>>): Miss | undefined {
    if (hasArguments(this.#call, exact)) return undefined;
    const values = this.#call.arguments ?? {};
    const parameter = [...Object.keys(exact), ...Object.keys(values)].find(
      (name) => !hasArguments({ name, arguments: { value: values[name] } }, { value: exact[name] }),
    );
    return { kind: 'exact', parameter };
  }

  #missOfText(parameter: string, pattern: string, effect: Effect): Miss | undefined {
    const text = scalarText(this.#call.arguments, parameter);
    if (text === undefined) {
      return { kind: this.#has(parameter) ? 'not_text' : 'absent', parameter, pattern };
    }
    const glob = compileGlob(pattern, effect);
    if (glob.matches(text)) return undefined;
    return { kind: 'text', parameter, pattern, part: text.slice(glob.matchableLength(text)) };
  }

  /** Why a pattern that matches the text of a parameter does not allow it. */
  #narrowing(name: string, pattern: string): ParameterMiss {
    const text = scalarText(this.#call.arguments, name) ?? '';
    const kind = this.#kinds.get(name);
    if (kind === 'path' || kind === 'url') return { kind };
    if (this.#reading(name, text).evaluates) return { kind: 'code' };
    const command = uncoveredCommand(text, [pattern, ...this.#coveringPatterns(name)]);
    return command === undefined ? { kind: 'not_text' } : { kind: 'command', command };
  }

  /**
   * Whether a deny or ask rule may be about a command of the call, without matching it. Only an exact
   * rule, which a person made for this very call, allows it then.
   */
  #isConcerned(): boolean {
    this.#concerned ??= [...this.#kinds.keys()].some((name) =>
      this.#denials(name).some((pattern) => this.#concernsParameter(name, pattern)),
    );
    return this.#concerned;
  }

  /** Whether a pattern may be about a command without matching it. */
  #concernsParameter(name: string, pattern: string): boolean {
    const text = scalarText(this.#call.arguments, name);
    if (text === undefined || this.#kinds.get(name) !== 'command') return false;
    return concernsCommand(pattern, this.#reading(name, text));
  }

  /** The patterns of deny and ask rules for a parameter. */
  #denials(name: string): readonly string[] {
    return this.#denylist.flatMap((rule) =>
      rule.tool === this.#call.name ? (patternFor(rule, name) ?? []) : [],
    );
  }

  #deniesParameter(name: string, pattern: string): boolean {
    const text = scalarText(this.#call.arguments, name);
    if (text === undefined) return false;
    if (compileGlob(pattern, 'deny').matches(text)) return true;
    switch (this.#kinds.get(name) ?? 'text') {
      case 'command':
        if (text.length > MAX_COMMAND) return mentionsProgram(pattern, text);
        return deniesCommand(pattern, this.#reading(name, text));
      case 'path':
        return deniesPath(
          pattern,
          this.#readingsOf(name, () => this.#pathReadings(name, text)),
        );
      case 'url':
        return deniesUrl(
          pattern,
          this.#readingsOf(name, () => urlReadings(text)),
        );
      case 'text':
        return false;
    }
  }

  /** The text of the parameter has already matched the pattern. */
  #allowsNamed(name: string, pattern: string): boolean {
    const text = scalarText(this.#call.arguments, name);
    if (text === undefined) return false;
    switch (this.#kinds.get(name) ?? 'text') {
      case 'command':
        return this.#allowsCommand(name, pattern, text);
      case 'path':
        return allowsPath(pattern, text) && this.#allowsResolved(name, pattern, text);
      case 'url':
        return allowsUrl(pattern, text);
      case 'text':
        return true;
    }
  }

  /**
   * Different rules may cover the commands of one line: the one in question, which is reported because
   * it matches the whole line, and all standing rules. Another allow-once rule may not, because it
   * would not be used up.
   */
  #allowsCommand(name: string, pattern: string, text: string): boolean {
    // No pattern stands for code, whatever it contains: values decide what the code does.
    if (this.#reading(name, text).evaluates) return false;
    const patterns = this.#covering.get(name) ?? this.#coveringPatterns(name);
    this.#covering.set(name, patterns);
    spendSteps(patterns.length);
    if (!patterns.includes(pattern)) return allowsCommand(text, [pattern, ...patterns]);
    const covered = this.#covered.get(name) ?? allowsCommand(text, patterns);
    this.#covered.set(name, covered);
    return covered;
  }

  /** Patterns for this parameter, of standing rules that allow all other parameters. */
  #coveringPatterns(parameter: string): readonly string[] {
    const rules = this.#standing.filter(
      (rule) =>
        rule.tool === this.#call.name && rule.exact === undefined && this.#namesSensitive(rule),
    );
    return rules.flatMap((rule) => {
      const others = Object.entries(rule.params ?? {}).filter(([name]) => name !== parameter);
      const isAllowed = others.every(([name, pattern]) => this.#allowsAlone(name, pattern));
      return isAllowed ? (patternFor(rule, parameter) ?? []) : [];
    });
  }

  #allowsAlone(name: string, pattern: string): boolean {
    const text = scalarText(this.#call.arguments, name);
    if (text === undefined || !compileGlob(pattern).matches(text)) return false;
    if (this.#kinds.get(name) === 'command') return allowsCommand(text, [pattern]);
    return this.#allowsNamed(name, pattern);
  }

  #allowsUnnamed(name: string): boolean {
    const known = this.#unnamed.get(name);
    if (known !== undefined) return known;
    const denials = this.#denials(name);
    const allowed = denials.length === 0 || !this.#has(name) || this.#isReadable(name, denials);
    this.#unnamed.set(name, allowed);
    return allowed;
  }

  /** Whether patterns of deny rules can see all that the parameter means. */
  #isReadable(name: string, denials: readonly string[]): boolean {
    const text = scalarText(this.#call.arguments, name);
    switch (this.#kinds.get(name) ?? 'text') {
      case 'command':
        return text !== undefined && isVisibleToDenyRules(text, this.#reading(name, text), denials);
      case 'path':
        return text !== undefined && isReadablePath(text);
      case 'url':
        return text !== undefined && isReadableUrl(text);
      case 'text':
        return true;
    }
  }

  #namesSensitive(rule: ToolRule): boolean {
    if (Object.keys(rule.params ?? {}).length === 0) return true;
    return this.#sensitive.every(
      (name) => !this.#has(name) || patternFor(rule, name) !== undefined,
    );
  }

  /** The resolved path, relative to its root and absolute. */
  #resolved(name: string): readonly string[] {
    const { root = '', paths = {} } = this.#resolvedPaths ?? {};
    const path = Object.hasOwn(paths, name) ? paths[name] : undefined;
    return path === undefined ? [] : [relativeTo(root, path), path];
  }

  /** The resolved path must match too: as an absolute path if the parameter is one, else relative. */
  #allowsResolved(name: string, pattern: string, text: string): boolean {
    const [relative, absolute] = this.#resolved(name);
    if (relative === undefined || absolute === undefined) return true;
    return allowsPath(pattern, text.startsWith('/') ? absolute : relative);
  }

  #pathsAreLiteral(): boolean {
    return Object.keys(this.#resolvedPaths?.paths ?? {}).every((name) => {
      const text = scalarText(this.#call.arguments, name);
      return text === undefined || this.#resolved(name).some((path) => samePath(path, text));
    });
  }

  #reading(name: string, text: string): CommandReading {
    const known = this.#readings.get(name);
    if (known !== undefined) return known;
    const reading = readCommands(text);
    this.#readings.set(name, reading);
    return reading;
  }

  #readingsOf(name: string, read: () => readonly string[]): readonly string[] {
    const readings = this.#otherReadings.get(name) ?? read();
    this.#otherReadings.set(name, readings);
    return readings;
  }

  #pathReadings(name: string, text: string): readonly string[] {
    return [...new Set([text, ...this.#resolved(name)].flatMap(pathReadings))];
  }

  #has(name: string): boolean {
    const { arguments: values } = this.#call;
    return typeof values === 'object' && values !== null && Object.hasOwn(values, name);
  }
}

/** For a command that is too long to be read: whether it contains the program that a pattern names. */
function mentionsProgram(pattern: string, text: string): boolean {
  const literal = pattern.slice(0, literalPrefixLength(pattern)).split(/\s/, 1)[0]!;
  const program = literal.slice(literal.lastIndexOf('/') + 1);
  return program !== '' && compileGlob(`*${program}*`, 'deny').matches(text);
}

function patternFor(rule: ToolRule, name: string): string | undefined {
  const { params = {} } = rule;
  return Object.hasOwn(params, name) ? params[name] : undefined;
}
