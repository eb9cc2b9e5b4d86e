/*
 * The parser is used to allow only. It returns undefined for anything that it does not
 * fully understand; the call then needs approval. unbash is lenient (it recovers from errors, and reads
 * unusual white space as words) and quadratic on deep nesting, so the text is checked before it is
 * parsed.
 */
import {
  type Command,
  forEachChild,
  parse,
  type ParsedScript,
  type Redirection,
  type Statement,
  type SyntaxNode,
  type Word,
  type WordPart,
} from 'unbash';
import { spendSteps } from '../step-budget.ts';

export interface ParsedCommand {
  readonly start: number;
  readonly end: number;
  /** Its words without quotes. */
  readonly words: readonly string[];
}

const MAX_LENGTH = 10_000;
/** What it costs to parse a character. */
const PARSE_STEPS = 50;
/** Bounds the nesting without parsing. */
const MAX_OPENERS = 256;
// Control and format characters, and white space that bash does not treat as blank.
const UNUSUAL = /[^\P{C}\t\n]|[^\P{Z} ]/u;
const BETWEEN_COMMANDS = /^[ \t\n;&|(){}!]*$/;
const HISTORY = /![\w!?#$*^{-]/;

/** The simple commands of a text in order, if it consists of nothing else. */
export function plainCommands(source: string): readonly ParsedCommand[] | undefined {
  if (HISTORY.test(source)) return undefined;
  return attempt(source, (script) => {
    const found: ParsedCommand[] = [];
    if (script.errors !== undefined || !collectList(script.commands, found)) return undefined;
    found.sort((a, b) => a.start - b.start);
    let end = 0;
    let between = '';
    for (const command of found) {
      between += source.slice(end, command.start);
      end = command.end;
    }
    // Comments belong to no command; text that was not checked is not allowed.
    return BETWEEN_COMMANDS.test(between + source.slice(end)) ? found : undefined;
  });
}

/** The names of all commands at any depth, if the text parses and every name is constant. */
export function commandNames(source: string): ReadonlySet<string> | undefined {
  return attempt(source, (script) => {
    const names = new Set<string>();
    const pending: SyntaxNode[] = [script];
    for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
      if ('errors' in node && node.errors !== undefined) return undefined;
      if (node.type === 'Command' && node.name !== undefined) {
        if (!isConstant(node.name)) return undefined;
        names.add(node.name.value);
      }
      forEachChild(node, (child) => pending.push(child));
    }
    return names;
  });
}

/**
 * Where the names of all commands at any depth start, and where the first error is; undefined if the text
 * cannot be parsed.
 */
export function parsedStarts(
  source: string,
): { readonly starts: ReadonlySet<number>; readonly errorAt: number | undefined } | undefined {
  return attempt(source, (script) => {
    const starts = new Set<number>();
    const errors: number[] = [];
    const pending: SyntaxNode[] = [script];
    for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
      if ('errors' in node) for (const { pos } of node.errors ?? []) errors.push(pos);
      if (node.type === 'Command' && node.name !== undefined) starts.add(node.name.pos);
      forEachChild(node, (child) => pending.push(child));
    }
    return { starts, errorAt: errors.length === 0 ? undefined : Math.min(...errors) };
  });
}

function attempt<Result>(
  source: string,
  read: (script: ParsedScript) => Result | undefined,
): Result | undefined {
  if (source.length > MAX_LENGTH) return undefined;
  spendSteps(PARSE_STEPS * source.length);
  if (UNUSUAL.test(source)) return undefined;
  let openers = 0;
  for (const char of source) if ('({[`'.includes(char)) openers += 1;
  if (openers > MAX_OPENERS) return undefined;
  try {
    return read(parse(source));
  } catch {
    return undefined; // an error in the parser must not allow a command
  }
}

function collectList(statements: readonly Statement[], found: ParsedCommand[]): boolean {
  return statements.every(
    (statement) => statement.background !== true && collect(statement.command, found),
  );
}

function collect(node: SyntaxNode, found: ParsedCommand[]): boolean {
  switch (node.type) {
    case 'Command':
      return collectCommand(node, found);
    case 'Pipeline':
      if (node.prefixes.some((prefix) => prefix.type !== 'Negation')) return false;
      return node.commands.every((command) => collect(command, found));
    case 'AndOr':
      return node.commands.every((command) => collect(command, found));
    case 'Subshell':
    case 'BraceGroup':
      return collectList(node.body.commands, found);
    default:
      return false;
  }
}

function collectCommand(command: Command, found: ParsedCommand[]): boolean {
  const { name, prefix, suffix, pos, end } = command;
  if (name === undefined || prefix.length > 0) return false;
  const words: string[] = [];
  for (const item of [name, ...suffix]) {
    if (item.type === 'Word') {
      if (!isPlain(item)) return false;
      words.push(item.value);
    } else if (item.type === 'Assignment' || !isHarmless(item)) {
      return false;
    }
  }
  found.push({ start: pos, end, words });
  return true;
}

/** Merging or discarding output writes no file, and `/dev/null` as input is empty. */
function isHarmless(redirection: Redirection): boolean {
  if (redirection.type !== 'Redirect') return false;
  const { operator, descriptor, target } = redirection;
  if (target === undefined || descriptor?.type === 'FileDescriptorVariable') return false;
  if (operator === '>&') return /^\d$/.test(target.text);
  return ['>', '>>', '<', '&>', '&>>'].includes(operator) && target.text === '/dev/null';
}

function isPlain(word: Word): boolean {
  return (word.parts ?? []).every(isPlainPart);
}

function isPlainPart(part: WordPart): boolean {
  switch (part.type) {
    case 'Literal':
    case 'SingleQuoted':
      return true;
    case 'Glob':
      return (part.parts ?? []).every(isPlainPart);
    case 'DoubleQuoted':
      return part.parts.every(isPlainPart);
    case 'SimpleExpansion':
      return part.text === '$?';
    default:
      return false;
  }
}

function isConstant(word: Word): boolean {
  return (word.parts ?? []).every((part) => {
    if (part.type === 'DoubleQuoted') return part.parts.every((inner) => inner.type === 'Literal');
    return part.type === 'Literal' || part.type === 'SingleQuoted' || part.type === 'AnsiCQuoted';
  });
}
