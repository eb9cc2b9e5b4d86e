/*
 * A command as an approver reads it: contiguous pieces, each with what it is. Joined, they are exactly the
 * text.
 *
 * Rules
 *  - The scanner and the parser must agree where commands start. From the first place at which they do
 *    not, at which the parser finds an error, or from which on quotes are ambiguous (`scan.ts`), all of
 *    the text is `unparsed`. So is a text that is too long for the parser or has unusual characters.
 *  - Where a wrapper has options, each word that may be the wrapped command is a `possible-command`: an
 *    option may take the word after it. So is the word after a name that may expand to nothing.
 *  - An expansion shows the commands in it.
 */
import type { CommandRole, CommandSegment } from '@relay/protocol';
import { wrappedStarts } from './allow.ts';
import { startsWithin } from './deny.ts';
import { parsedStarts } from './parse.ts';
import { isWrapping, programName, wrapperFor } from './programs.ts';
import { scanShell, type ShellMark } from './scan.ts';
import { EXPANSION, type ShellWord } from './words.ts';

interface Piece {
  readonly role: CommandRole;
  readonly start: number;
  readonly end: number;
}

/** Wrappers and what they wrap, of one command. */
const MAX_STARTS = 32;
const KEYWORDS: ReadonlySet<string> = new Set(
  'if then elif else fi while until do done time coproc'.split(' '),
);
const LOOPS: ReadonlySet<string> = new Set(['for', 'select']);
const ASSIGNMENT = /^[A-Za-z_]\w*\+?=/;

export function segmentsOf(source: string): CommandSegment[] {
  const parsed = source.includes(EXPANSION) ? undefined : parsedStarts(source);
  if (parsed === undefined) return [{ text: source, role: 'unparsed' }];
  const { starts, errorAt } = parsed;
  const marks: ShellMark[] = [];
  const { commands, targets, ambiguousFrom } = scanShell(source, marks);
  const pieces: Piece[] = targets.map(({ start, end }) => ({ role: 'redirection', start, end }));
  let understoodTo = Math.min(ambiguousFrom, startOfError(source, errorAt));
  const found = new Set<number>();
  for (const { words } of commands) {
    const head = words.findIndex(({ start }) => starts.has(start));
    if (head >= 0) found.add(words[head]!.start);
    const roles = rolesOf(source, words, head);
    if (roles === undefined) understoodTo = Math.min(understoodTo, words[0]!.start);
    for (const [at, role] of (roles ?? []).entries()) {
      pieces.push({ role, start: words[at]!.start, end: words[at]!.end });
    }
  }
  for (const start of starts) if (!found.has(start)) understoodTo = Math.min(understoodTo, start);
  return joined(source, [...pieces, ...marks], understoodTo);
}

/** An error at the end is about the text before it: `ls &&`. */
function startOfError(source: string, errorAt: number | undefined): number {
  if (errorAt === undefined) return source.length;
  let start = source.trimEnd().length;
  if (errorAt < start) return errorAt;
  while (start > 0 && !' \t\n'.includes(source[start - 1]!)) start -= 1;
  return start;
}

/** What each word of a command is; undefined if it has words before its name that no command has. */
function rolesOf(
  source: string,
  words: readonly ShellWord[],
  head: number,
): CommandRole[] | undefined {
  const before = head < 0 ? words : words.slice(0, head);
  const [first] = before;
  const isLoop = head < 0 && first !== undefined && LOOPS.has(first.text);
  const leading: CommandRole[] = [];
  for (const [at, word] of before.entries()) {
    const role = isLoop ? roleInLoop(word, at) : roleBeforeName(source, word);
    if (role === undefined) return undefined;
    leading.push(role);
  }
  const named = head < 0 ? [] : rolesFrom(source, words.slice(head));
  return named === undefined ? undefined : [...leading, ...named];
}

/** `for x in a b` */
function roleInLoop({ text }: ShellWord, at: number): CommandRole {
  return at === 0 || (at === 2 && text === 'in') ? 'keyword' : 'argument';
}

function roleBeforeName(
  source: string,
  { text, quoted, start, end }: ShellWord,
): CommandRole | undefined {
  if (ASSIGNMENT.test(source.slice(start, end))) return 'assignment';
  if (quoted) return undefined;
  if (text === '!') return 'operator';
  return KEYWORDS.has(text) ? 'keyword' : undefined;
}

/** Of a command and its arguments; undefined if it wraps too many others. */
function rolesFrom(source: string, words: readonly ShellWord[]): CommandRole[] | undefined {
  const heads = new Map<number, CommandRole>([[0, 'command']]);
  const pending = [0];
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    const name = words[at]!.text;
    const rest = words.slice(at + 1);
    const wrapper = wrapperFor(name);
    const wrapped =
      wrapper !== undefined && isWrapping(wrapper, name, rest)
        ? wrappedStarts(rest, wrapper).starts
        : [];
    if (wrapped.length > 0 && heads.get(at) === 'command') heads.set(at, 'wrapper');
    const role = wrapped.length > 1 ? 'possible-command' : 'command';
    // What expands to nothing leaves the next word as the command: `$x rm`.
    const next = isOnlyExpansion(words[at]!) && at + 1 < words.length ? [at + 1] : [];
    const within = startsWithin(words, at, programName(name)).filter((each) => each < words.length);
    const found = [
      ...wrapped.map((index) => [at + 1 + index, role] as const),
      ...within.map((index) => [index, 'command'] as const),
      ...next.map((index) => [index, 'possible-command'] as const),
    ];
    for (const [index, each] of found) {
      if (heads.has(index)) continue;
      heads.set(index, each);
      pending.push(index);
    }
    if (heads.size > MAX_STARTS) return undefined;
  }
  let isWrapped = false;
  let onlyArguments = false;
  return words.map((word, at) => {
    const role = heads.get(at);
    if (role !== undefined) {
      isWrapped = role === 'wrapper';
      onlyArguments = false;
      return role;
    }
    if (isWrapped && ASSIGNMENT.test(source.slice(word.start, word.end))) return 'assignment';
    const isOption = !onlyArguments && word.text.length > 1 && word.text.startsWith('-');
    onlyArguments ||= word.text === '--';
    return isOption ? 'option' : 'argument';
  });
}

function isOnlyExpansion({ text, quoted, splits }: ShellWord): boolean {
  return splits && !quoted && text.replaceAll(EXPANSION, '') === '';
}

/** The text in pieces of one role each. Pieces inside of others count; `unparsed` starts at `from`. */
function joined(source: string, pieces: readonly Piece[], from: number): CommandSegment[] {
  const roles = Array.from<CommandRole | undefined>({ length: source.length });
  const inOrder = pieces.toSorted((a, b) => a.start - b.start || b.end - a.end);
  let unparsed = from;
  for (const { role, start, end } of inOrder) {
    roles.fill(role, start, end);
    // A word is parsed as a whole, or not at all.
    if (start < unparsed && unparsed < end) unparsed = start;
  }
  roles.fill('unparsed', unparsed);
  const segments: { text: string; role: CommandRole }[] = [];
  for (let at = 0; at < source.length; at += 1) {
    const char = source[at]!;
    const role = roles[at] ?? roleBetween(char, source[at + 1]);
    const last = segments.at(-1);
    if (last?.role === role) last.text += char;
    else segments.push({ text: char, role });
  }
  return segments;
}

/** Of a character that belongs to no word. */
function roleBetween(char: string, next: string | undefined): CommandRole {
  if (' \t\n'.includes(char) || (char === '\\' && next === '\n')) return 'space';
  return '{}!'.includes(char) ? 'operator' : 'unparsed';
}
