import type { ResolvedPaths } from '../ports/tool.ts';
import type { ParameterKind } from './kinds.ts';
import { compileGlob } from './glob/glob.ts';
import { matchesExact, matchesPermission, type ToolCallLike, type ToolRule } from './match.ts';
import { allowsPath, deniesPath, isReadablePath, samePath, withinRoot } from './path.ts';
import { scalarText } from './scalar.ts';
import { type CommandReading, deniesCommand, readCommands } from './shell/denial.ts';
import { grantsCommand, isOpenToDenial } from './shell/grant.ts';
import { allowsUrl, deniesUrl, isReadableUrl } from './url.ts';

export interface Facts {
  /** Rules that hold for more than one call. */
  readonly standing: readonly ToolRule[];
  readonly denylist?: readonly ToolRule[] | undefined;
  readonly kinds?: Readonly<Record<string, ParameterKind>> | undefined;
  readonly sensitive?: readonly string[] | undefined;
  readonly resolvedPaths?: ResolvedPaths | undefined;
}

/**
 * Rules against one call, with what its parameters are. An allow is never more than the text of the
 * rule allows, a denial never less.
 */
export class Judge {
  readonly #call: ToolCallLike;
  readonly #kinds: ReadonlyMap<string, ParameterKind>;
  readonly #sensitive: readonly string[];
  readonly #standing: readonly ToolRule[];
  readonly #denylist: readonly ToolRule[];
  readonly #resolvedPaths: ResolvedPaths | undefined;
  readonly #readings = new Map<string, CommandReading>();
  readonly #covering = new Map<string, readonly string[]>();
  readonly #covered = new Map<string, boolean>();

  constructor(call: ToolCallLike, { standing, denylist, kinds, sensitive, resolvedPaths }: Facts) {
    this.#call = call;
    this.#kinds = new Map(Object.entries(kinds ?? {}));
    this.#sensitive = sensitive ?? [];
    this.#standing = standing;
    this.#denylist = denylist ?? [];
    this.#resolvedPaths = resolvedPaths;
  }

  denies(rule: ToolRule): boolean {
    const { tool, params = {}, exact } = rule;
    if (tool !== this.#call.name) return false;
    if (exact !== undefined && !matchesExact(this.#call, { tool, exact })) return false;
    return Object.entries(params).every(([name, pattern]) => this.#deniesText(name, pattern));
  }

  /** A literal rule holds for that very call; but not where a link leads it elsewhere. */
  allows(rule: ToolRule): boolean {
    if (!matchesPermission(this.#call, rule)) return false;
    if (rule.exact !== undefined) return this.#leadsWhereItSays();
    if (!this.#namesSensitive(rule)) return false;
    return [...this.#kinds.keys()].every((name) => {
      const pattern = patternFor(rule, name);
      return pattern === undefined ? this.#allowsUnnamed(name) : this.#allowsNamed(name, pattern);
    });
  }

  #deniesText(name: string, pattern: string): boolean {
    const text = scalarText(this.#call.arguments, name);
    if (text === undefined) return false;
    if (compileGlob(pattern, 'deny').matches(text)) return true;
    switch (this.#kinds.get(name) ?? 'text') {
      case 'command':
        return deniesCommand(pattern, this.#reading(name, text));
      case 'path':
        return [text, ...this.#leadsTo(name)].some((path) => deniesPath(pattern, path));
      case 'url':
        return deniesUrl(pattern, text);
      case 'text':
        return false;
    }
  }

  /** The text of the parameter matches the pattern already. */
  #allowsNamed(name: string, pattern: string): boolean {
    const text = scalarText(this.#call.arguments, name);
    if (text === undefined) return false;
    switch (this.#kinds.get(name) ?? 'text') {
      case 'command':
        return this.#allowsCommand(name, pattern, text);
      case 'path':
        return allowsPath(pattern, text) && this.#allowsPlace(name, pattern, text);
      case 'url':
        return allowsUrl(pattern, text);
      case 'text':
        return true;
    }
  }

  /**
   * The commands of one line may be covered by different rules: by the one in question, which is
   * reported because it matches the whole line, and by all that stand. Not by another allow-once:
   * that would not be used up.
   */
  #allowsCommand(name: string, pattern: string, text: string): boolean {
    const patterns = this.#covering.get(name) ?? this.#coveringPatterns(name);
    this.#covering.set(name, patterns);
    if (!patterns.includes(pattern)) return grantsCommand(text, [pattern, ...patterns]);
    const covered = this.#covered.get(name) ?? grantsCommand(text, patterns);
    this.#covered.set(name, covered);
    return covered;
  }

  /** Patterns of standing rules about this parameter that allow all the others. */
  #coveringPatterns(about: string): readonly string[] {
    const rules = this.#standing.filter(
      (rule) =>
        rule.tool === this.#call.name && rule.exact === undefined && this.#namesSensitive(rule),
    );
    return rules.flatMap((rule) => {
      const others = Object.entries(rule.params ?? {}).filter(([name]) => name !== about);
      const hold = others.every(([name, pattern]) => this.#holds(name, pattern));
      return hold ? (patternFor(rule, about) ?? []) : [];
    });
  }

  #holds(name: string, pattern: string): boolean {
    const text = scalarText(this.#call.arguments, name);
    if (text === undefined || !compileGlob(pattern).matches(text)) return false;
    if (this.#kinds.get(name) === 'command') return grantsCommand(text, [pattern]);
    return this.#allowsNamed(name, pattern);
  }

  /** Without a pattern all is allowed, unless a deny rule wants to look and cannot see. */
  #allowsUnnamed(name: string): boolean {
    const denials = this.#denylist.flatMap((rule) =>
      rule.tool === this.#call.name ? (patternFor(rule, name) ?? []) : [],
    );
    if (denials.length === 0 || !this.#has(name)) return true;
    const text = scalarText(this.#call.arguments, name);
    switch (this.#kinds.get(name) ?? 'text') {
      case 'command':
        return text !== undefined && isOpenToDenial(text, this.#reading(name, text), denials);
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

  /** What a path leads to, as seen from its root and from the root of all. */
  #leadsTo(name: string): readonly string[] {
    const { root = '', paths = {} } = this.#resolvedPaths ?? {};
    const place = Object.hasOwn(paths, name) ? paths[name] : undefined;
    return place === undefined ? [] : [withinRoot(root, place), place];
  }

  /** The place must lie where the pattern says too, in the words that the path was given in. */
  #allowsPlace(name: string, pattern: string, text: string): boolean {
    const [within, place] = this.#leadsTo(name);
    if (within === undefined || place === undefined) return true;
    return allowsPath(pattern, text.startsWith('/') ? place : within);
  }

  #leadsWhereItSays(): boolean {
    return Object.keys(this.#resolvedPaths?.paths ?? {}).every((name) => {
      const text = scalarText(this.#call.arguments, name);
      return text === undefined || this.#leadsTo(name).some((place) => samePath(place, text));
    });
  }

  #reading(name: string, text: string): CommandReading {
    const known = this.#readings.get(name) ?? readCommands(text);
    this.#readings.set(name, known);
    return known;
  }

  #has(name: string): boolean {
    const { arguments: values } = this.#call;
    return typeof values === 'object' && values !== null && Object.hasOwn(values, name);
  }
}

function patternFor(rule: ToolRule, name: string): string | undefined {
  const { params = {} } = rule;
  return Object.hasOwn(params, name) ? params[name] : undefined;
}
